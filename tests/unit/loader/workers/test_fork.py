"""Programs with worker threads that fork or spawn:
no child hangs or inherits workers or held locks.

A program that hangs fails by the tests' time limit.
"""

import os
import subprocess
import sys

import pytest

from tests.checkout import importable
from tests.unit.loader.workers.conftest import PRELUDE

pytestmark = pytest.mark.slow


def test_fork_from_a_thread_that_uses_no_iterator(run):
    """The thread that uses one does not exist in the child."""
    body = """
iterator = iter(loader(persistent_workers=True))
next(iterator)
def fork():
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except RuntimeError as error:
            print("make a new iterator" in str(error), flush=True)
        iterator.close()
        print(first(loader()), flush=True)
        os._exit(7)
    print(status(child), flush=True)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
print(next(iterator).item())
"""
    assert run(body) == (0, "True\n[[0], [1], [2]]\n7\n1\n", "")


@pytest.mark.parametrize("batch_size", [1, 50])
@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_child_that_returns_into_the_worker_that_forked_it(run, kind, batch_size):
    """The child has no consumer to hand a batch to, so it ends."""
    body = f"""
def sample(index):
    if index == 3:
        child = os.fork()
        if child:
            statuses.append(status(child))
    elif os.getpid() != parent:
        print("worked on", index, flush=True)
    return index

class Forking(Data):
    def __getitem__(self, index):
        return sample(index)

class Share(IterableDataset):
    def __iter__(self):
        return map(sample, range(1000)) if get_worker_info().id == 0 else iter(())

parent, statuses = os.getpid(), []
dataset = Forking() if "{kind}" == "map" else Share()
print(len(first(loader(dataset, batch_size={batch_size}), 4)), statuses)
"""
    assert run(body) == (0, "4 [0]\n", "")


def test_child_of_an_interpreter_that_exits(run):
    """A function of atexit forks when the workers of the program have ended."""
    body = """
import atexit
def report():
    child = os.fork()
    if child == 0:
        print(first(dl), flush=True)
        os._exit(3)
    print(status(child), first(dl))
dl = loader(persistent_workers=True)
atexit.register(report)
iterator = iter(dl)
next(iterator)
"""
    assert run(body) == (0, "[[0], [1], [2]]\n3 [[0], [1], [2]]\n", "")


def test_stuck_worker_of_the_parent_does_not_hold_up_a_child(run):
    body = """
inside = threading.Event()
class Stuck(Data):
    def __getitem__(self, index):
        inside.set()
        leave.wait()
leave = threading.Event()
iterator = iter(loader(Stuck()))
inside.wait()
child = os.fork()
if child == 0:
    sys.exit(7)
print(status(child))
leave.set()
"""
    assert run(body) == (0, "7\n", "")


def test_locks_are_free_in_a_child(run):
    """Every lock of a module, its classes and its objects is held during the fork,
    and free in the child.

    The one that a fork waits for is left out."""
    body = """
import importlib, pkgutil
import ftloader as package
for module in pkgutil.walk_packages(package.__path__, "ftloader."):
    importlib.import_module(module.name)
LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)

def attributes(value):
    names = {n for cls in type(value).__mro__ for n in getattr(cls, "__slots__", ())}
    return {n: getattr(value, n, None) for n in names} | getattr(value, "__dict__", {})

def locks():
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("ftloader."):
            continue
        for key, value in list(vars(module).items()):
            if value is importlib.import_module("ftloader.fork").registering:
                continue
            if isinstance(value, LOCKS):
                yield f"{name}.{key}", value
            elif str(getattr(value, "__module__", "")).startswith("ftloader."):
                for attribute, inner in attributes(value).items():
                    if isinstance(inner, LOCKS):
                        yield f"{name}.{key}.{attribute}", inner

def hold():
    for lock in {id(lock): lock for _, lock in locks()}.values():
        assert lock.acquire(blocking=False)
    held.set()
    leave.wait()
held, leave = threading.Event(), threading.Event()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    for name, lock in locks():
        print(name, "free" if lock.acquire(blocking=False) else "HELD", flush=True)
    os._exit(0)
status(child)
leave.set()
"""
    code, out, err = run(body)
    assert (code, err) == (0, "")
    assert "ftloader.compat.worker_map._map_of_workers free" in out
    assert "HELD" not in out


def test_a_fork_does_not_wait_for_a_finalizer_that_waits_for_a_worker(run):
    """The finalizer runs in a garbage collection while an object with a lock is made,
    for which a fork waits.
    """
    body = """
import ftloader.workers.exit
from ftloader import fork
ftloader.workers.exit.JOIN_LIMIT = 1000
inside, leave = threading.Event(), threading.Event()
class Stuck(Data):
    def __getitem__(self, index):
        inside.set()
        leave.wait()
def fork_a_child():
    child = os.fork()
    if child == 0:
        os._exit(7)
    print(status(child))
    leave.set()
iterator = iter(loader(Stuck()))
inside.wait()
forking = threading.Thread(target=fork_a_child)
with fork.registering:
    forking.start()
    del iterator
forking.join()
"""
    assert run(body) == (0, "7\n", "")


def test_child_of_a_thread_that_ends_there_as_threads_do(run):
    """No exit hook runs there; its workers end nevertheless."""
    body = """
def end():  # at once: not as torch's libraries do, in half a minute
    for worker in sys.held._workers:
        worker.join()
    os._exit(7)
def fork():
    child = os.fork()
    if child == 0:
        sys.held = iter(loader())
        print(next(sys.held).item(), flush=True)
        threading.Thread(target=end, daemon=True).start()
        return
    print(status(child))
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
    assert run(body) == (0, "0\n7\n", "")


def test_worker_processes_that_use_worker_threads(run):
    """A loader with threads inside the dataset of one with processes, next to one with threads."""
    body = """
class Nested(Data):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        self.left_open = iter(inner)
        return torch.stack([next(self.left_open).sum() for _ in range(2)])
inner = loader(batch_size=4)
outside = iter(inner)
next(outside)
dl = DataLoader(Nested(), num_workers=2, batch_size=4, worker_method="process", multiprocessing_context="fork")
print([batch.tolist() for batch in dl] == [[[6, 22]] * 4] * 2, next(outside).tolist())
"""
    assert run(body) == (0, "True [4, 5, 6, 7]\n", "")


def test_processes_started_by_the_dataset(run):
    body = """
class Starting(Data):
    def __getitem__(self, index):
        if index % 2:
            return int(subprocess.run(["echo", str(index)], capture_output=True).stdout)
        queue = multiprocessing.get_context("fork").SimpleQueue()
        process = multiprocessing.get_context("fork").Process(target=queue.put, args=(index,))
        process.start()
        process.join()
        return queue.get() if process.exitcode == 0 else -1
print(first(loader(Starting(), batch_size=5)))
"""
    expected = [[*range(n, n + 5)] for n in (0, 5, 10)]
    assert run(body) == (0, f"{expected}\n", "")


def test_multiprocessing(tmp_path):
    """A child gets a loader that is in use here, uses it, and keeps an iterator to its end."""
    body = """
def work(dl, queue):
    sys.held = iter(dl)
    queue.put([next(sys.held).tolist() for _ in range(2)])
    queue.put([t.daemon for t in threading.enumerate()])

if __name__ == "__main__":
    sys.held = []
    for method in ("fork", "forkserver", "spawn"):
        context = multiprocessing.get_context(method)
        dl = loader(batch_size=3)
        iterator = iter(dl)
        next(iterator)
        queue = context.SimpleQueue()
        process = context.Process(target=work, args=(dl, queue))
        process.start()
        after = next(iterator).tolist()
        process.join()
        print(method, after, process.exitcode, queue.get(), queue.get() is not None, flush=True)
        sys.held.append(iterator)
"""
    script = tmp_path / "program.py"  # which the children import
    script.write_text(PRELUDE + body)
    environment = os.environ | {"PYTHONPATH": importable()}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    right = "[3, 4, 5] 0 [[0, 1, 2], [3, 4, 5]] True"
    assert done.stdout.splitlines() == [
        f"{method} {right}" for method in ("fork", "forkserver", "spawn")
    ]


def test_child_of_multiprocessing_waits_for_the_sample_in_hand(run):
    """The child drops its parent's atexit functions, but not this package's. It also waits for
    workers of a thread that outlives the main thread."""
    body = """
class Writing(Data):
    def __getitem__(self, index):
        inside.set()
        time.sleep(0.5)
        print("ends", flush=True)
def consume():
    main.join()
    inside.clear()
    sys.second = iter(loader(Writing(), num_workers=1))
    inside.wait()
def work():
    global main
    main = threading.main_thread()
    sys.first = iter(loader(Writing(), num_workers=1))
    inside.wait()
    threading.Thread(target=consume).start()
inside = threading.Event()
iterator = iter(loader())
next(iterator)
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
print(process.exitcode)
"""
    assert run(body) == (0, "ends\nends\n0\n", "")
