"""get_worker_info(), and other state that belongs to one worker thread."""

import concurrent.futures
import random
import threading

import numpy as np
import pytest
import torch
import torch.utils.data
import torch.utils.data._utils.worker
from torch.utils.data import get_worker_info as imported_at_the_top

from ftloader import DataLoader, sample_rng
from tests.datasets import Rows
from tests.thread_safe_generator import torch_has_thread_safe_generator  # noqa: F401  # a fixture
from tests.worker_threads import PREFIX

pytestmark = pytest.mark.timeout(60)


def test_each_thread_has_its_own():
    both = threading.Barrier(2)

    def load(index):
        both.wait(30)  # both workers are inside
        before = imported_at_the_top()
        both.wait(30)
        assert imported_at_the_top() is before
        return before.id

    dl = DataLoader(Rows(16, load), batch_size=None, num_workers=2, worker_method="thread")
    assert sorted(dl) == [0] * 8 + [1] * 8


def test_in_init_function_and_collate_function(worker_method):
    def init(worker_id):
        info = imported_at_the_top()
        assert (info.id, info.num_workers) == (worker_id, 2)

    def collate(samples):
        assert imported_at_the_top().num_workers == 2
        return samples

    dl = DataLoader([1, 2, 3], num_workers=2, worker_method=worker_method, worker_init_fn=init, collate_fn=collate)
    assert list(dl) == [[1], [2], [3]]


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
            *DataLoader(Rows(6, draw), batch_size=None, num_workers=workers, worker_method="thread", generator=seed)
        ]

    before = torch.get_rng_state()
    assert torch.equal(torch.stack(epoch(1)), torch.stack(epoch(3)))
    assert torch.equal(before, torch.get_rng_state())


def test_global_generators_are_left_alone():
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    dl = DataLoader(range(8), num_workers=2, worker_method="thread", generator=torch.Generator().manual_seed(0))
    list(dl)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()
    assert random.getstate() == states[2]


def test_workers_use_one_intra_op_thread_and_other_threads_keep_theirs():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        torch.get_num_threads()

        threads = Rows(4, lambda index: torch.get_num_threads())
        dl = DataLoader(threads, batch_size=None, num_workers=2, worker_method="thread")
        assert list(dl) == [1, 1, 1, 1]
        assert torch.get_num_threads() == 3
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_operations_in_a_worker_start_no_threads(run_program):
    """Neither OpenMP's nor MKL's, which has a number of its own."""
    body = """
import os
import torch
from ftloader import DataLoader, sample_rng

class Threads:
    def __len__(self):
        return 1
    def __getitem__(self, index):
        before = os.listdir("/proc/self/task")
        square = torch.rand(600, 600)
        square @ square, square.exp(), torch.linalg.svd(square)
        return len(os.listdir("/proc/self/task")) - len(before)

torch.set_num_threads(4)
print(list(DataLoader(Threads(), batch_size=None, num_workers=1, worker_method="thread")))
print(Threads()[0])  # here there are
"""
    assert run_program(body) == (0, "[0]\n3\n", "")


@pytest.mark.thread_unsafe(reason="sets torch's number of threads")
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


class WithPinMemory:
    def __init__(self, samples):
        self.tensor = torch.tensor(samples)
        self.pinned_in = None

    def pin_memory(self):
        self.tensor = self.tensor.pin_memory()
        self.pinned_in = threading.current_thread().name
        return self


def test_pin_memory_of_a_custom_type_happens_in_the_worker():
    if not torch.accelerator.is_available():
        pytest.skip("no accelerator: torch pins nothing")
    dl = DataLoader(
        range(8), batch_size=4, num_workers=2, worker_method="thread", pin_memory=True, collate_fn=WithPinMemory
    )
    for batch in dl:
        assert batch.tensor.is_pinned()
        assert batch.pinned_in.startswith(PREFIX)
