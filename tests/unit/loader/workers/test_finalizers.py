"""Finalizers take no lock, and wait for no thread that may need one.
They run wherever garbage is collected.

Reports of deadlocks: mosaicml/llm-foundry#436, huggingface/accelerate#3391.
"""

import json
import os
import re
import subprocess
import sys

import pytest

import ftloader
from ftloader import fork
from tests.checkout import CHECKOUT, importable

PACKAGE = CHECKOUT / "loader" / "ftloader"

# In every lock of the package, garbage with each kind of finalizer is collected as soon as a thread
# first holds it.
PROGRAM = """
import gc, json, multiprocessing, os, sys, tempfile, threading, warnings, weakref
import fsspec, numpy as np, torch  # which have locks of their own

warnings.simplefilter("ignore")  # of a sample left out, and of fork() in a process with threads
collected_in, taken, kept, stock = set(), [], [], []
local, one_at_a_time, main_process = threading.local(), threading.Lock(), os.getpid()

class Canary:
    pass

def collect(place):
    if getattr(local, "inside", False):  # torch's signal handler, which takes a lock, interrupts a collection
        return
    local.inside = True
    with one_at_a_time:  # no collection begins during another
        if place not in collected_in:
            collected_in.add(place)
            collect_garbage(place)
    local.inside = False

def collect_garbage(place):
    garbage = [Canary(), *stock.pop()]
    canary = weakref.ref(garbage[0])
    garbage.append(garbage)
    del garbage
    local.collecting = True
    gc.collect()
    local.collecting = False
    if canary() is not None:
        kept.append(place)

class Watched:
    def __init__(self, lock, place):
        self._lock, self._place = lock, place

    def acquire(self, *args, **options):
        collecting = getattr(local, "collecting", False)
        if collecting:
            taken.append(self._place)
        held = self._lock.acquire(*args, **options)
        if held and stock and not collecting and self._place not in collected_in and os.getpid() == main_process:
            collect(self._place)
        return held

    __enter__ = acquire

    def __exit__(self, *_):
        self._lock.release()

    def __getattr__(self, name):
        return getattr(self._lock, name)

def watched(make):
    def lock():
        frame = sys._getframe(1)
        if frame.f_code.co_name == "rlock":  # of ftloader.fork
            frame = frame.f_back
        name = frame.f_globals["__name__"]
        return Watched(make(), f"{name} {frame.f_lineno}") if name.startswith("ftloader.") else make()
    return lock

threading.Lock, threading.RLock = watched(threading.Lock), watched(threading.RLock)

import ftloader
from ftloader import DataLoader, fork
from ftloader.cache import GrowingCache, UrlSource
from ftloader.diagnosis import loaders
from ftloader.iterators import processes
from ftloader.workers import exit

exit.JOIN_LIMIT = 100_000.0  # a finalizer that waits for a thread waits too long for this test
leave = threading.Event()

class Stuck:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        leave.wait()

class Large:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 5:
            raise ValueError(index)
        return np.zeros(300_000, np.uint8)

class Source:
    def keys(self):
        return map(str, range(10))
    def read(self, key):
        return bytes(3000)

def processes_of(dataset):
    return DataLoader(dataset, num_workers=1, worker_method="process", multiprocessing_context="fork")

def threads_of(dataset, **arguments):
    return DataLoader(dataset, num_workers=2, worker_method="thread", **arguments)

def cache():
    return GrowingCache(Source(), tempfile.mkdtemp(dir="."), max_bytes=1 << 20, fetchers=1)

gc.disable()
number = int(sys.argv[1])
ftloader.install()  # which it refuses once iterators run
forked = [iter(processes_of(range(4))) for _ in range(number)]
stock += [[forked.pop(), iter(threads_of(Stuck())), cache()] for _ in range(number)]

for arguments in ({"worker_init_fn": lambda worker: None}, {"copy_dataset": True}):
    assert len(list(threads_of(Large(), on_error="skip", **arguments))) == 7
with cache() as filled:
    filled.set_epoch(0)
    assert len(filled[0]) == 3000
for lock in (UrlSource(".")._opening, fork.registering):
    with lock:
        pass
ftloader.install()
loaders.start()
threads_of(range(4))
for _ in range(2):  # the second one ends what was dropped during the first one
    assert len(list(processes_of(range(4)))) == 4
assert not processes._dropped and len(multiprocessing.active_children()) == len(stock)

leave.set()
local.collecting = True
exit._EndOfThread().__del__()
local.collecting = False
for thread in threading.enumerate():
    if isinstance(thread, exit.WorkerThread):
        thread.join()
print(json.dumps([sorted(collected_in), kept, sorted(set(taken))]))
"""


def module_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def sources():
    return {module_of(path): path.read_text() for path in PACKAGE.rglob("*.py")}


def locks():
    """Return each place, module and line, where the package makes a lock;
    not where it asks for a lock's type.
    """
    return {
        f"{module} {number}"
        for module, text in sources().items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"= (threading\.R?Lock|fork\.rlock)\(\)", line)
    }


@pytest.mark.slow
def test_garbage_is_collected_in_every_lock(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(len(locks()))],
        env=os.environ | {"PYTHONPATH": importable()},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    collected_in, kept, taken = json.loads(done.stdout)
    assert set(collected_in) == locks()
    assert kept == taken == []


def test_all_finalizers_are_listed():
    listed = set(re.findall(r"^- ``([\w.]+)``", fork.__doc__, re.M))
    with_finalizers = {
        module.removeprefix(f"{ftloader.__name__}.")
        for module, text in sources().items()
        if re.search(r"def __del__|weakref\.finalize\(", text)
    }
    assert listed == with_finalizers
    assert not any(re.search(r"weakref\.ref\([^()]*,", text) for text in sources().values())
