"""Samples of every kind that default_collate accepts or refuses, as functions of the index."""

import array
import collections
import dataclasses
import decimal
import types
from typing import NamedTuple

import numpy as np
import torch

Point = collections.namedtuple("Point", "x y")


class Reading(NamedTuple):
    value: float
    label: str


class CustomDict(dict):
    pass


class CustomList(list):
    pass


class Own(torch.Tensor):
    """Tensor of a user-defined type."""


@dataclasses.dataclass
class Record:
    value: int


def full(index, dtype, shape=(2, 3)):
    return torch.full(shape, index, dtype=dtype)


BASE = torch.arange(240.0).reshape(10, 4, 6)

# What default_collate accepts.
KINDS = {
    **{
        name: lambda i, name=name: full(i, getattr(torch, name))
        for name in (
            "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
            "bool uint16 uint32 uint64 float8_e4m3fn"
        ).split()
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
        f"np.{name}": lambda i, name=name: getattr(np, name)(i)
        for name in "float64 float32 float16 int64 int32 int16 int8 uint8 bool complex64".split()
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
        "dict": lambda i: {
            "image": WIDE[i],
            "mask": np.full((64, 96), i),
            "id": f"{i}",
            "point": Point(i, 0.5),
        },
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
# What torch's own worker processes cannot batch or send as it is,
# or (channels last) batch with other strides.
ONLY_HERE = {
    "large requires_grad": lambda i: WIDE[i].clone().requires_grad_(),
    "large not a leaf": lambda i: WIDE[i].clone().requires_grad_() * 2,
    "large Parameter": lambda i: torch.nn.Parameter(WIDE[i]),
    "large subclass of Tensor": lambda i: WIDE[i].as_subclass(Own),
    "large conjugated": lambda i: torch.complex(WIDE[i], WIDE[i]).conj(),
    "large negated lazily": lambda i: torch.complex(WIDE[i], WIDE[i]).conj().imag,
    "large with names": lambda i: WIDE[i].refine_names("height", "width"),
    "large masked array": lambda i: np.ma.masked_array(
        WIDE[i].numpy(), mask=WIDE[i].numpy() % 2 == 0
    ),
    "large matrix": lambda i: np.asmatrix(WIDE[i].numpy()),
    "large record array": lambda i: np.zeros(5000, dtype=[("a", "i4"), ("b", "f4")]),
    "large on meta": lambda i: torch.empty(64, 96, device="meta"),
    "large channels last batch of one": lambda i: full(i, torch.float32, (1, 3, 64, 64)).to(
        memory_format=torch.channels_last
    ),
    "large channels last of 3 dimensions": lambda i: full(
        i, torch.float32, (2, 8, 8, 8, 8)
    ).permute(0, 4, 1, 2, 3),
    "large zeros without memory": lambda i: torch._efficientzerotensor((80, 80)),
    "channels last batch of one": lambda i: torch.full((1, 3, 4, 5), i).to(
        memory_format=torch.channels_last
    ),
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
