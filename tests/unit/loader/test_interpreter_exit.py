"""Whole programs end as if there were no loader: with live iterators, busy workers, workers
that never return, on Ctrl-C, by any way to exit.

A worker that is blocked for ever makes a program hang for ever, which the tests' time limit
turns into a failure; so no test needs to look at a clock, but for the one about the limit.
"""

import signal
import time

import pytest

from tests.worker_threads import PREFIX

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.thread_unsafe(reason="the programs share one process that starts them"),
]

PRELUDE = """
import os, sys, threading, time
import torch
from ftloader import DataLoader

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
        # Its loop is ended by our RuntimeError, or not at all, as the exit has it; which may also
        # come in the midst of the traceback: then a frame is the last that can be read.
        cut_short = err and err.splitlines()[-1].startswith((" ", "Traceback "))
        assert code == 0 and ("Traceback" not in err or "was shut down" in err or cut_short), err
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
    print("interrupted after", time.monotonic() - float(sys.stdin.readline()) < 20, flush=True)
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
def interrupt():
    waits.wait()
    time.sleep(2)  # the main thread needs much less from there into next()
    signal.pthread_kill(main, signal.SIGINT)
waits = threading.Event()
threading.Thread(target=interrupt).start()
try:
    waits.set()
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


@pytest.mark.parametrize(
    ("leave", "status"),
    [
        ("sys.exit(5)", 5),
        ("sys.exit('message')", 1),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("os._exit(6)", 6),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_exit_status_while_batches_are_built(run, leave, status):
    body = f"""
import resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
busy = threading.Event()
class Busy(Data):
    def __getitem__(self, index):
        busy.set()
        return sum(range(1000))
iterators = [
    iter(DataLoader(Busy(), batch_size=1000, num_workers=2, worker_method="thread")) for _ in range(5)
]
busy.wait()
{leave}
"""
    code, out, err = run(body)
    assert code == status
    assert "RuntimeWarning" not in err and PREFIX not in err


@pytest.mark.parametrize("dropped", [False, True])
def test_exit_waits_for_the_sample_in_hand(run, dropped):
    """No worker that can end is cut off, also if nobody waited for it before."""
    body = f"""
inside, leave = threading.Event(), threading.Event()
class Writing(Data):
    def __getitem__(self, index):
        print("begins", flush=True)
        inside.set()
        leave.wait()
        time.sleep(0.5)
        print("ends", flush=True)
box = [iter(DataLoader(Writing(), num_workers=1, worker_method="thread"))]
inside.wait()
assert not any(t.daemon for t in threading.enumerate())
def drop():
    box.clear()  # in a thread that is not the iterator's user, and so does not wait
    leave.set()
if {dropped}:
    dropper = threading.Thread(target=drop)
    dropper.start()
    dropper.join()
leave.set()
"""
    assert run(body) == (0, "begins\nends\n", "")


def test_threads_of_a_worker_are_no_daemon_threads(run):
    body = """
class Starting(Data):
    def __getitem__(self, index):
        thread = threading.Thread(target=time.sleep, args=(0,))
        thread.start()
        thread.join()
        return thread.daemon
iterator = iter(DataLoader(Starting(), num_workers=1, worker_method="thread"))
print(next(iterator).item())
"""
    assert run(body) == (0, "False\n", "")


STUCK = """
import ctypes, signal, warnings
import ftloader.workers.exit
ftloader.workers.exit.JOIN_LIMIT = %s
inside = threading.Event()
entered = threading.Semaphore(0)
def block():
    inside.set()
    entered.release()
    %s
class Stuck(Data):
    def __getitem__(self, index):
        block()
def stuck_iterator(**arguments):
    inside.clear()
    arguments = {"num_workers": 1, "worker_method": "thread"} | arguments
    iterator = iter(DataLoader(arguments.pop("dataset", None) or Stuck(), **arguments))
    inside.wait()
    return iterator
"""


@pytest.mark.parametrize(
    "block",
    [
        "time.sleep(1000)",
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "threading.Event().wait()",
        "ctypes.CDLL(None).pause()",
        "os.read(os.pipe()[0], 1)",
        "while True: pass",
    ],
)
def test_worker_that_never_returns(run, block):
    code, out, err = run(STUCK % (0.5, block) + "iterator = stuck_iterator()\nsys.exit(5)")
    assert code == 5 and out == ""
    assert f"RuntimeWarning: {PREFIX}-0 did not end within 0.5 s" in err
    assert "exits without waiting any longer" in err
    assert "in block\n" in err and "in __getitem__\n" in err
    assert "Traceback" not in err and "Fatal" not in err


@pytest.mark.parametrize(
    "program",
    [
        # User code that is not the dataset's.
        """
def collate(samples):
    block()
iterator = stuck_iterator(dataset=Data(), collate_fn=collate)
""",
        """
def init(worker_id):
    block()
iterator = stuck_iterator(dataset=Data(), worker_init_fn=init)
""",
        # Somebody waited for it before.
        """
warnings.simplefilter("ignore")
stuck_iterator().close()
warnings.simplefilter("default")
""",
        # Its consumer is a thread that outlives the main thread.
        """
def consume():
    main.join()
    sys.held = stuck_iterator()
main = threading.main_thread()
threading.Thread(target=consume).start()
""",
        # A function of atexit leaves it behind.
        """
import atexit
atexit.register(lambda: setattr(sys, "held", stuck_iterator()))
""",
    ],
)
def test_stuck_in_other_places(run, program):
    code, out, err = run(STUCK % (0.5, "time.sleep(1000)") + program)
    assert code == 0
    assert err.count(f"RuntimeWarning: {PREFIX}-0 did not end within 0.5 s") == 1
    assert "exits without waiting any longer" in err
    assert "in block\n" in err
    assert "Traceback" not in err and "Fatal" not in err


def test_many_stuck_workers_and_one_limit(run):
    limit = 5  # as it is by default
    body = """
import atexit
iterators = [stuck_iterator(num_workers=2) for _ in range(10)]
for _ in range(20):
    entered.acquire()
atexit.register(lambda: print(time.monotonic() - begin))
begin = time.monotonic()
"""
    code, out, err = run(STUCK % (limit, "time.sleep(1000)") + body)
    assert code == 0
    assert limit <= float(out) < limit + 30  # not 10 times as long
    assert err.count("did not end within 5 s") == 1
    assert err.count("in block\n") == 20


@pytest.mark.parametrize("action", ["error", "ignore"])
def test_warning_filters(run, action):
    body = f"""
warnings.simplefilter("{action}", RuntimeWarning)
iterator = stuck_iterator()
sys.exit(5)
"""
    code, out, err = run(STUCK % (0.5, "time.sleep(1000)") + body)
    assert code == 5
    assert ("in block\n" in err) == (action == "error")
    assert "Exception ignored" not in err


def test_closed_stderr(run):
    body = """
iterator = stuck_iterator()
sys.stderr.close()
sys.exit(5)
"""
    assert run(STUCK % (0.5, "time.sleep(1000)") + body) == (5, "", "")


def test_ctrl_c_while_the_exit_waits(start_python):
    body = """
threading._register_atexit(lambda: print("exiting", flush=True))  # comes before ours
iterator = stuck_iterator()
"""
    process = start_python(PRELUDE + STUCK % (1000, "time.sleep(1000)") + body)
    assert process.stdout.readline() == "exiting\n"
    time.sleep(1)  # for the wait to begin
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 0


def test_functions_of_atexit_use_loaders(run):
    body = """
import atexit
def evaluate():
    print([batch.item() for batch in DataLoader(range(3), num_workers=2, worker_method="thread")])
    sys.held = iter(loader())  # left behind
    print(next(sys.held).item())
    try:
        next(iterator)
    except RuntimeError as error:
        print("was shut down" in str(error))
atexit.register(evaluate)
iterator = iter(loader())
next(iterator)
"""
    assert run(body) == (0, "[0, 1, 2]\n0\nTrue\n", "")


def test_functions_of_atexit_from_before_the_loader_are_told_that_they_are_late(start_python):
    body = """
import atexit
def evaluate():
    try:
        iter(loader())
    except RuntimeError as error:
        print(error)
    print(len(list(DataLoader(range(3)))))
atexit.register(evaluate)
"""
    out, err = start_python(body + PRELUDE).communicate(timeout=100)
    assert "cannot be started any more: the interpreter exits" in out
    assert out.endswith("\n3\n") and err == ""


def test_sys_exit_in_a_consuming_thread(run):
    body = """
def consume():
    iterator = iter(loader(persistent_workers=True))
    next(iterator)
    sys.exit(9)  # of this thread only
thread = threading.Thread(target=consume)
thread.start()
thread.join()
print([t.name for t in threading.enumerate()])
"""
    assert run(body) == (0, "['MainThread']\n", "")


def test_iterator_in_the_local_storage_of_a_thread(run):
    """It is dropped when the thread is no longer one for the threading module."""
    body = """
local = threading.local()
def consume():
    local.iterator = iter(loader(seconds=0.01))
    next(local.iterator)
for _ in range(5):
    threading.Thread(target=consume).start()
"""
    assert run(body) == (0, "", "")
