"""Runs a file's programs with a class in torch.utils.data.DataLoader's place,
before any library is imported.

    python in_place.py FILE

Does so in four processes, with torch's class, and with ours: threads, worker_method="auto", and
threads whose number the loader finds ("tuned"). Each prints its class, and as JSON for each
function `program_*` its name: the kinds of iterators that it made, and what it returned (or the
error that it raised). A program gets an empty folder.
"""

import inspect
import json
import os
import sys
import threading

import torch.utils.data
from unchanged import programs, result_of

import ftloader
from ftloader.iterators.auto import Chosen

KINDS = {
    "_MultiProcessingDataLoaderIter": "process",
    "ProcessDataLoaderIter": "process",
    "ThreadDataLoaderIter": "thread",
    "_SingleProcessDataLoaderIter": "serial",
    "SerialDataLoaderIter": "serial",
}
used = set()


def placed(base, tuned=False, **defaults):
    class DataLoader[T](base[T]):
        """`base` with another default, and a note of what its iterators are."""

        def __init__(self, *args, **kwargs):
            if tuned and kwargs.get("num_workers"):
                # As "auto" on as many CPUs. A library that rebuilds a loader with all of its
                # arguments hands that on.
                assert "worker_method" not in kwargs or type(kwargs["num_workers"]) is Chosen
                kwargs["num_workers"] = Chosen(kwargs["num_workers"])
            super().__init__(*args, **{**defaults, **kwargs})

        def _get_iterator(self):
            iterator = super()._get_iterator()
            used.add(
                next(
                    KINDS[each.__name__]
                    for each in type(iterator).__mro__
                    if each.__name__ in KINDS
                )
            )
            return iterator

    # As if it were the class itself: Lightning rebuilds loaders
    # from the arguments that it finds here.
    DataLoader.__init__.__signature__ = inspect.signature(base.__init__)
    return DataLoader


def main(loader, path):
    if loader == "torch":
        chosen = placed(torch.utils.data.DataLoader)
    else:
        tuned = loader == "tuned"
        chosen = placed(ftloader.DataLoader, tuned, worker_method="thread" if tuned else loader)
    torch.utils.data.DataLoader = torch.utils.data.dataloader.DataLoader = chosen
    found = {}
    for name, program in programs(path).items():
        used.clear()
        result = result_of(program)
        found[name] = sorted(used), result
    print(f"\n{loader} {json.dumps(found)}", flush=True)


if __name__ == "__main__":
    for loader in ("torch", "thread", "auto", "tuned"):
        if os.fork() == 0:
            main(loader, sys.argv[1])
            if any(thread.daemon for thread in threading.enumerate()):
                # A library's: this loader has none. CPython 3.13 unwinds them at its end wherever
                # they are, and in C++ code that aborts the process.
                os._exit(0)
            break  # ends as any program does
        if status := os.waitstatus_to_exitcode(os.wait()[1]):
            sys.exit(status)
