"""`./twins`: builds the twins without Docker, with the scripts that the images use, and runs commands in them.

It needs Python 3.9 or newer and nothing but the standard library, since it makes the environments that have
everything else.
"""
