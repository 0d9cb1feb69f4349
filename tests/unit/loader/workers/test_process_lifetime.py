"""Iterators of worker processes that threads make at the same time,
or that the program never ends.
"""

import sys

import pytest

pytestmark = pytest.mark.slow

LOADERS = """
from torch.utils.data import DataLoader as Torchs
from ftloader import DataLoader as Ours

Ours.arguments = {"worker_method": "process"}
Torchs.arguments = {}

def make(kind, **arguments):
    return kind(range(8), num_workers=2, multiprocessing_context="fork", **arguments, **kind.arguments)
"""


@pytest.mark.parametrize(
    "leave",
    [
        "assert len(list(iterator)) == 8",
        "iterator._shutdown_workers()",
        "next(iterator)",
        "assert len(list(iterator)) == 8; iterator.itself = iterator",
    ],
)
def test_iterators_are_left_behind(run_program, leave):
    body = f"""
kept = []
for kind in Torchs, Ours:
    for persistent in False, True:
        iterator = iter(make(kind, persistent_workers=persistent))
        {leave}
        kept.append(iterator)
del iterator
"""
    assert run_program(LOADERS + body) == (0, "", "")


def test_workers_that_do_not_handle_sigterm_are_left_behind(run_program):
    """multiprocessing terminates them at the interpreter's exit. Those that have just started do
    not handle it, too.
    """
    body = """
import signal
kept = []
for kind in Torchs, Ours:
    # SIGTERM ends these workers, and so tells torch's handler of SIGCHLD that they failed.
    kept.append(iter(make(kind, worker_init_fn=lambda worker: signal.signal(signal.SIGTERM, signal.SIG_DFL))))
    next(kept[-1])
"""
    assert run_program(LOADERS + body) == (0, "", "")


@pytest.mark.skipif(
    sys._is_gil_enabled(), reason="with the GIL, threads cannot be in torch's map at the same time"
)
def test_threads_register_worker_processes_at_the_same_time(run_program):
    """Call what iterators call when their processes have started and when they end, very often.

    Without a lock half of the programs crash on a free-threaded build."""
    body = """
import os, resource, threading
from torch.utils.data._utils import signal_handling

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def start_and_end(first):
    for key in range(first, first + 20_000):
        signal_handling._set_worker_pids(key, (os.getpid(),))
        signal_handling._error_if_any_worker_fails()
        signal_handling._remove_worker_pids(key)

threads = [threading.Thread(target=start_and_end, args=(n * 1_000_000,)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""
    for _ in range(3):
        assert run_program(body) == (0, "done\n", "")
