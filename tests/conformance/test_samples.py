"""Samples of every kind become the batches that torch makes of them, whatever the workers are."""

import array
import collections
import dataclasses
import decimal
import types
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import BatchSampler, Dataset, IterableDataset, SequentialSampler, get_worker_info

from ftloader import DataLoader

pytestmark = pytest.mark.timeout(120)

Point = collections.namedtuple("Point", "x y")


class Reading(NamedTuple):
    value: float
    label: str


class CustomDict(dict):
    pass


class CustomList(list):
    pass


class Own(torch.Tensor):
    """A tensor of the user's own type."""


@dataclasses.dataclass
class Record:
    value: int


class Kind(Dataset):
    """Ten samples, made by a function of the index."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return self.make(index)


def full(index, dtype, shape=(2, 3)):
    return torch.full(shape, index, dtype=dtype)


BASE = torch.arange(240.0).reshape(10, 4, 6)

# What default_collate accepts.
KINDS = {
    **{
        str(dtype).removeprefix("torch."): lambda i, dtype=dtype: full(i, dtype)
        for dtype in (
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.float64,
            torch.complex64,
            torch.complex128,
            torch.bool,
            torch.uint16,
            torch.uint32,
            torch.uint64,
            torch.float8_e4m3fn,
        )
    },
    "0-d tensor": lambda i: torch.tensor(i),
    "tensor without elements": lambda i: torch.empty(0, 3),
    "tensor without elements in the middle": lambda i: torch.empty(3, 0, 2),
    "transposed": lambda i: BASE[i].T,
    "strided": lambda i: BASE[i][::2, ::3],
    "expanded": lambda i: torch.tensor([float(i)]).expand(5),
    "slice of the dataset": lambda i: BASE[i],
    "offset view": lambda i: BASE.flatten()[i * 3 + 1 : i * 3 + 6],
    "channels last": lambda i: full(i, torch.float32, (3, 4, 5)).permute(1, 2, 0),
    "nan and infinity": lambda i: torch.tensor([float("nan"), float("inf"), -0.0, float(i)]),
    "large": lambda i: torch.full((70_000,), i, dtype=torch.int32),
    "in inference mode": lambda i: torch.inference_mode()(torch.full)((2,), i),
    "numpy array": lambda i: np.full((2, 3), i, dtype=np.float32),
    "numpy 0-d": lambda i: np.array(i),
    "numpy fortran": lambda i: np.asfortranarray(np.arange(6).reshape(2, 3) + i),
    "numpy transposed": lambda i: (np.arange(6).reshape(2, 3) + i).T,
    "numpy strided": lambda i: np.arange(20)[i : i + 8 : 2],
    "numpy bool": lambda i: np.array([i % 2 == 0, True]),
    "numpy complex": lambda i: np.array([1j * i]),
    "numpy float16": lambda i: np.array([i], dtype=np.float16),
    "numpy uint16": lambda i: np.array([i + 65000], dtype=np.uint16),
    "numpy empty": lambda i: np.empty((0, 4)),
    **{
        f"np.{dtype.__name__}": lambda i, dtype=dtype: dtype(i)
        for dtype in (
            np.float64,
            np.float32,
            np.float16,
            np.int64,
            np.int32,
            np.int16,
            np.int8,
            np.uint8,
            np.bool_,
            np.complex64,
        )
    },
    "int": lambda i: i - 5,
    "large int": lambda i: 2**62 + i,
    "float": lambda i: i / 3,
    "bool": lambda i: i % 2 == 0,
    "str": lambda i: f"näme {i}",
    "bytes": lambda i: b"x" * i,
    "dict": lambda i: {"a": i, "b": torch.tensor([i]), 3: "x"},
    "empty dict": lambda i: {},
    "dict in another order": lambda i: {"a": i, "b": -i} if i % 2 else {"b": -i, "a": i},
    "dict with more keys later": lambda i: {"a": i} | ({"b": i} if i % 3 else {}),
    "OrderedDict": lambda i: collections.OrderedDict(b=i, a=2.0 * i),
    "defaultdict": lambda i: collections.defaultdict(list, a=i),
    "mapping proxy's copy": lambda i: dict(types.MappingProxyType({"a": i})),
    "CustomDict": lambda i: CustomDict(a=i, b=str(i)),
    "list": lambda i: [i, torch.tensor([1.0 * i]), "x"],
    "CustomList": lambda i: CustomList([i, -i]),
    "tuple": lambda i: (i, np.ones(2) * i),
    "tuple of one": lambda i: (torch.tensor(i),),
    "empty tuple": lambda i: (),
    "range": lambda i: range(i, i + 3),
    "namedtuple": lambda i: Point(i, [float(i)]),
    "NamedTuple": lambda i: Reading(i / 2, f"l{i}"),
    "nested": lambda i: {"p": Point((i, [i, {"z": torch.tensor(i)}]), [(), "s"]), "q": [[[i]]]},
    "image and label": lambda i: (torch.full((3, 8, 8), i, dtype=torch.uint8), i),
    "the same tensor twice": lambda i: [t := torch.tensor([i]), t],
    "the same tensor for all": lambda i: BASE,
}
WIDE = torch.arange(10 * 64 * 96.0).reshape(10, 64, 96)
# Large enough that the loader has samples copied straight into the batch's memory, where it can.
KINDS |= {
    f"large {name}": make
    for name, make in {
        "tensor": lambda i: WIDE[i],
        "image": lambda i: full(i, torch.uint8, (3, 96, 128)),
        "image and label": lambda i: (full(i, torch.uint8, (3, 96, 128)), i),
        "image alone in a list": lambda i: [full(i, torch.uint8, (3, 96, 128))],
        "bfloat16": lambda i: full(i, torch.bfloat16, (100, 100)),
        "complex": lambda i: full(i, torch.complex64, (100, 100)),
        "bool": lambda i: full(i % 2, torch.bool, (100, 200)),
        "float8": lambda i: full(i, torch.float8_e4m3fn, (200, 200)),
        "uint16": lambda i: full(i, torch.uint16, (200, 200)),
        "transposed": lambda i: WIDE[i].T,
        "strided": lambda i: WIDE[i].repeat(2, 2)[::2, 1::2],
        "expanded": lambda i: torch.tensor(float(i)).expand(64, 96),
        "channels last": lambda i: full(i, torch.float32, (64, 32, 3)).permute(2, 0, 1),
        "row of one": lambda i: full(i, torch.float32, (1, 1, 6000)),
        "nan": lambda i: WIDE[i].log(),
        "in inference mode": lambda i: torch.inference_mode()(full)(i, torch.float32, (64, 96)),
        "array": lambda i: WIDE[i].numpy(),
        "array that is read-only": lambda i: np.broadcast_to(np.float32(i), (64, 96)),
        "array in Fortran order": lambda i: np.asfortranarray(WIDE[i].numpy()),
        "array transposed": lambda i: WIDE[i].numpy().T,
        "array strided": lambda i: np.arange(20_000)[i : i + 16_000 : 2],
        "array of uint8": lambda i: np.full((96, 128, 3), i, dtype=np.uint8),
        "array of bool": lambda i: np.full((200, 128), i % 2 == 0),
        "array of complex": lambda i: np.full((64, 96), 1j * i),
        "array of float16": lambda i: np.full((128, 96), i, dtype=np.float16),
        "dict": lambda i: {"image": WIDE[i], "mask": np.full((64, 96), i), "id": f"{i}", "point": Point(i, 0.5)},
        "tensor twice": lambda i: (WIDE[i], WIDE[i]),
        "nested": lambda i: {"a": [(WIDE[i], {"b": WIDE[i].double()}), i], "c": torch.tensor(i)},
        "namedtuple": lambda i: Point(WIDE[i], WIDE[9 - i]),
        "CustomDict": lambda i: CustomDict(a=WIDE[i]),
        "CustomList": lambda i: CustomList([WIDE[i], i]),
        "OrderedDict": lambda i: collections.OrderedDict(b=WIDE[i], a=i),
    }.items()
}
# What it refuses.
REFUSED = {
    "large and None": lambda i: (WIDE[i], None),
    "large big-endian": lambda i: WIDE[i].numpy().astype(">f4"),
    "large of negative stride": lambda i: WIDE[i].numpy()[::-1],
    "large array of str": lambda i: np.array(["text"] * 5000),
    "large array of datetimes": lambda i: np.zeros(5000, dtype="datetime64[s]"),
    "None": lambda i: None,
    "object": lambda i: ...,
    "dataclass": lambda i: Record(i),
    "set": lambda i: {i},
    "complex": lambda i: 1j * i,
    "Decimal": lambda i: decimal.Decimal(i),
    "None in a dict": lambda i: {"a": i, "b": None},
    "numpy str": lambda i: np.array(["a", "b"]),
    "numpy object": lambda i: np.array([None]),
    "numpy str scalar": lambda i: np.str_(f"s{i}"),
    "numpy datetime": lambda i: np.array(["2026-11-21"], dtype="datetime64[D]"),
    "numpy big-endian": lambda i: np.array([i], dtype=">i4"),
    "numpy negative stride": lambda i: (np.arange(5) + i)[::-1],
    "sparse": lambda i: torch.eye(3).to_sparse(),
    "sparse csr": lambda i: torch.eye(3).to_sparse_csr(),
    "nested tensor": lambda i: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "int beyond 64 bits": lambda i: 2**70 + i,
}
# What torch's own worker processes cannot batch or send as it is, or (channels last) batch with other strides.
ONLY_HERE = {
    "large requires_grad": lambda i: WIDE[i].clone().requires_grad_(),
    "large not a leaf": lambda i: WIDE[i].clone().requires_grad_() * 2,
    "large Parameter": lambda i: torch.nn.Parameter(WIDE[i]),
    "large subclass of Tensor": lambda i: WIDE[i].as_subclass(Own),
    "large conjugated": lambda i: torch.complex(WIDE[i], WIDE[i]).conj(),
    "large negated lazily": lambda i: torch.complex(WIDE[i], WIDE[i]).conj().imag,
    "large with names": lambda i: WIDE[i].refine_names("height", "width"),
    "large masked array": lambda i: np.ma.masked_array(WIDE[i].numpy(), mask=WIDE[i].numpy() % 2 == 0),
    "large matrix": lambda i: np.asmatrix(WIDE[i].numpy()),
    "large record array": lambda i: np.zeros(5000, dtype=[("a", "i4"), ("b", "f4")]),
    "large on meta": lambda i: torch.empty(64, 96, device="meta"),
    "large channels last batch of one": lambda i: full(i, torch.float32, (1, 3, 64, 64)).to(
        memory_format=torch.channels_last
    ),
    "large channels last of 3 dimensions": lambda i: full(i, torch.float32, (2, 8, 8, 8, 8)).permute(0, 4, 1, 2, 3),
    "large zeros without memory": lambda i: torch._efficientzerotensor((80, 80)),
    "channels last batch of one": lambda i: torch.full((1, 3, 4, 5), i).to(memory_format=torch.channels_last),
    "meta": lambda i: torch.empty(2, device="meta"),
    "conjugated": lambda i: torch.tensor([complex(i, 1), complex(0, i)]).conj(),
    "negated lazily": lambda i: torch.tensor([complex(i, 1)]).conj().imag,
    "requires_grad": lambda i: torch.tensor([float(i)], requires_grad=True),
    "not a leaf": lambda i: torch.tensor([float(i)], requires_grad=True) * 2,
    "Parameter": lambda i: torch.nn.Parameter(torch.tensor([float(i)])),
    "subclass of Tensor": lambda i: torch.tensor([i, 1]).as_subclass(Own),
    "bytearray": lambda i: bytearray(b"x%d" % i),
    "array.array": lambda i: array.array("i", [i, 2]),
    "numpy record": lambda i: np.array([(i, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
    "numpy masked": lambda i: np.ma.masked_array([i, 2], mask=[True, False]),
    "memoryview": lambda i: memoryview(b"ab"),
}
EVERY = KINDS | REFUSED | ONLY_HERE


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore")  # torch's own, about prototypes
def test_default_collate(kind, light_workers, assert_like_torch):
    assert_like_torch(Kind(EVERY[kind]), light_workers, batch_size=4)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore")
def test_default_convert(kind, light_workers, outcomes, assert_same):
    """batch_size=None."""
    torchs = outcomes(torch.utils.data.DataLoader(Kind(EVERY[kind]), batch_size=None))
    ours = outcomes(DataLoader(Kind(EVERY[kind]), batch_size=None, **light_workers))
    assert [type(a) for a in ours] == [type(b) for b in torchs]
    for a, b in zip(ours, torchs, strict=True):
        if isinstance(b, Exception):
            assert str(b) in str(a)
        elif "meta" in kind:
            assert (a.device, a.shape) == (b.device, b.shape)
        else:
            assert_same(a, b)


class AllKinds(Dataset):
    """A batch of each kind in turn: ``self[number of the kind, index]``."""

    def __init__(self, kinds):
        self.kinds = list(kinds.values())

    def __getitem__(self, index):
        kind, number = index
        return self.kinds[kind](number)

    def batches(self):
        return [[(kind, i) for i in range(size)] for kind in range(len(self.kinds)) for size in (4, 3)]


@pytest.mark.filterwarnings("ignore")
def test_a_batch_of_each_kind_in_one_epoch(workers, assert_like_torch):
    everything = AllKinds(KINDS | REFUSED)
    ours = assert_like_torch(everything, workers, batch_sampler=everything.batches())
    assert len(ours) == 2 * len(KINDS | REFUSED)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_can_be_pickled_to_the_same_size(kind, outcomes):
    """A batch holds its own memory and no more, as torch's: storages are neither larger nor shared."""

    def storages(batch):
        if isinstance(batch, torch.Tensor):
            return [(batch.storage_offset(), batch.untyped_storage().nbytes(), batch.is_shared())]
        if isinstance(batch, dict):
            batch = list(batch.values())
        return [s for part in batch for s in storages(part)] if isinstance(batch, (list, tuple)) else []

    torchs = outcomes(torch.utils.data.DataLoader(Kind(KINDS[kind]), batch_size=4))
    ours = outcomes(DataLoader(Kind(KINDS[kind]), batch_size=4, num_workers=2, worker_method="thread"))
    assert [storages(batch) for batch in ours] == [storages(batch) for batch in torchs]


def keep(samples):
    return samples


class Batch:
    """What a user's collate function makes."""

    def __init__(self, samples):
        self.samples = torch.stack(samples)

    def __eq__(self, other):
        return torch.equal(self.samples, other.samples)


def pair_of_batches(samples):
    return torch.utils.data.default_collate(samples), [torch.stack(samples).sum(0)]


@pytest.mark.parametrize("collate_fn", [keep, tuple, Batch, pair_of_batches, len], ids=lambda f: f.__name__)
def test_own_collate(collate_fn, workers, assert_like_torch):
    assert_like_torch(Kind(lambda i: torch.tensor([i])), workers, batch_size=4, collate_fn=collate_fn)


def test_own_collate_sees_the_very_samples():
    rows = [object() for _ in range(7)]
    dl = DataLoader(rows, batch_size=3, collate_fn=keep, num_workers=2, worker_method="thread")
    assert [sample for batch in dl for sample in batch] == rows


def test_own_collate_without_batches(workers, assert_like_torch):
    assert_like_torch(Kind(lambda i: torch.tensor([i])), workers, batch_size=None, collate_fn=lambda sample: sample * 2)


class Getitems(Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, index):
        raise AssertionError("__getitems__ is to be used")

    def __getitems__(self, indices):
        assert isinstance(indices, list)
        return [(torch.tensor([i]), f"{i}") for i in indices]


def test_getitems(workers, assert_like_torch):
    ours = assert_like_torch(Getitems(), workers, batch_size=4)
    assert len(ours) == 3
    assert_like_torch(Getitems(), workers, batch_sampler=[[3, 1], [], [5]])


def test_getitems_may_give_anything_that_collate_takes(workers, assert_like_torch):
    class Whole(Getitems):
        def __getitems__(self, indices):
            return torch.tensor(indices)

    assert_like_torch(Whole(), workers, batch_size=4, collate_fn=keep)
    assert_like_torch(Whole(), workers, batch_size=4)


def test_getitems_is_given_what_the_batch_sampler_yields(workers, assert_like_torch):
    class Slices(Getitems):
        def __getitems__(self, indices):
            return [torch.tensor(i) for i in range(11)[indices]]

    assert_like_torch(Slices(), workers, batch_sampler=[slice(0, 4), slice(4, 11)])


def test_getitems_that_is_none_is_not_used(workers, assert_like_torch):
    class Off(Kind):
        __getitems__ = None

    assert_like_torch(Off(lambda i: i), workers, batch_size=4)


@pytest.mark.parametrize(
    "dataset",
    [
        [1, 2, 3, 4, 5],
        (1.0, 2.0),
        "letters",
        range(9),
        torch.arange(10).reshape(5, 2),
        np.arange(7, dtype=np.float32),
        {0: "a", 1: "b", 2: "c"},
        torch.utils.data.TensorDataset(torch.arange(12).reshape(6, 2), torch.arange(6)),
        torch.utils.data.StackDataset(a=torch.arange(5), b=list("vwxyz")),
        torch.utils.data.ConcatDataset([range(4), range(10, 15)]),
        torch.utils.data.Subset(range(100), [5, 99, 0]),
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_whatever_has_getitem_and_len(dataset, workers, assert_like_torch):
    assert_like_torch(dataset, workers, batch_size=2)


def test_random_split(workers, assert_like_torch):
    parts = torch.utils.data.random_split(range(20), [0.5, 0.5], torch.Generator().manual_seed(1))
    seen = [torch.cat(assert_like_torch(part, workers, batch_size=3)).tolist() for part in parts]
    assert sorted(seen[0] + seen[1]) == [*range(20)]


def test_growing_dataset(workers, assert_same):
    rows = [torch.full((4,), i) for i in range(4)]
    dl = DataLoader(rows, **workers)
    rows.append(torch.full((4,), 4))
    assert len(dl) == 5
    assert_same(list(dl), [row[None] for row in rows])


def test_bulk_loading_without_batches(workers, assert_same):
    """The sampler gives lists of indices, the dataset takes them as one index."""

    class Bulk(Dataset):
        def __getitem__(self, indices):
            return torch.as_tensor(indices) * 10

    sampler = BatchSampler(SequentialSampler(range(10)), 4, False)
    dl = DataLoader(Bulk(), batch_size=None, sampler=sampler, **workers)
    assert_same(list(dl), [torch.arange(0, 40, 10), torch.arange(40, 80, 10), torch.arange(80, 100, 10)])
    assert len(dl) == 3


def test_indices_of_any_type(workers, assert_same):
    class Echo(Dataset):
        def __getitem__(self, index):
            return index

    indices = ["a", (1, 2), 3.5, None, torch.tensor(4), np.int64(3), frozenset([1])]
    dl = DataLoader(Echo(), batch_size=None, sampler=indices, collate_fn=keep, **workers)
    assert_same(list(dl), indices)


@pytest.mark.parametrize("batches", [[], [[]], [[], [1], []], [[0, 0, 0]], [[9, 8, 7, 6, 5], [4]]])
def test_batches_of_any_size(batches, workers, assert_like_torch):
    """An empty batch is collate's to refuse."""
    assert_like_torch(Kind(lambda i: torch.tensor([i])), workers, batch_sampler=batches)
    assert_like_torch(Kind(lambda i: i), workers, batch_sampler=batches, collate_fn=keep)


def test_a_batch_larger_than_the_dataset(workers, assert_like_torch):
    kind = Kind(lambda i: torch.tensor([i]))
    assert_like_torch(kind, workers, batch_size=1000)
    assert assert_like_torch(kind, workers, batch_size=1000, drop_last=True) == []


class Share(IterableDataset):
    def __init__(self, size=23):
        self.size = size

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return ((torch.tensor([i]), {"i": i}) for i in range(first, self.size, step))


@pytest.mark.parametrize("arguments", [{"batch_size": 4}, {"batch_size": None}, {"batch_size": 4, "drop_last": True}])
def test_iterable_style(arguments, workers, assert_same):
    """The same batches in the same order as torch with as many workers."""
    if workers["num_workers"] == 0:
        expected = list(torch.utils.data.DataLoader(Share(), **arguments))
    else:  # torch's two workers take turns
        shares = [
            list(torch.utils.data.DataLoader(torch.utils.data.Subset(list(Share()), range(w, 23, 2)), **arguments))
            for w in range(2)
        ]
        longest = max(map(len, shares))
        expected = [share[n] for n in range(longest) for share in shares if n < len(share)]
    assert_same(list(DataLoader(Share(), **workers, **arguments)), expected)


def test_chain_and_nothing_at_all(workers, assert_same):
    chain = torch.utils.data.ChainDataset([Share(5), Share(0), Share(4)])
    seen = [int(i) for _, labels in DataLoader(chain, batch_size=2, **workers) for i in labels["i"]]
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert list(DataLoader(Share(0), batch_size=2, **workers)) == []


@pytest.mark.thread_unsafe(reason="a dataset with state of its own")
def test_an_iterable_dataset_that_is_its_own_iterator(workers):
    class Once(IterableDataset):
        def __init__(self):
            self.left = 6

        def __iter__(self):
            return self

        def __next__(self):
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

    seen = torch.cat(list(DataLoader(Once(), batch_size=2, **workers))).tolist()
    # Each worker has a copy of its own.
    assert sorted(seen) == sorted([*range(6)] * max(1, workers["num_workers"]))
