"""canonical_bytes: equal for equal keys of any type, distinct for distinct keys."""

import datetime
import decimal
import enum
import math
import pathlib
from collections import namedtuple
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftloader.rng.sample import canonical_bytes


class Level(enum.IntEnum):
    TWO = 2


Pair = namedtuple("Pair", ["first", "second"])


class Indexed:
    def __index__(self):
        return 7


EQUAL = [
    [1, True, 1.0, np.int64(1), np.uint8(1), np.bool_(True), np.float32(1), np.array(1)]
    + [torch.tensor(1), torch.tensor(True), torch.tensor(1.0), torch.tensor(1, dtype=torch.uint8)],
    [0, False, -0.0, 0.0, np.float64(-0.0), torch.tensor(-0.0)],
    [2**63, float(2**63), np.uint64(2**63), torch.tensor(2.0**63, dtype=torch.float64)],
    [-(2**63), np.int64(-(2**63)), torch.tensor(-(2**63))],
    [0.5, np.float16(0.5), np.float64(0.5), torch.tensor(0.5, dtype=torch.bfloat16)],
    [math.nan, -math.nan, np.float32("nan"), torch.tensor(math.nan)],
    [-300, np.int64(-300), np.array(-300), torch.tensor(-300)],
    [7, Indexed()],
    [2, Level.TWO],
    ["cat.jpg", np.str_("cat.jpg")],
    [b"cat", bytearray(b"cat"), np.bytes_(b"cat")],
    [(3, "a"), Pair(3, "a"), (np.int32(3), np.str_("a"))],
    [[3, 4], [np.int8(3), torch.tensor(4)]],
    [slice(1, 5), slice(np.int64(1), 5, None)],
    [np.array([1, 2]), torch.tensor([1, 2]), np.array([1.0, 2.0]), torch.tensor([1, 2, 9])[:2]],
]

DISTINCT = [group[0] for group in EQUAL] + [
    None, -1, -2, 255, 256, -128, -129, 2**64, 2**64 + 1, 1e300, 5e-324, math.inf, -math.inf, 0.1, np.float32(0.1),
    "", "1", "é", "e\u0301", "\udcff", "None", b"", b"1", b"cat.jpg",
    (), (1,), (1, 2), ((1,), 2), (1, (2,)), ((1, 2),), ("ab", "c"), ("a", "bc"), ("abc",),
    [], [1], [1, 2], [[1], 2], [(1, 2)], slice(None), slice(3), slice(None, None, -1),
    np.array([]), np.array([[1, 2]]), np.array([[1], [2]]), np.array(["a", "b"]), np.zeros((2, 0)), np.zeros((0, 2)),
]  # fmt: skip


@pytest.mark.parametrize("keys", EQUAL, ids=lambda keys: str(keys[0]))
def test_equal_keys_of_any_type_give_equal_bytes(keys):
    assert len({canonical_bytes(key) for key in keys}) == 1


def test_distinct_keys_give_distinct_bytes():
    for a, b in combinations(DISTINCT, 2):
        assert canonical_bytes(a) != canonical_bytes(b), (a, b)


def test_no_encoding_is_the_beginning_of_another():
    # Else two tuples of different keys could be the same bytes.
    encoded = sorted(map(canonical_bytes, DISTINCT))
    for a, b in pairwise(encoded):
        assert not b.startswith(a)


patient = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

# Without NaN, which is unequal to itself.
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
few = {"max_size": 3}
keys = st.recursive(
    scalars, lambda inner: st.lists(inner, **few) | st.lists(inner, **few).map(tuple), max_leaves=6
)


@st.composite
def similar_keys(draw):
    """Draw two keys, the second made of parts of the first, so that they may be equal."""
    parts = draw(st.lists(scalars, min_size=1, max_size=4))
    make = st.sampled_from([tuple, list, lambda p: p[0], lambda p: (tuple(p[:1]), *p[1:])])
    return draw(make)(parts), draw(make)(draw(st.permutations(parts)))


@patient
@given(st.tuples(keys, keys) | similar_keys())
@pytest.mark.slow
def test_bytes_are_equal_exactly_if_the_keys_are(pair):
    a, b = pair
    assert (canonical_bytes(a) == canonical_bytes(b)) == (a == b)


@patient
@given(st.lists(st.integers(-99, 99), max_size=5), st.lists(st.integers(-99, 99), max_size=5))
def test_arrays_are_compared_by_their_elements(a, b):
    equal = canonical_bytes(np.array(a, int)) == canonical_bytes(torch.tensor(b, dtype=torch.int32))
    assert equal == (a == b)


def test_bytes_are_the_same_in_every_version():
    # They decide about every user's random numbers: a change here is a breaking change.
    key = (1, -300, "né", b"x", None, 0.5, [True, (2**70,)])
    assert canonical_bytes(key).hex() == (
        "740000000000000007"
        "69000000000000000101"
        "690000000000000002fed4"
        "7300000000000000036ec3a9"
        "62000000000000000178"
        "4e"
        "663fe0000000000000"
        "6c000000000000000269000000000000000101"
        "740000000000000001690000000000000009400000000000000000"
    )


@pytest.mark.parametrize(
    "key",
    [
        object(),
        print,
        {1},
        {"a": 1},
        pathlib.Path("a"),
        1j,
        decimal.Decimal("0.1"),
        datetime.date(2000, 1, 1),
        np.datetime64("2000-01-01"),
        np.array(["2000-01-01"], "datetime64[s]"),
        np.complex64(1),
        np.longdouble(0.1),
        torch.tensor(1j),
        torch.eye(2).to_sparse(),
        (1, [object()]),
        np.array([object()]),
    ],
    ids=repr,
)
def test_a_key_without_stable_form_is_refused_with_advice(key):
    with pytest.raises(TypeError, match="no stable form.*Let the sampler yield"):
        canonical_bytes(key)
