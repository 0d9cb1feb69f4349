"""get_worker_info(), and other state that belongs to one worker thread."""

import concurrent.futures
import threading

import pytest
import torch
import torch.utils.data
import torch.utils.data._utils.worker
from torch.utils.data import get_worker_info as imported_at_the_top

from ftloader import DataLoader, sample_rng
from tests.datasets import Rows
from tests.thread_safe_generator import torch_has_thread_safe_generator  # noqa: F401  # a fixture


def test_no_info_outside_of_workers():
    def ask_elsewhere(index):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(imported_at_the_top).result() is None

    dl = DataLoader(Rows(2, ask_elsewhere), batch_size=None, num_workers=1, worker_method="thread")
    assert list(dl) == [True, True]
    assert imported_at_the_top() is None


def test_info_is_read_only_and_printable():
    def change(samples):
        info = imported_at_the_top()
        assert repr(info).startswith("WorkerInfo(id=0, num_workers=1, seed=")
        info.id = 3

    dl = DataLoader([1], num_workers=1, worker_method="thread", collate_fn=change)
    with pytest.raises((RuntimeError, AttributeError), match="(?i)cannot assign"):
        list(dl)


@pytest.mark.usefixtures("torch_has_thread_safe_generator")
def test_torchs_thread_safe_generator_is_that_of_the_sample():
    def draw(index):
        generator = torch.random.thread_safe_generator()
        assert generator is sample_rng().torch
        return torch.rand(3, generator=generator)

    def epoch(workers):
        seed = torch.Generator().manual_seed(0)
        return [
            *DataLoader(
                Rows(6, draw),
                batch_size=None,
                num_workers=workers,
                worker_method="thread",
                generator=seed,
            )
        ]

    before = torch.get_rng_state()
    assert torch.equal(torch.stack(epoch(1)), torch.stack(epoch(3)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
def test_operations_in_a_worker_start_no_threads(run_program):
    """Neither OpenMP's nor MKL's, which has a number of its own."""
    body = """
import os
import torch
from ftloader import DataLoader

def threads():
    return set(os.listdir("/proc/self/task"))

class Threads:
    def __len__(self):
        return 1
    def __getitem__(self, index):
        # their names: a thread that has ended is still counted for a moment
        before = threads()
        square @ square, square.exp(), torch.linalg.svd(square)
        return len(threads() - before)

torch.set_num_threads(4)
square = torch.rand(300, 300)
print(list(DataLoader(Threads(), batch_size=None, num_workers=1, worker_method="thread")))
# Here there are. Not for the SVD: four threads wait for each other in it, busily and thousands of
# times, which takes minutes where four CPUs are not free.
before = threads()
square @ square, square.exp()
print(len(threads() - before))
"""
    assert run_program(body) == (0, "[0]\n3\n", "")


def test_threads_that_start_with_workers_have_torchs_number_of_threads():
    before = torch.get_num_threads()
    seen, done = [], threading.Event()

    def look_in_new_threads():
        while not done.is_set():
            thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            thread.start()
            thread.join()

    try:
        torch.set_num_threads(3)
        torch.get_num_threads()
        looking = threading.Thread(target=look_in_new_threads)
        looking.start()
        for _ in range(10):
            next(iter(DataLoader(range(8), num_workers=8, worker_method="thread")))
        done.set()
        looking.join()
    finally:
        done.set()
        torch.set_num_threads(before)
    assert set(seen) == {3}
