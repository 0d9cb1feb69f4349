"""`./twins`: builds the twins without Docker, with the scripts that the images use, and runs commands in them.

This package needs Python 3.9 or newer and nothing but the standard library, because it makes the environments that
hold everything else.
"""
