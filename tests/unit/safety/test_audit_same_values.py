"""Writes without a lock that are harmless, since each writes the same value;
and some that only look so.
"""

import itertools
import tempfile
import threading

import numpy as np
import pytest
import torch

from tests.unit.safety.conftest import audit, kinds, shown_as_harmless
from tests.unit.safety.pools import Sized

ANY_LOCK = threading.Lock()


class Mapped(Sized):
    """A memory map that the first sample opens."""

    def __init__(self):
        self.path = tempfile.mkdtemp() + "/rows.npy"
        np.save(self.path, np.arange(24 * 8).reshape(24, 8))
        self._map = None

    def __getitem__(self, index):
        rows = self._map
        if rows is None:
            rows = self._map = np.load(self.path, mmap_mode="r")
        return rows[index] * 2


class Cached(Sized):
    def __init__(self):
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = np.full(8, index)
        return self.cache[index] + 1


@pytest.mark.parametrize("make", [Mapped, Cached])
@pytest.mark.slow(cases=1)
def test_the_same_value_from_each_thread_is_a_note(make):
    report = audit(make, seconds=0.4, threads=4)
    assert report.ok, str(report)
    assert [finding.kind for finding in report.findings if finding.level == "note"] == [
        "same-value"
    ]
    assert "no thread got a wrong sample" in report.findings[0].seen


class Counted(Cached):
    def __getitem__(self, index):
        if len(self.cache) > 100:
            self.cache = {}
        return super().__getitem__(index)


class Flag(Sized):
    """A flag that is raised before what it stands for is there."""

    def __init__(self):
        self.ready, self.table = False, None

    def __getitem__(self, index):
        if not self.ready:
            self.ready = True
            self.table = np.arange(24)
        return int(self.table[index])


class FilledLater(Sized):
    """A table that is there for other threads before it is filled."""

    def __init__(self):
        self.table = None

    def __getitem__(self, index):
        if self.table is None:
            self.table = {}
            for number in range(24):
                self.table[number] = number * 2
        return self.table.get(index)


class OfTheSample(Sized):
    """An attribute that has the value of the sample."""

    def __getitem__(self, index):
        self.current = np.full(3, index)
        return self.current + 1


class Decoder:
    def __init__(self):
        self.state = 0

    def decode(self, index):
        return index


class Stateful(Sized):
    """An object whose state cannot be compared."""

    decoder = None

    def __getitem__(self, index):
        if self.decoder is None:
            self.decoder = Decoder()
        return self.decoder.decode(index)


@pytest.mark.parametrize("make", [Counted, Flag, FilledLater, OfTheSample, Stateful])
@pytest.mark.slow(cases=2)
def test_what_is_not_shown_to_be_harmless_stays_a_risk(make):
    report = audit(make, seconds=0.2, threads=4)
    assert not report.ok, str(report)
    assert "unguarded-write" in kinds(report)


class FlagOfItem(Sized):
    """A flag of each sample that is raised before the sample is there."""

    def __init__(self, raised):
        self.raised, self.done, self.buffers = raised, {}, {}

    def __getitem__(self, index):
        if index not in self.done:
            self.done[index] = self.raised
            self.buffers[index] = np.full(8, index)
        return self.buffers[index]


class FlagUnderLock(Sized):
    """A flag that is raised under a lock, before its value is there."""

    def __init__(self, lock):
        self.lock, self.ready, self.table = lock, False, None

    def __getitem__(self, index):
        if not self.ready:
            with self.lock or ANY_LOCK:
                self.ready = True
            self.table = np.arange(24)
        return self.table[index]


class FlagOfRow(Sized):
    """A flag of each row that is raised before a library writes the row."""

    def __init__(self, flags):
        self.done, self.rows = flags, np.zeros((24, 8))

    def __getitem__(self, index):
        if not self.done[index]:
            self.done[index] = True
            np.copyto(self.rows[index], index)
        return self.rows[index] + 1


class Kept(Sized):
    def __init__(self, value):
        self.cache, self.value = {}, value

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.value(index)
        return index


class Unsized(list):
    def __len__(self):
        raise RuntimeError("no length")


class Endless(dict):
    def __iter__(self):
        raise RuntimeError("no elements")

    keys = items = __iter__


class Unequal(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    __ne__ = __eq__


@pytest.mark.parametrize(
    "value", [str, lambda index: np.full(8, index), lambda index: ("a", index)]
)
def test_a_cache_is_harmless(value):
    assert shown_as_harmless(Kept(value)) == {"self.cache[index]"}


@pytest.mark.parametrize(
    "dataset",
    [
        FlagOfItem(True),
        FlagOfItem(()),
        FlagOfRow([False] * 24),
        FlagOfRow(np.zeros(24, bool)),
        FlagUnderLock(threading.Lock()),
        FlagUnderLock(None),
    ],
)
def test_a_flag_before_its_value_is_not_harmless(dataset):
    assert not shown_as_harmless(dataset)


@pytest.mark.parametrize("value", [Unsized, Endless, Unequal])
def test_a_value_that_raises_is_not_harmless(value):
    assert not shown_as_harmless(
        Kept(lambda index: value("ab") if value is not Endless else value(a=1))
    )


class Ring(Sized):
    """Two buffers in turn, for all threads."""

    def __init__(self):
        self.buffers = itertools.cycle([torch.zeros(1000), torch.zeros(1000)])

    def __getitem__(self, index):
        buffer = next(self.buffers)
        buffer.fill_(index)
        return buffer.clone()


def test_buffers_that_a_cycle_hands_out():
    report = audit(Ring, seconds=1, threads=4)
    finding = next(finding for finding in report.findings if "itertools.cycle" in finding.title)
    assert (
        finding.level == "risk"
        and "next(self.buffers)" in finding.where
        and "SimpleQueue" in finding.remedy
    )
    shown = str(report)
    if "results-differ" in kinds(report):  # causes come first
        assert shown.index("itertools.cycle") < shown.index("other results under threads")
