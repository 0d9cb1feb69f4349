"""`./twins`: builds the twins on this machine, without Docker, and runs commands in them.

The twins are two builds of CPython, free-threaded (ft) and with the GIL (gil), that have the same packages. This
package runs on Python 3.9 with the standard library alone, since all other packages are installed by its builds.
"""
