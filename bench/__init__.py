"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m bench`` runs the comparison, ``python -m bench.info`` describes the
environment, ``python -m bench.peer`` offers this interpreter to a benchmark that
runs in another container. Importing this package is free: it imports nothing.
"""

__version__ = "0.1.0"
