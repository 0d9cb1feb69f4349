"""Code shared by `ftbench` and `ftsafety`: child processes, client and server for containers, facts
of the machine.

This package imports no other package of the project. The terms:

- twin: one of two interpreters with the same packages, free-threaded ("ft") or with the GIL ("gil")
- configuration: a twin with its GIL on or off: "gil", "ft", or "ft-gil" (the free-threaded twin
  with its GIL on)
- watch: file descriptors with callbacks. If a callback returns True, the function that was given
  the watch stops
- owned by one thread: an object that only one thread may use
- lock file: a requirements file that fixes (pins) the version of every package; a locked package is
  in this file
- verdict: the result of importing one package; finding: the result of reading its wheel for one
  interpreter
- normalised name: a package's name by PEP 503, such as "my-package" for "My_Package"
"""
