"""`./twins`: builds the twins on this machine, without Docker, and runs commands in them.

The twins are two builds of CPython with the same packages, one free-threaded (ft) and one with the GIL (gil). This
package runs on Python 3.9 with the standard library alone, since all other packages are installed by its builds.
"""
