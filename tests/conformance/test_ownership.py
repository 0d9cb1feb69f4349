"""Batches belong to their consumer: nothing later changes them,
and changes to them reach nothing else.

The loader may use the memory of a batch again once it cannot be reached any more. These tests hold
on to batches in every way there is, let others go in between, and read everything again at the end.
"""

import copy
import gc
import pickle
import queue
import random
import threading
import warnings

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch.multiprocessing import reductions

from ftloader import DataLoader
from tests.datasets import Rows

SIZE = 96
BATCH = 4
# floats in a sample: enough to be copied straight into the batch's memory, which is used again
WIDTH = 8192


def row(index):
    """Return i, i + 1/1024, i + 2/1024, ..., in memory of its own."""
    return torch.arange(WIDTH) / 1024 + index


def pair(index):
    return {"row": row(index), "half": row(index)[: WIDTH // 2].to(torch.float64), "index": index}


ROWS = Rows(SIZE, row)


def expected(number):
    """Return batch *number* of ROWS."""
    return torch.stack([row(i) for i in range(number * BATCH, (number + 1) * BATCH)])


def threads(dataset, **arguments):
    more = {
        "batch_size": BATCH,
        "num_workers": 3,
        "prefetch_factor": 1,
        "worker_method": "thread",
    } | arguments
    return DataLoader(dataset, **more)


# Every way to hold on to a batch, and how to look at it again:
# it must be as a whole (B, WIDTH) then.
WAYS = {
    "itself": (lambda b: b, lambda k: k),
    "alias": (lambda b: b.view_as(b), lambda k: k),
    "detached": (lambda b: b.detach(), lambda k: k),
    ".data": (lambda b: b.data, lambda k: k),
    "shallow copy": (lambda b: copy.copy(b), lambda k: k),
    "transposed": (lambda b: b.T, lambda k: k.T),
    "flat": (lambda b: b.flatten(), lambda k: k.view(BATCH, WIDTH)),
    "rows": (lambda b: b.unbind(), torch.stack),
    "rows by iteration": (lambda b: list(b), torch.stack),
    "columns": (lambda b: b.split(256, dim=1), lambda k: torch.cat(k, dim=1)),
    "halves": (lambda b: (b[:2], b[2:]), torch.cat),
    "as_strided": (
        lambda b: torch.as_strided(b, (BATCH * WIDTH,), (1,)),
        lambda k: k.view(BATCH, WIDTH),
    ),
    "bits": (lambda b: b.view(torch.int32), lambda k: k.view(torch.float32)),
    "storage": (lambda b: b.untyped_storage(), lambda k: torch.empty(0).set_(k, 0, (BATCH, WIDTH))),
    "set on a storage": (
        lambda b: torch.empty(0).set_(b.untyped_storage(), 0, (BATCH, WIDTH)),
        lambda k: k,
    ),
    "array": (lambda b: b.numpy(), torch.from_numpy),
    "view of an array": (
        lambda b: b.numpy().reshape(-1)[::1],
        lambda k: torch.from_numpy(k).view(BATCH, WIDTH),
    ),
    "asarray": (np.asarray, torch.from_numpy),
    "memoryview": (lambda b: memoryview(b.numpy()), lambda k: torch.from_numpy(np.asarray(k))),
    "from_numpy of numpy": (lambda b: torch.from_numpy(b.numpy()), lambda k: k),
    "numpy of a view": (lambda b: b.T.numpy().T, torch.from_numpy),
    "frombuffer": (
        lambda b: np.frombuffer(b.numpy(), np.float32),
        lambda k: torch.from_numpy(k.reshape(BATCH, WIDTH).copy()),
    ),
    "dlpack capsule": (torch.utils.dlpack.to_dlpack, torch.utils.dlpack.from_dlpack),
    "dlpack array": (np.from_dlpack, lambda k: torch.from_numpy(k.copy())),
    "dlpack tensor": (torch.from_dlpack, lambda k: k),
    "Parameter": (lambda b: torch.nn.Parameter(b), lambda k: k.detach()),
    "in a graph": (
        lambda b: (w := torch.ones(BATCH, WIDTH, requires_grad=True), (w * b).sum()),
        lambda k: torch.autograd.grad(k[1], k[0])[0],  # reads what multiplication saved for it
    ),
    "in a graph through a view": (
        lambda b: (w := torch.ones(WIDTH, BATCH, requires_grad=True), (w * b.T).sum()),
        lambda k: torch.autograd.grad(k[1], k[0])[0].T,
    ),
    "TensorDataset": (torch.utils.data.TensorDataset, lambda k: torch.stack([row for (row,) in k])),
    "subclass": (
        lambda b: b.as_subclass(type("Own", (torch.Tensor,), {})),
        lambda k: k.as_subclass(torch.Tensor),
    ),
    "in shared memory": (lambda b: b.share_memory_(), lambda k: k),
    "sent to a process": (lambda b: (b, reductions.reduce_tensor(b))[1], lambda k: k[0](*k[1])),
    "closure": (lambda b: lambda: b, lambda k: k()),
    "reference cycle": (lambda b: [b, c := [], c.append(c)], lambda k: k[0]),
    "pickled": (pickle.dumps, pickle.loads),
}


@pytest.mark.filterwarnings("ignore")  # about arrays that are not writable
@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_kept_stays_as_it_was(way):
    """Every third batch is kept, the others are let go, over several epochs."""
    keep, look = WAYS[way]
    kept = []
    for _ in range(2):
        for number, batch in enumerate(threads(ROWS)):
            if number % 3 == 1:
                kept.append((number, keep(batch)))
            del batch
    assert len(kept) == 2 * len(range(1, SIZE // BATCH, 3))
    for number, thing in kept:
        assert torch.equal(look(thing), expected(number)), f"batch {number}"


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "make", [row, lambda i: row(i).numpy(), pair], ids=["row", "array", "pair"]
)
def test_all_batches_kept_and_none_overlaps_another(make, persistent):
    dl = threads(Rows(SIZE, make), persistent_workers=persistent)
    kept = [batch for _ in range(2) for batch in dl]
    spans = []
    for number, batch in enumerate(kept):
        row = batch["row"] if isinstance(batch, dict) else batch
        assert torch.equal(row, expected(number % (SIZE // BATCH)))
        tensors = list(batch.values()) if isinstance(batch, dict) else [batch]
        spans += [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors]
    spans.sort()
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:]))


@pytest.mark.parametrize("seed", range(3))
def test_batches_kept_for_random_times_in_random_ways(seed):
    rng = random.Random(seed)
    ways = [way for way in WAYS if way not in ("in shared memory", "sent to a process")]
    held = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            for number, batch in enumerate(threads(ROWS, prefetch_factor=rng.randint(1, 3))):
                keep, look = WAYS[rng.choice(ways)]
                held.append((number, keep(batch), look))
                del batch
                while len(held) > rng.randint(0, 12):
                    kept_number, thing, look = held.pop(rng.randrange(len(held)))
                    assert torch.equal(look(thing), expected(kept_number))


# What the consumer does to a batch


ABUSES = {
    "fills it": lambda b: b.fill_(-1),
    "fills a view": lambda b: b[1:3].zero_(),
    "fills the array": lambda b: b.numpy().fill(7),
    "transposes it in place": lambda b: b.t_(),
    "shrinks it": lambda b: b.resize_(1, 1),
    "enlarges it": lambda b: b.resize_(5, BATCH, WIDTH),
    "frees its storage": lambda b: b.untyped_storage().resize_(0),
    "enlarges its storage": lambda b: b.untyped_storage().resize_(b.nbytes * 3),
    "sets it on something else": lambda b: b.set_(torch.zeros(3).untyped_storage()),
    "replaces its data": lambda b: setattr(b, "data", torch.zeros(2, dtype=torch.int8)),
    "wants a gradient": lambda b: b.requires_grad_(),
    "has a gradient": lambda b: b.requires_grad_().sum().backward(),
    "moves it to shared memory": lambda b: b.share_memory_(),
    "swaps it": lambda b: torch.utils.swap_tensors(b, torch.zeros(2)),
    "squeezes and names": lambda b: b.unsqueeze_(0).requires_grad_(),
    "gives it attributes": lambda b: setattr(b, "mine", b),
    "fills it in inference mode": lambda b: torch.inference_mode()(b.fill_)(3),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("abuse", ABUSES)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.slow(cases=8)
def test_what_is_done_to_a_batch_reaches_no_other(abuse, keep):
    kept = []
    for number, batch in enumerate(threads(ROWS)):
        assert type(batch) is torch.Tensor and not batch.requires_grad and not batch.is_shared()
        assert not hasattr(batch, "mine") and batch.is_contiguous()
        assert torch.equal(batch, expected(number))
        ABUSES[abuse](batch)
        if keep:
            kept.append(batch)
        if abuse == "gives it attributes" and number == SIZE // BATCH // 2:
            gc.collect()


def test_in_place_writes_do_not_reach_the_dataset(workers):
    rows = torch.arange(48.0).reshape(12, 4)
    arrays = rows.numpy().copy()
    for dataset in (rows, arrays, [(a, b) for a, b in zip(rows, arrays, strict=True)]):
        for batch in DataLoader(dataset, batch_size=3, **workers):
            for tensor in batch if isinstance(batch, list) else [batch]:
                tensor.fill_(-1)
    assert torch.equal(rows, torch.arange(48.0).reshape(12, 4))
    assert np.array_equal(arrays, rows.numpy())


# What the dataset does


@pytest.mark.parametrize(
    "make",
    [
        lambda i: torch.full((WIDTH,), i),
        lambda i: np.full((WIDTH,), i),
        lambda i: {"a": torch.full((WIDTH,), i)}["a"],
        lambda i: torch.full((WIDTH, 2), i)[:, 0],
    ],
)
@pytest.mark.parametrize(
    "collate_fn", [None, list, lambda samples: samples[0]], ids=["default", "list", "first"]
)
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.slow(cases=8)
def test_samples_that_the_dataset_keeps_are_never_written_to(make, collate_fn, batch_size):
    given = []  # append() is atomic

    def retained(index):
        sample = make(index)
        given.append((index, sample))
        return sample

    for _ in range(2):
        for number, batch in enumerate(
            threads(Rows(120, retained), batch_size=batch_size, collate_fn=collate_fn)
        ):
            if collate_fn is None:
                batch.fill_(-5)
            else:
                assert (
                    int(batch[0].flatten()[0] if collate_fn is list else batch[0])
                    == number * batch_size
                )
            del batch
    assert len(given) == 240
    for index, sample in given:
        assert (np.asarray(sample) == index).all()


def test_a_batch_that_is_the_datasets_own_memory_is_not_taken_over():
    """collate_fn and batch_size=None hand on the dataset's own memory."""
    whole = torch.arange(120.0 * WIDTH).reshape(120, WIDTH)
    before = whole.clone()
    for dl in (
        threads(whole, batch_size=None),
        threads(whole, collate_fn=lambda samples: samples[0]),
        threads(range(0, 120, 4), batch_size=None, collate_fn=lambda i: whole[i : i + 4]),
    ):
        for batch in dl:
            assert batch.data_ptr() != 0
            del batch
        list(threads(ROWS))  # something else that takes memory for batches
    assert torch.equal(whole, before)


def test_batches_of_one_loader_are_samples_of_another():
    batches = list(threads(ROWS))
    for _ in range(2):
        for number, batch in enumerate(threads(batches, batch_size=3)):
            assert torch.equal(batch, torch.stack([expected(3 * number + i) for i in range(3)]))
            batch.zero_()
    for number, batch in enumerate(batches):
        assert torch.equal(batch, expected(number))


def test_nested_loaders_hand_their_batches_up():
    def inner(index):
        return list(threads(torch.utils.data.Subset(ROWS, range(index * 8, index * 8 + 8))))

    outer = Rows(4, inner)
    kept = list(threads(outer, batch_size=None)) + list(
        threads(outer, batch_size=2, collate_fn=list)
    )
    for number, (a, b) in enumerate(kept[:4]):
        assert torch.equal(a, expected(2 * number)) and torch.equal(b, expected(2 * number + 1))
    for number, pair in enumerate(kept[4:]):
        for i, (a, b) in enumerate(pair):
            assert torch.equal(a, expected(4 * number + 2 * i)) and torch.equal(
                b, expected(4 * number + 2 * i + 1)
            )


# Handed on


def test_batches_handed_to_another_thread():
    """The other thread reads the batches late, and drops them."""
    handed, wrong = queue.SimpleQueue(), []

    def read():
        late = []
        while (item := handed.get()) is not None:
            late.append(item)
            if len(late) > 7:
                number, batch = late.pop(0)
                if not torch.equal(batch, expected(number)):
                    wrong.append(number)
                del batch
        wrong.extend(number for number, batch in late if not torch.equal(batch, expected(number)))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(2):
        for number, batch in enumerate(threads(ROWS)):
            handed.put((number, batch))
            del batch
    handed.put(None)
    reader.join()
    assert wrong == []


def _sum_late(handed, answers):
    late = []
    while (batch := handed.get()) is not None:
        late.append(batch)
    answers.put([batch.sum(dtype=torch.float64).item() for batch in late])


@pytest.mark.thread_unsafe(reason="forks")
def test_batches_handed_to_another_process():
    """Through torch's queues, which share a tensor's memory and copy nothing."""
    context = torch.multiprocessing.get_context("fork")
    handed, answers = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_sum_late, args=(handed, answers))
    process.start()
    try:
        for batch in threads(ROWS):
            handed.put(batch)
            del batch
        handed.put(None)
        assert answers.get() == [
            expected(n).sum(dtype=torch.float64).item() for n in range(SIZE // BATCH)
        ]
    finally:
        process.join(60)
        process.kill()


@pytest.mark.slow(cases=1)
def test_batches_outlive_the_loader(workers):
    dl = DataLoader(ROWS, batch_size=BATCH, **workers)
    iterator = iter(dl)
    kept = [next(iterator) for _ in range(5)]
    del iterator, dl
    gc.collect()
    for _ in DataLoader(ROWS, batch_size=BATCH, **workers):
        pass
    for number, batch in enumerate(kept):
        assert torch.equal(batch, expected(number))
