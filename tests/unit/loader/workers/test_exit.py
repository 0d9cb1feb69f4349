"""The end of the program for consumers that are daemon threads, and how a worker says that it has ended."""

import pytest

from ftloader import DataLoader
from tests.datasets import Gated
from tests.unit.loader.workers.programs import PRELUDE

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("persistent", [False, True])
def test_daemon_thread_that_consumes_ends_without_a_traceback(run_program, persistent):
    body = f"""
def consume():
    for _ in loader(0.01, persistent_workers={persistent}):
        used.set()
used = threading.Event()
threading.Thread(target=consume, daemon=True).start()
used.wait()
print("end")
"""
    assert run_program(PRELUDE + body) == (0, "end\n", "")


def test_daemon_thread_that_feeds_another_thread_gets_an_error(run_program):
    """The thread that waits for it, which the interpreter waits for, must hear of the end."""
    body = """
def consume():
    try:
        for _ in loader(0.01):
            batches.put(None)
            used.set()
    except Exception as error:
        batches.put(type(error).__name__)
def train():
    while (error := batches.get()) is None:
        pass
    print(error)
batches, used = queue.SimpleQueue(), threading.Event()
threading.Thread(target=consume, daemon=True).start()
threading.Thread(target=train).start()
used.wait()
"""
    assert run_program(PRELUDE + "import queue\n" + body) == (0, "RuntimeError\n", "")


def test_exitcode():
    """As of a worker process: None until it has ended, then 0."""
    rows = Gated()
    iterator = iter(DataLoader(rows, num_workers=2, worker_method="thread"))
    workers = iterator._workers
    assert [worker.exitcode for worker in workers] == [None, None]
    rows.gate.set()
    assert len(list(iterator)) == 20
    assert [worker.exitcode for worker in workers] == [0, 0]
