"""get_worker_info(), and the other state that belongs to a worker thread."""

import concurrent.futures
import random
import threading

import numpy as np
import pytest
import torch
import torch.utils.data
import torch.utils.data._utils.worker
from torch.utils.data import Dataset
from torch.utils.data import get_worker_info as imported_at_the_top

import ftloader
from ftloader import DataLoader
from tests.worker_threads import PREFIX

pytestmark = pytest.mark.timeout(60)


class Info(Dataset):
    """Each sample is what the worker sees of itself."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        others = (imported_at_the_top(), ftloader.get_worker_info(), torch.utils.data._utils.worker.get_worker_info())
        assert all(other is info for other in others)
        return info.id, info.num_workers, info.seed, info.dataset is self


def test_every_way_to_ask(worker_method):
    generator = torch.Generator().manual_seed(5)
    dl = DataLoader(
        Info(), batch_size=None, num_workers=2, worker_method=worker_method, generator=generator, collate_fn=tuple
    )
    infos = list(dl)
    assert {id for id, *_ in infos} <= {0, 1}
    assert {number for _, number, *_ in infos} == {2}
    seeds = {id: seed for id, _, seed, _ in infos}
    base = torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(5))
    assert all(seed == base.item() + id for id, seed in seeds.items())
    assert all(own for *_, own in infos)
    assert imported_at_the_top() is None


def test_each_thread_has_its_own():
    both = threading.Barrier(2)

    class Together(Info):
        def __getitem__(self, index):
            both.wait(30)  # both workers are inside
            before = imported_at_the_top()
            both.wait(30)
            assert imported_at_the_top() is before
            return before.id

    dl = DataLoader(Together(), batch_size=None, num_workers=2, worker_method="thread")
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
    class Elsewhere(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                return pool.submit(imported_at_the_top).result() is None

    dl = DataLoader(Elsewhere(), batch_size=None, num_workers=1, worker_method="thread")
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


def test_map_style_dataset_is_shared_not_copied():
    rows = [object() for _ in range(4)]
    dl = DataLoader(rows, batch_size=None, num_workers=2, worker_method="thread", collate_fn=lambda row: row)
    assert all(a is b for a, b in zip(dl, rows, strict=True))


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


def test_workers_use_one_intra_op_thread_and_nobody_else_notices():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        torch.get_num_threads()

        class Threads(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return torch.get_num_threads()

        dl = DataLoader(Threads(), batch_size=None, num_workers=2, worker_method="thread")
        assert list(dl) == [1, 1, 1, 1]
        assert torch.get_num_threads() == 3
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_operations_in_a_worker_start_no_threads(run_program):
    """Neither of OpenMP nor of MKL, which has a number of its own."""
    body = """
import os
import torch
from ftloader import DataLoader

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
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_threads_that_begin_while_workers_start_have_torchs_number_of_threads():
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


def test_pin_memory(worker_method):
    dl = DataLoader(range(8), batch_size=4, num_workers=2, worker_method=worker_method, pin_memory=True)
    if not torch.accelerator.is_available():
        with pytest.warns(UserWarning, match="no accelerator is found"):
            batches = list(dl)
        assert not any(batch.is_pinned() for batch in batches)
    else:
        batches = list(dl)
        assert all(batch.is_pinned() for batch in batches)
    assert torch.cat(batches).tolist() == [*range(8)]


def test_pin_memory_of_a_custom_type_happens_in_the_worker():
    if not torch.accelerator.is_available():
        pytest.skip("no accelerator: torch pins nothing")
    dl = DataLoader(
        range(8), batch_size=4, num_workers=2, worker_method="thread", pin_memory=True, collate_fn=WithPinMemory
    )
    for batch in dl:
        assert batch.tensor.is_pinned()
        assert batch.pinned_in.startswith(PREFIX)
