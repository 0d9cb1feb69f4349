"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m ftbench`` runs the comparison, ``python -m ftrun.info`` describes the
environment, ``python -m ftbench.trial_server`` offers this interpreter to a benchmark that
runs in another container. Importing this package is free: it imports nothing.
"""

__version__ = "0.1.0"
