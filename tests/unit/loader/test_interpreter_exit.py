"""Whole programs: how they end with live iterators, on Ctrl-C, and around fork()."""

import signal
import time

import pytest

pytestmark = pytest.mark.timeout(120)

PRELUDE = """
import os, sys, threading, time
import torch
from loader import DataLoader

class Data:
    def __init__(self, seconds=0):
        self.seconds = seconds
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index

def loader(seconds=0, **arguments):
    return DataLoader(Data(seconds), num_workers=2, worker_method="thread", **arguments)
"""


@pytest.fixture
def run(run_program):
    return lambda body: run_program(PRELUDE + body)


@pytest.mark.parametrize(
    "body",
    [
        "iterator = iter(loader()); next(iterator)",
        "dl = loader(persistent_workers=True); next(iter(dl))",
        "iterator = iter(loader()); cycle = [iterator]; cycle.append(cycle)",
        "iterator = iter(loader(seconds=0.2, batch_size=1000))",
        "iterator = iter(loader()); next(iterator); sys.exit(0)",
        "its = [iter(loader()) for _ in range(10)]; [next(i) for i in its]",
        "sys.held = iter(loader()); next(sys.held)",
        # The consumer is a thread that outlives the main thread, by far or (without
        # sleeping) by little, and makes iterators before and after its end.
        *(
            f"""
held = []
def consume():
    held.append(iter(loader(seconds=0.001)))
    time.sleep({seconds})
    held.append(iter(loader(seconds=0.001, persistent_workers=True)))
    for _ in range(50):
        next(held[0]), next(held[1])
    print("consumed", flush=True)
threading.Thread(target=consume).start()
time.sleep({delay})
"""
            for seconds, delay in [(0.5, 0), (0.5, 0.2), (0, 0), (0, 0.05)]
        ),
        # A daemon thread is never waited for.
        """
def consume():
    for batch in loader(seconds=0.001):
        pass
threading.Thread(target=consume, daemon=True).start()
time.sleep(0.1)
""",
    ],
)
def test_exit_with_a_live_iterator(run, body):
    code, out, err = run(body)
    if "daemon" in body:
        # Its loop is ended by our RuntimeError, or not at all, as the exit has it.
        assert code == 0 and ("Traceback" not in err or "was shut down" in err)
    else:
        assert (code, err) == (0, "")
    assert out == ("consumed\n" if "consumed" in body else "")


def test_exit_status_of_an_unhandled_exception(run):
    code, out, err = run("it = iter(loader())\nnext(it)\n1 / 0")
    assert code == 1
    assert err.rstrip().endswith("ZeroDivisionError: division by zero")


def test_unhandled_exception_of_a_worker(run):
    body = """
class Bad(Data):
    def __getitem__(self, index):
        raise OSError("bad sample")
for batch in DataLoader(Bad(), num_workers=2, worker_method="thread"):
    pass
"""
    code, out, err = run(body)
    assert code == 1
    assert "OSError: bad sample" in err and "in loader worker thread" in err
    assert err.count("Traceback") == 1


@pytest.mark.parametrize("where", ["waiting for a batch", "working on a batch"])
def test_ctrl_c(start_python, where):
    body = """
def announce():
    print("ready", flush=True)

class Announcing(Data):
    def __getitem__(self, index):
        if index == 4:
            announce()
        time.sleep(0.05)
        return index

dl = DataLoader(Announcing(), batch_size=%s, num_workers=2, worker_method="thread")
try:
    for batch in dl:
        %s
except KeyboardInterrupt:
    print("interrupted after", time.monotonic() - float(sys.stdin.readline()) < 1.0, flush=True)
    raise
""" % (("1000", "pass") if where.startswith("waiting") else ("1", "time.sleep(60)"))
    process = start_python(PRELUDE + body, stdin=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.stdin.write(f"{time.monotonic()}\n")
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "interrupted after True\n"
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_an_interrupted_iterator_does_not_hang_later(run):
    body = """
import signal
dl = loader(seconds=0.05, batch_size=1000, persistent_workers=True)
iterator = iter(dl)
main = threading.get_ident()
threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
try:
    next(iterator)
except KeyboardInterrupt:
    print("interrupted")
try:
    next(iterator)
except RuntimeError as error:
    print("was shut down" in str(error))
dl.dataset.seconds = 0
print(next(iter(dl)).shape)
"""
    code, out, err = run(body)
    assert (code, err) == (0, "")
    assert out == "interrupted\nTrue\ntorch.Size([1000])\n"


def test_fork_while_workers_run(run):
    """A forked child has no worker threads: it neither hangs nor uses them, can make
    its own, and the parent does not notice."""
    body = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads
once = loader(); kept = loader(persistent_workers=True)
first, second = iter(once), iter(kept)
next(first), next(second)
child = os.fork()
if child == 0:
    try:
        next(first)
    except RuntimeError as error:
        print("forked" in str(error), flush=True)
    print([next(iter(dl)).item() for dl in (once, kept)], flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(next(first).item(), next(second).item())
"""
    code, out, err = run(body)
    assert (code, err) == (0, "")
    assert out == "True\n[0, 0]\n7\n1 1\n"


def test_worker_processes_beside_worker_threads(run):
    body = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads
from torch.utils.data import get_worker_info
class Info(Data):
    def __getitem__(self, index):
        return get_worker_info().id
threads = iter(DataLoader(Info(), num_workers=1, worker_method="thread"))
next(threads)
processes = iter(DataLoader(Info(), num_workers=2, worker_method="process"))
print([next(processes).item() for _ in range(4)], next(threads).item(), get_worker_info())
"""
    code, out, err = run(body)
    assert (code, err) == (0, "")
    assert out == "[0, 1, 0, 1] 0 None\n"


def test_blocked_worker_at_exit_is_named(run):
    body = """
import loader.worker_pool as pool
pool.WorkerPool.join.__defaults__ = (0.2,)
class Stuck(Data):
    def __getitem__(self, index):
        time.sleep(1.5)
        return index
iterator = iter(DataLoader(Stuck(), num_workers=1, worker_method="thread"))
time.sleep(0.2)
"""
    code, out, err = run(body)
    assert code == 0
    assert "RuntimeWarning: loader-worker-0 did not end within 0.2 s" in err
    assert "in __getitem__" in err
