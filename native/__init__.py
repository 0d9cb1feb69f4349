"""What `./twins` does: the twins on the bare machine, built by the scripts that the images use.

Runs on whatever Python 3.9 or newer the machine has, with the standard library alone, since it is what
makes the environments in which anything else could be imported.
"""
