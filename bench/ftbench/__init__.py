"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m ftbench`` runs the comparison, ``python -m ftrun.info`` describes the
environment, ``python -m ftbench.trial.server`` offers this interpreter to a benchmark that
runs in another container. Importing this package is free: it imports nothing.

| room | what is in it |
|---|---|
| plan | who is measured, on how much work, and what is compared |
| scenarios | the kinds of work, one file each |
| rounds | a run: twins, rounds, trials, and what disturbed them |
| measure, data | what happens inside a trial (`trial`), and what it reads |
| machine | its load and page cache, and what processes use of it |
| stats | from figures to ratios, intervals and waterfalls |
| document | results.json: form, writing, checking |
| report | terminal, page, summary and pictures |
"""

__version__ = "0.1.0"
