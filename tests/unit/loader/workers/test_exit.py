"""The end of programs: with workers that never return,
after one limit and with their stacks, or daemon threads.
"""

import pytest

from tests.worker_threads import PREFIX

pytestmark = pytest.mark.slow

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


BLOCKS = (
    "time.sleep(1000)",
    "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "threading.Event().wait()",
    "ctypes.CDLL(None).pause()",
    "os.read(os.pipe()[0], 1)",
    "while True: pass",
)
ELSEWHERE = (
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
    # The program waited for it before.
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
)


@pytest.mark.parametrize(
    ("block", "program"),
    [
        *((block, "iterator = stuck_iterator()") for block in BLOCKS),
        *((BLOCKS[0], program) for program in ELSEWHERE),
    ],
)
def test_worker_that_never_returns(run, block, program):
    code, out, err = run(f"{STUCK % (0.5, block)}{program}\nsys.exit(5)")
    assert (code, out) == (5, "")
    assert err.count(f"RuntimeWarning: {PREFIX}-0 did not end within 0.5 s") == 1
    assert "exits without waiting any longer" in err
    assert "in block\n" in err and (program in ELSEWHERE or "in __getitem__\n" in err)
    assert "Traceback" not in err and "Fatal" not in err


def test_many_stuck_workers_and_one_limit(run):
    limit = 2
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
    assert limit <= float(out)
    assert err.count("did not end within 2 s") == 1  # not 10 times
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


def test_ctrl_c_while_the_exit_waits(run):
    body = """
def interrupt():
    waits.wait()
    print("interrupted", flush=True)
    pause = 0.2
    while not left.wait(pause):
        os.kill(os.getpid(), signal.SIGINT)
        pause = 60  # CPython does not notice a signal that comes just before it waits: press Ctrl-C again
def joining(threads, limit):
    waits.set()
    try:
        return join_all(threads, limit)
    finally:
        left.set()
waits, left, join_all = threading.Event(), threading.Event(), ftloader.workers.exit.join_all
ftloader.workers.exit.join_all = joining
threading.Thread(target=interrupt, daemon=True).start()
iterator = stuck_iterator()
"""
    code, out, _ = run(STUCK % (1000, "time.sleep(1000)") + body)
    assert (code, out) == (0, "interrupted\n")


@pytest.mark.parametrize("persistent", [False, True])
def test_daemon_thread_that_consumes_ends_without_a_traceback(run, persistent):
    body = f"""
def consume():
    for _ in loader(Data(0.01), persistent_workers={persistent}):
        used.set()
used = threading.Event()
threading.Thread(target=consume, daemon=True).start()
used.wait()
print("end")
"""
    assert run(body) == (0, "end\n", "")


def test_daemon_thread_that_feeds_another_thread_gets_an_error(run):
    """The thread that waits for it, which the interpreter waits for, must hear of the end."""
    body = """
def consume():
    try:
        for _ in loader(Data(0.01)):
            batches.put(None)
            used.set()
    except Exception as error:
        batches.put(type(error).__name__)
def train():
    while (error := batches.get()) is None:
        pass
    print(error)
import queue
batches, used = queue.SimpleQueue(), threading.Event()
threading.Thread(target=consume, daemon=True).start()
threading.Thread(target=train).start()
used.wait()
"""
    assert run(body) == (0, "RuntimeError\n", "")
