"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m ftbench`` runs the comparison, ``python -m ftrun.info`` describes the environment, ``python -m
ftbench.trial.server`` offers this interpreter to a benchmark that runs in another container. Importing this package is
free: it imports nothing.

The words of this package, each for one thing:

- scenario: a kind of data loading work; case: one condition that it is measured under;
- candidate: what is measured, that is a configuration, a variant of loading, a number of workers and a case;
- variant: a way of loading, such as this loader's threads or torch's processes;
- comparison: two sides whose ratio is of interest; pair: two candidates that a comparison is made of;
- waterfall: the steps from what people run today to threads without the GIL, one change at a time;
- trial: a process that measures one candidate, in short turns; round: a trial of every candidate.

| room | what is in it |
|---|---|
| plan | who is measured, on how much work, and what is compared |
| scenarios | the kinds of work, one file each |
| rounds | a run: twins, rounds, trials, and what disturbed them |
| trial | a trial's request, its process, and the endpoints that start it |
| measure, data | what happens inside a trial, and what it reads |
| machine | its load and page cache, and what processes use of it |
| stats | from figures to ratios, intervals and waterfalls |
| document | results.json: its records, schema, checks and files |
| report | all words and charts: terminal, page, summary, comparison of runs |
"""

__version__ = "0.1.0"
