"""Thread safety: the audit of datasets (`audit`) and the reproducer of bugs (`repro`).

The terms of the audit:

- key: the index of a sample; in an iterable-style dataset, a worker's id, for that worker's first
  samples
- reference: copies of the samples from the first loading, which one thread did alone
- user code: all code but ftloader, the audit, the standard library and installed packages
- observation: two threads load the same samples, one after the other, while the audit watches the
  dataset's code
- to draw: to take random numbers from a global generator, or to seed it
- burst: loading by all threads at the same time, in rounds; in each round, each thread loads one
  sample
- second look: repeated loading, which confirms a failure that was seen once
- finding: a fault of the dataset or a remark on it, in the report

The terms of repro:

- twin: one of two interpreters, free-threaded ("ft") or not ("gil")
- configuration: a twin with its GIL on or off ("gil", "ft-gil", "ft"), or an interpreter named by
  ``--interpreter``
- run: one execution of the script; round: a run in each configuration; campaign: all rounds
- outcome: how a run ended. A run *counts* if it succeeded or failed, unlike one that hit a limit or
  was blocked
- blocked: ended before any threads could race, for example because a package is missing
- signature: kind, name and place of a failure
- TwinError: the twin cannot be used; Interrupted: a signal, such as that of Ctrl-C, asked the
  program to stop
- walls: a container without network and without privileges, in which the script runs
- task: a campaign that one worker of a Dask cluster makes; node: the machine of that worker

An object that is *owned by one thread* has no lock: no other thread may use it.
"""
