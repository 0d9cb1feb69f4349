"""The work inside a trial: the loaders and the measurements."""
