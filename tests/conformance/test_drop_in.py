"""Properties that torch's class and ours share without being asked: the same program with both."""

import contextvars
import decimal
import random
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
from torch.utils._pytree import tree_leaves
from torch.utils.data import IterableDataset, StackDataset, Subset, get_worker_info, random_split

from ftloader import DataLoader
from tests.datasets import Rows
from tests.in_threads import in_threads
from tests.worker_threads import until_collected

CLASSES = {
    "torch": lambda *args, **more: torch_data.DataLoader(
        *args, **more, multiprocessing_context="fork"
    ),
    "ours": lambda *args, **more: DataLoader(*args, **more, worker_method="thread"),
}


@pytest.fixture(params=CLASSES)
def loader_class(request):
    return CLASSES[request.param]


def number(index):
    if index == 5:
        raise ValueError("bad sample")
    return torch.tensor([index])


class NegativeBatches(Rows):
    def __getitems__(self, indices):
        return [torch.tensor([-i]) for i in indices]


def wrapped(dataset):
    return {
        "Subset": Subset(dataset, range(32)),
        "Subset of a Subset": Subset(Subset(dataset, range(32)), range(32)),
        "random_split": random_split(dataset, [32, 0], torch.Generator().manual_seed(1))[0],
        "StackDataset": StackDataset(x=dataset, y=dataset),
        "StackDataset of a tuple": StackDataset(dataset, Subset(dataset, range(32))),
    }


@pytest.mark.parametrize("name", wrapped(Rows(32, number)))
@pytest.mark.parametrize("workers", [0, 2])
def test_torchs_wrappers_skip_one_sample_not_its_batch(name, workers):
    loader = DataLoader(
        wrapped(Rows(32, number))[name],
        16,
        num_workers=workers,
        worker_method="thread",
        on_error="skip",
    )
    with pytest.warns(UserWarning, match="left out|skipped"):
        batches = list(loader)
    sizes = [len(tree_leaves(batch)[0]) for batch in batches]
    assert sum(sizes) == 31 and loader.skipped.count == 1


@pytest.mark.parametrize("name", wrapped(NegativeBatches(32, number)))
def test_torchs_wrappers_ask_for_batches_what_loads_batches(name, loader_class):
    loader = loader_class(wrapped(NegativeBatches(32, number))[name], 8, num_workers=2)
    for batch in loader:
        while not isinstance(batch, torch.Tensor):
            batch = batch["x"] if isinstance(batch, dict) else batch[0]
        assert (batch <= 0).all()


class OverridesGetitem(Subset):
    def __getitem__(self, index):
        return torch.tensor([-1])


def test_a_subset_with_an_own_getitem_is_read_as_torch_reads_it(loader_class):
    try:
        subset = OverridesGetitem(Rows(4, number), range(4))
    except NotImplementedError as error:
        pytest.skip(f"this torch refuses such a subset: {error}")
    loader = loader_class(subset, 4, num_workers=2)
    assert next(iter(loader)).flatten().tolist() == [0, 1, 2, 3]


def test_a_default_device_set_while_batches_come(loader_class):
    # samples that go into slots
    large = Rows(8, lambda index: np.full((64, 1024), index, np.float32))
    iterator = iter(loader_class(large, 4, num_workers=2))
    with torch.device("meta"):
        batches = list(iterator)
    assert [batch.device.type for batch in batches] == ["cpu", "cpu"]
    assert batches[1][:, 0, 0].tolist() == [4, 5, 6, 7]


LIMIT = contextvars.ContextVar("limit", default=0)
PARAMETER = torch.nn.Parameter(torch.ones(1))


def modes_of_a_worker(index):
    with warnings.catch_warnings(record=True):
        raised = 0
        try:
            np.ones(1) / np.zeros(1)
        except FloatingPointError:
            raised = 1
    made = PARAMETER * 2
    return [raised, LIMIT.get(), int(made.requires_grad), int(torch.is_autocast_enabled("cpu"))]


MODES = Rows(4, modes_of_a_worker)


def modes(loader_class):
    return torch.stack(next(iter(loader_class(MODES, 4, num_workers=2))), dim=1).tolist()


def test_workers_have_the_modes_of_the_thread_that_makes_the_iterator(loader_class):
    assert modes(loader_class) == [[0, 0, 1, 0]] * 4
    token = LIMIT.set(7)
    try:
        with np.errstate(divide="raise"), torch.no_grad(), torch.autocast("cpu"):
            assert modes(loader_class) == [[1, 7, 0, 1]] * 4
        with torch.inference_mode():
            iterator = iter(loader_class(MODES, 4, num_workers=2))
        assert not next(iterator)[0].is_inference()
    finally:
        LIMIT.reset(token)


@pytest.mark.parametrize("size", [3, 300])  # with and without memory that the loader has prepared
@pytest.mark.parametrize("name", CLASSES)
def test_batches_taken_in_inference_mode(name, size):
    iterator = iter(
        CLASSES[name](list(torch.ones(8, size)[:, None].expand(8, size, size)), 4, num_workers=2)
    )
    with torch.inference_mode():
        batch = next(iterator)
        assert torch.is_inference_mode_enabled()
    assert torch.equal(batch, torch.ones(4, size, size))
    assert batch.is_inference() is (name == "torch")  # docs/loader.md says so


def test_the_class_takes_a_type(loader_class):
    assert DataLoader[int] is not None

    class Typed(DataLoader[torch.Tensor]):
        pass

    assert len(list(Typed(range(4), num_workers=2))) == 4
    assert len(list(DataLoader[int](range(4), worker_method="thread", num_workers=1))) == 4


@pytest.mark.parametrize("name", CLASSES)
def test_iterators_have_workers_that_can_be_ended(name):
    iterator = iter(CLASSES[name](range(100), num_workers=2))
    workers = list(iterator._workers)
    assert len(workers) == 2 and all(worker.is_alive() for worker in workers)
    assert [worker.exitcode for worker in workers] == [None, None]
    assert [worker.pid is None for worker in workers] == [name == "ours"] * 2
    iterator._shutdown_workers()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()
    assert [worker.exitcode for worker in workers] == [0, 0]


class Epochs:
    number = 0


class ShardList(IterableDataset):
    """Stream that counts its epochs in a member, as webdataset's shard lists do."""

    def __init__(self):
        self.epochs = Epochs()

    def __iter__(self):
        self.epochs.number += 1
        info = get_worker_info()
        shards = np.random.default_rng(self.epochs.number).permutation(16)
        yield from shards[info.id :: info.num_workers].tolist()


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_counter_in_a_member(loader_class, persistent):
    loader = loader_class(ShardList(), 2, num_workers=2, persistent_workers=persistent)
    for _ in range(3):
        assert sorted(torch.cat(list(loader)).tolist()) == list(range(16))


def seed_as_torch_documents(worker_id):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.slow(cases=1)
def test_worker_init_fn_does_not_seed_the_program(loader_class):
    """The training loop's own numbers, and the orders of the epochs,
    are those of a program without workers.
    """

    def program(**more):
        random.seed(1), np.random.seed(2), torch.manual_seed(3)
        loader = loader_class(range(12), 4, shuffle=True, **more)
        found = []
        for _ in range(4):
            found.append(
                [torch.cat(list(loader)).tolist(), np.random.beta(0.2, 0.2), random.random()]
            )
        return found, torch.rand(1).item()

    (found, last) = program(num_workers=2, worker_init_fn=seed_as_torch_documents)
    assert (found, last) == program(num_workers=2)
    assert len({tuple(order) for order, _, _ in found}) == len({beta for _, beta, _ in found}) == 4


def initial_seed(index):
    return torch.tensor(torch.initial_seed() - get_worker_info().seed)


def test_the_initial_seed_of_a_worker_is_its_own(loader_class):
    before = torch.initial_seed()
    assert torch.cat(list(loader_class(Rows(2, initial_seed), num_workers=2))).tolist() == [0, 0]
    assert torch.initial_seed() == before


def test_two_threads_making_iterators_do_not_seed_the_program():
    """For ours alone: torch's process iterators write worker ids into one C++ map without a lock,
    and two threads that do so without the GIL crash the interpreter."""
    np.random.seed(0)
    expected = np.random.random()
    np.random.seed(0)

    def work(_):
        for _ in range(5):
            list(CLASSES["ours"](range(4), num_workers=1, worker_init_fn=seed_as_torch_documents))

    in_threads(work, range(2))
    assert np.random.random() == expected


def test_what_other_threads_draw_is_not_drawn_again():
    """Neither in a worker_init_fn that seeds nothing,
    nor where another loader draws from the global generators.
    """
    drawn, stop = [], threading.Event()

    def draw():
        while not stop.is_set():
            drawn.append(random.random())
            time.sleep(0.0005)

    def wait(worker):
        before = len(drawn)
        while len(drawn) < before + 20:
            time.sleep(0.001)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(3):
            list(CLASSES["ours"](range(4), num_workers=2, worker_init_fn=wait))
    finally:
        stop.set()
        thread.join()
    assert len(set(drawn)) == len(drawn) >= 60


WEIGHT, INPUT = torch.nn.Parameter(torch.ones(1, 1)), torch.ones(1, 1)


def use_the_model(index):
    decimal.getcontext().prec = 5
    return torch.nn.functional.linear(INPUT, WEIGHT).detach()


def test_what_samples_leave_in_modes_does_not_reach_the_program(loader_class):
    with torch.no_grad():
        WEIGHT.fill_(1)
    with torch.autocast("cpu"):
        iterator = iter(loader_class(Rows(4, use_the_model), 2, num_workers=2))
    list(iterator)
    with torch.no_grad():
        WEIGHT.fill_(3)
    with torch.autocast("cpu"):
        assert torch.nn.functional.linear(INPUT, WEIGHT).item() == 3
    assert decimal.getcontext().prec == 28


HOLDS = contextvars.ContextVar("holds")


def test_a_context_variable_does_not_keep_a_loader_alive():
    loader = CLASSES["ours"](range(4), num_workers=2, persistent_workers=True)
    token = HOLDS.set(loader)
    list(loader)
    HOLDS.reset(token)
    gone = weakref.ref(loader)
    del loader, token
    assert until_collected(lambda: gone() is None)


class Peeked(IterableDataset):
    """Stream that cannot be copied any more once the program itself has iterated it."""

    file = None

    def __iter__(self):
        if self.file is None:
            self.file = (i for i in range(4))
        return iter(range(4))


def test_auto_takes_processes_once_a_dataset_cannot_be_copied_any_more(monkeypatch):
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False)
    dataset = Peeked()
    loader = DataLoader(dataset, None, num_workers=1)
    assert list(loader) == [0, 1, 2, 3]
    next(iter(dataset))
    assert list(loader) == [0, 1, 2, 3]
