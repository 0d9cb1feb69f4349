"""Code shared by `ftbench` and `ftsafety`: child processes, client and server for containers, facts of the machine.

This package imports no other package of the project.
"""
