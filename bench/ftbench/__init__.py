"""Paired measurement of data loading with and without Python's global interpreter lock.

``python -m ftbench`` runs the benchmark, ``python -m ftrun.info`` describes the environment.
``python -m ftbench.trial.server`` lets a benchmark in another container run trials in this
interpreter.

The words of this package:

- scenario: a kind of data loading work; case: one setting of a scenario, such as a sample size;
- variant: a way of loading, such as this loader's threads or torch's processes; peer: a loader of
  another project;
- twin: one of two interpreters, free-threaded ("ft") or not ("gil"); configuration: a twin with its
  GIL on or off;
- endpoint: the place where a twin's trials run: a Python of this machine, or a server in another
  container;
- candidate: a combination that is measured: a configuration, a variant, a number of workers and a
  case;
- comparison: two sides (a configuration and a variant each) whose ratio is reported; pair: one
  candidate of each side;
- drop rank: if the budget (time for a run) is short, candidates of the highest drop rank go first,
  those of 0 never;
- waterfall: the steps from torch's DataLoader to threads without the GIL, one change each; chain:
  its candidates;
- trial: a process that measures one candidate; turn: a short time in which one trial measures while
  others wait;
- rank: with --ranks, one of N processes of a trial, each with its own loader and its share of the
  batches;
- round: one trial of every candidate; controller: the process that starts the trials and writes the
  results;
- consumer: what takes batches from a loader, like a training loop; thread-safety suite: the tests
  in tests/stress;
- record: an object in results.json (ftbench.document); verdict: the conclusion about a ratio, such
  as "above 1";
- kind of machine: in a merge of runs, machines with equal processor, CPUs and GPUs, and nearly
  equal memory.

The first line of each directory's ``__init__.py`` says what the directory holds.
This file imports nothing.
"""
