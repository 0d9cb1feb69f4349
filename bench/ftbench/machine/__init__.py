"""The state of the machine: its load and other disturbance,
CPU time and memory of processes, the page cache.
"""
