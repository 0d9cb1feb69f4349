"""Running something in a twin: child processes, a protocol between containers with its servers, machine facts.

`ftbench` and `ftsafety` use it; it imports none of the project's other packages.
"""
