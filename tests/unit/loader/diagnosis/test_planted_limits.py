"""``str(loader.statistics())`` names the planted limit, and what to change."""

import http.server
import os
import subprocess
import sys
import threading
import time
import urllib.request
import zlib

import numpy as np
import pytest
import torch

from ftloader import DataLoader
from tests.checkout import importable

CPUS = os.process_cpu_count()
LOCK = threading.Lock()
PACKED = zlib.compress(bytes(4_000_000))


class Planted(torch.utils.data.Dataset):
    """80 samples, each of which costs what *plan* names."""

    def __init__(self, plan):
        self.plan = plan

    def __len__(self):
        return 80

    def __getitem__(self, index):
        if self.plan == "disk":
            time.sleep(0.03)
        elif self.plan == "lock":
            with LOCK:
                time.sleep(0.02)
        elif self.plan == "python":
            sum(range(200_000))
        elif self.plan == "transform":
            zlib.decompress(PACKED)  # without the GIL
        elif self.plan.startswith("http:"):
            urllib.request.urlopen(self.plan).close()
        return np.full(1000, index, np.float32)


class Stream(torch.utils.data.IterableDataset):
    """60 samples a worker; worker 1 takes ten times as long for each as the others."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for number in range(60):
            time.sleep(0.02 if info.id == 1 else 0.001)
            yield torch.tensor(number)


class SlowSampler(torch.utils.data.Sampler):
    def __iter__(self):
        for index in range(80):
            time.sleep(0.005)
            yield index

    def __len__(self):
        return 80


class FarAway(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.05)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def network():
    """The address of a server that answers after 50 ms."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FarAway) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def slow_collate(samples):
    time.sleep(0.2)
    return torch.utils.data.default_collate(samples)


def slow_start(worker_id):
    time.sleep(2)


def check(dataset, method, workers, limit, change, step=0.0, **options):
    """Run an epoch whose loop takes *step* seconds a batch;
    compare the second and third line of the statistics.

    Another program that takes a CPU for most of an epoch is a limit of its own, so there are five
    epochs at most.
    """
    options = options if "batch_sampler" in options else {"batch_size": 8, **options}
    batches = DataLoader(dataset, num_workers=workers, worker_method=method, **options)
    told = []
    for _ in range(5):
        for _ in batches:
            time.sleep(step)
        told.append(str(batches.statistics()).splitlines())
        if told[-1][1].startswith(f"limit: {limit}") and change in told[-1][2]:
            return batches.statistics()
    raise AssertionError(told)


WAITS, COMPUTES = "the dataset, which waits", "the dataset, which computes"
ONE_BY_ONE = [[number % 80] for number in range(600)]
CASES = {
    "no-workers": ("disk", "thread", 0, "no workers", "num_workers="),
    "disk-2-threads": ("disk", "thread", 2, WAITS, "num_workers=4"),
    "disk-8-threads": ("disk", "thread", 8, WAITS, "num_workers=16"),
    "disk-processes": ("disk", "process", 2, WAITS, "num_workers=4"),
    "transform-threads": ("transform", "thread", 2, COMPUTES, "a cheaper dataset[i], or more CPUs"),
    "transform-processes": (
        "transform",
        "process",
        2,
        COMPUTES,
        "a cheaper dataset[i], or more CPUs",
    ),
    "too-many": ("transform", "thread", 2 * CPUS + 1, COMPUTES, f"num_workers={CPUS} is enough"),
    "lock": ("lock", "thread", 2, WAITS, "num_workers=4"),
}
if CPUS > 2:
    CASES["transform-threads"] = ("transform", "thread", 2, COMPUTES, f"num_workers={min(4, CPUS)}")
    CASES["transform-processes"] = (
        "transform",
        "process",
        2,
        COMPUTES,
        f"num_workers={min(4, CPUS)}",
    )


@pytest.mark.parametrize(
    ("plan", "method", "workers", "limit", "change"), CASES.values(), ids=CASES.keys()
)
@pytest.mark.slow
def test_the_dataset(plan, method, workers, limit, change):
    check(Planted(plan), method, workers, limit, change)


@pytest.mark.slow
def test_a_network(network):
    check(Planted(network), "thread", 4, WAITS, "num_workers=8")


@pytest.mark.parametrize("method", ["thread", "process"])
def test_collation(method):
    change = "make collate_fn cheaper"
    check(Planted("nothing"), method, 2, "collate_fn", change, collate_fn=slow_collate)


@pytest.mark.slow
def test_tiny_samples_with_processes():
    check(
        Planted("nothing"),
        "process",
        2,
        "the hand-over",
        "larger batches",
        batch_sampler=ONE_BY_ONE,
    )


def large_arrays(samples):
    return np.zeros(5_000_000, np.float32)  # pickled, and sent through a pipe


@pytest.mark.slow
def test_large_arrays_from_processes():
    check(Planted("nothing"), "process", 2, "the hand-over", "or tensors", collate_fn=large_arrays)


def test_a_sampler():
    check(
        Planted("nothing"),
        "thread",
        2,
        "the sampler",
        "draw its indices at once",
        sampler=SlowSampler(),
    )


def test_python_code_that_computes():
    batches = DataLoader(Planted("python"), batch_size=8, num_workers=2, worker_method="thread")
    told = []
    for _ in range(5):  # as in check()
        list(batches)
        found = batches.statistics()
        told.append(str(found))
        # Where other programs have the CPUs, these and not the GIL are what limits.
        gil = sys._is_gil_enabled() and found.queued < found.cpu / 2
        if ("limit: the GIL" if gil else f"limit: {COMPUTES}") in told[-1]:
            return
    raise AssertionError(told)


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.slow
def test_the_loop_and_needless_workers(method):
    check(Planted("nothing"), method, 4, "the loop", "num_workers=1 would do", step=0.2)


def test_the_loop_without_workers():
    check(Planted("nothing"), "thread", 0, "the loop", "nothing in the loader", step=0.05)


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.slow
def test_a_straggler(method):
    check(Stream(), method, 3, "worker 1", "in_order=False")


@pytest.mark.slow
def test_processes_that_start_slowly():
    check(
        Planted("nothing"),
        "process",
        2,
        "the start of",
        "persistent_workers=True",
        worker_init_fn=slow_start,
    )


OUT_OF_SHARED_MEMORY = """
import os, signal, torch
from ftloader import DataLoader

class Killed:
    def __len__(self): return 8
    def __getitem__(self, index): os.kill(os.getpid(), signal.SIGBUS)


def separate(samples):
    return [sample.clone() for sample in samples]


if __name__ == "__main__":
    large = [torch.zeros(1 << 20)] * 64
    # torch's collation writes there itself; else pickling moves tensors there. A kernel may end a process that writes.
    for dataset, collate_fn in ((large, None), (large, separate), (Killed(), None)):
        loader = DataLoader(dataset, batch_size=8, num_workers=2, worker_method="process", collate_fn=collate_fn)
        try:
            list(loader)
        except RuntimeError as error:
            print(*error.__notes__, loader.statistics(), sep="\\n")
"""


@pytest.mark.slow
def test_out_of_shared_memory(tmp_path):
    (tmp_path / "program.py").write_text(OUT_OF_SHARED_MEMORY)
    # A small /dev/shm of its own, in a mount namespace.
    inside = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=40m tmpfs /dev/shm && exec "$@"',
        "sh",
    ]
    try:
        if subprocess.run([*inside, "true"], capture_output=True).returncode:
            pytest.skip("this machine lets no program have a /dev/shm of its own")
    except OSError as error:
        pytest.skip(f"unshare cannot be run: {error}")
    command = [*inside, sys.executable, tmp_path / "program.py"]
    environment = {**os.environ, "PYTHONPATH": importable()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    words = "worker processes hand over batches in shared memory, and /dev/shm"
    assert done.stdout.count(f"{words} is full; it has 40 MiB in all: ") == 2
    assert done.stdout.count(f"{words} may be full; it has 40 MiB in all: ") == 1
    assert (
        done.stdout.count("\nlimit: shared memory (/dev/shm): it was full (batches lost: 1)\n") == 3
    )
    assert done.stdout.count('\nchange: worker_method="thread" needs none') == 3
    assert "picklable" not in done.stdout
