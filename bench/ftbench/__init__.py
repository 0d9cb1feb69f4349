"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m ftbench`` runs the benchmark, ``python -m ftrun.info`` describes the environment, ``python -m
ftbench.trial.server`` offers this interpreter to a benchmark that runs in another container. Importing this package
imports nothing else.

The words of this package:

- scenario: a kind of data loading work; case: one setting of a scenario, such as a sample size;
- variant: a way of loading, such as this loader's threads or torch's processes;
- twin: one of two interpreters, free-threaded ("ft") or not ("gil"); configuration: a twin with its GIL on or off;
- candidate: a combination that is measured: a configuration, a variant, a number of workers and a case;
- comparison: two groups of candidates (sides) whose ratio is reported; pair: one candidate of each side;
- waterfall: the steps from torch's DataLoader to threads without the GIL, one change each; chain: its candidates;
- trial: a process that measures one candidate, in short turns; round: a trial of every candidate.

The first line of each directory's ``__init__.py`` says what the directory holds.
"""

__version__ = "0.1.0"
