"""Running something in a twin: child processes and their end, the protocol and its servers, machine facts.

Knows nothing of what it runs: `ftbench` and `ftsafety` use it, and it imports none of the project's other packages.
"""
