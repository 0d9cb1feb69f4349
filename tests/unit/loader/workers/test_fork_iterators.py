"""Iterators in a forked child of the process that made them: an error that says so; no batch of the
parent is lost.
"""

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import gc, os, sys, warnings
from torch.utils.data import IterableDataset, get_worker_info
from ftloader import DataLoader

warnings.simplefilter("ignore", DeprecationWarning)  # of fork() in a process with threads

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 96, info.num_workers) if info else range(96))

def refuses(call):
    try:
        call()
    except RuntimeError as error:
        return "make a new iterator" in str(error)

def length():
    try:
        return len(iterator) == 48
    except TypeError:  # of an iterable-style dataset
        return type(dataset) is Stream

def again():
    return sorted(i for batch in loader for i in batch.tolist()) == list(range(96))

def drop():
    global iterator
    iterator = loader._iterator = None
    gc.collect()
    return again()

METHODS = {
    "next": lambda: refuses(lambda: next(iterator)) and refuses(iterator.__next__),
    "iter": lambda: iter(iterator) is iterator,
    "len": length,
    "close": lambda: getattr(iterator, "close", lambda: None)() is None,
    "shutdown": lambda: iterator._shutdown_workers() is None and again(),
    "state": lambda: loader.state_dict()["phase"] == "middle",
    "again": again,
    "drop": drop,
}
dataset = Stream() if %(iterable)r else range(96)
loader = DataLoader(dataset, batch_size=2, **%(arguments)r)
iterator = iter(loader)
got = next(iterator).tolist()
for name, method in METHODS.items():
    for leave in (sys.exit, os._exit) if name == "next" else (sys.exit,):  # os._exit runs nothing that could hang
        child = os.fork()
        if child == 0:
            if not method():
                print(name, flush=True)
            leave(7)
        if (status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) != 7:
            print(name, leave, status)
        got += next(iterator).tolist()
for batch in iterator:
    got += batch.tolist()
print(sorted(got) == list(range(96)))
"""

KINDS = {
    "thread": {"worker_method": "thread"},
    "thread-persistent": {"worker_method": "thread", "persistent_workers": True},
    "auto-persistent": {
        "num_workers": "auto",
        "worker_method": "thread",
        "persistent_workers": True,
    },
    "process": {"worker_method": "process"},
    "process-persistent": {"worker_method": "process", "persistent_workers": True},
}


@pytest.mark.parametrize(
    ("kind", "iterable"),
    [*((kind, False) for kind in KINDS), ("thread", True), ("process-persistent", True)],
)
def test_every_method_in_a_forked_child(run_program, kind, iterable):
    program = PROGRAM % {"iterable": iterable, "arguments": {"num_workers": 2} | KINDS[kind]}
    assert run_program(program) == (0, "True\n", "")


def test_serial_iterator_in_a_forked_child(run_program):
    """Without workers the child has a copy of all, and goes on with it."""
    program = """
import os
from ftloader import DataLoader
iterator = iter(DataLoader(range(6), batch_size=2))
next(iterator)
child = os.fork()
print([batch.tolist() for batch in iterator], flush=True)
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_program(program) == (0, "[[2, 3], [4, 5]]\n" * 2 + "7\n", "")
