"""The audit of datasets that hold objects of any kind:
locks are seen as locks, and no object ends the audit.
"""

import collections
import json
import logging
import multiprocessing
import os
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ftloader.diagnosis.lookups import attributes_of
from ftrun import target
from ftsafety.audit.comparison import difference, freeze
from ftsafety.audit.locks import is_held, is_lock
from ftsafety.audit.reachable import Node, walk
from ftsafety.audit.snapshot import DatasetSnapshot
from tests.checkout import importable
from tests.datasets import Rows
from tests.programs import completed
from tests.unit.safety.conftest import audit
from tests.unit.safety.suspects import Counter, Sized

RECORD = 128


class FileLock:
    """A lock of another library: neither a class of threading nor derived from one."""

    def __init__(self):
        self._inside = threading.Condition()
        self._held = 0

    @property
    def is_locked(self):
        return self._held > 0

    def acquire(self):
        with self._inside:
            self._inside.wait_for(lambda: not self._held)
            self._held = 1

    def release(self):
        with self._inside:
            self._held = 0
            self._inside.notify()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


LOCKS = {
    "threading.Lock": threading.Lock,
    "threading.RLock": threading.RLock,
    "threading.Condition": threading.Condition,
    "threading.Semaphore": threading.Semaphore,
    "multiprocessing.Lock": multiprocessing.Lock,
    "multiprocessing.RLock": multiprocessing.RLock,
    "multiprocessing.Condition": multiprocessing.Condition,
    "multiprocessing.Semaphore": multiprocessing.Semaphore,
    "torch.multiprocessing.Lock": torch.multiprocessing.Lock,
    "another library's": FileLock,
}


@pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS)
def test_what_is_a_lock_tells_whether_it_is_held(make):
    lock = make()
    assert is_lock(lock) and not is_held(lock)
    with lock:
        assert is_held(lock)
    assert not is_held(lock)


def test_what_has_the_methods_of_a_lock_and_is_none():
    assert not is_lock(logging.NullHandler())
    assert not is_lock(
        type("Pool", (), {"acquire": lambda self: 1, "release": lambda self, _: None})()
    )


class Records(Sized):
    """Records of one file, whose position a lock guards."""

    def __init__(self, path, lock):
        np.arange(64 * 32, dtype="<i4").tofile(path)
        self.file, self.lock = open(path, "rb"), lock

    def __getitem__(self, index):
        with self.lock:
            self.file.seek(index * RECORD)
            return np.frombuffer(self.file.read(RECORD), "<i4").copy()


@pytest.mark.parametrize(
    "name", ["threading.Lock", "multiprocessing.Lock", "multiprocessing.RLock", "another library's"]
)
def test_a_handle_behind_a_lock_of_any_kind_is_safe(tmp_path, name):
    report = audit(Records(tmp_path / "records", LOCKS[name]()), seconds=0.4, samples=8, threads=4)
    assert report.ok, str(report)


class CountsBesideALock(Counter):
    """Counts without a lock; one that it refers to is always held."""

    def __init__(self):
        super().__init__()
        self.nothing_left = threading.Semaphore(0)


def test_a_lock_that_is_held_before_the_sample_guards_nothing():
    assert "lost-update" in {
        finding.kind for finding in audit(CountsBesideALock(), seconds=0.1, threads=2).findings
    }


class Refuses:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise KeyError(name)

    def __eq__(self, other):
        raise ArithmeticError

    def __len__(self):
        raise ArithmeticError

    def __repr__(self):
        raise ArithmeticError

    __hash__ = object.__hash__


class Lies:
    """Has a class, a dictionary and attributes that raise."""

    @property
    def __class__(self):
        raise OSError("no class")

    @property
    def __dict__(self):
        raise OSError("no dictionary")

    @property
    def fp(self):
        raise OSError("no file")

    mode = size = tobytes = fp


class Empties(dict):
    def items(self):
        raise LookupError

    def copy(self):
        raise LookupError

    def __len__(self):
        raise LookupError


class Sets(set):
    def __eq__(self, other):
        raise LookupError

    __hash__ = None


@dataclass
class Sample:
    part: object = None

    def __getattribute__(self, name):
        if name == "part":
            raise ValueError(name)
        return object.__getattribute__(self, name)


HOSTILE = (Refuses, Lies, Empties, Sets, Sample)


class Holds:
    """Holds objects, loads them as samples, and calls them
    where their class has a method for it.
    """

    def __init__(self, objects):
        self.objects = objects
        self.by_key = {Refuses(): 1}

    def __len__(self):
        return len(self.objects)

    def __getitem__(self, index):
        value = self.objects[index]
        self.last = value
        type(value), id(value)
        return value


def test_objects_that_refuse_to_be_looked_at_do_not_end_an_audit():
    report = audit(Holds([kind() for kind in HOSTILE]), seconds=0.5, threads=2)
    assert report.tried


def test_a_sample_that_cannot_be_read_is_opaque():
    assert all(freeze(kind()).opaque for kind in (Refuses, Lies, Sample))
    inside_itself = []
    inside_itself.append(inside_itself)
    assert freeze(inside_itself).opaque
    assert freeze([1, Lies(), 2]).parts[0] == freeze(1)


def test_members_of_an_archive_of_numpy(tmp_path):
    # NpzFile.f answers any name with a member of the archive, also `__class__`.
    np.savez(tmp_path / "a.npz", **{f"a{number}": np.full(20, number) for number in range(16)})

    class Members:
        def __init__(self):
            self.archive = np.load(tmp_path / "a.npz")

        def __len__(self):
            return 16

        def __getitem__(self, index):
            return self.archive[f"a{index}"]

    assert audit(Members(), seconds=0.5, threads=2).tried


@pytest.mark.parametrize("length", [OSError("gone"), KeyError("n")])
def test_a_length_that_raises(length):
    class Unknown:
        def __len__(self):
            raise length

        def __getitem__(self, index):
            return index

    with pytest.raises(TypeError, match="has no length"):
        audit(Unknown())
    assert audit(Unknown(), indices=[1, 2], seconds=0.5, threads=2).ok


@pytest.mark.slow
def test_a_dataset_that_holds_an_object_of_every_type(tmp_path):
    """In a process of its own, since some of the standard
    library's constructors change the process.
    """
    file = Path(__file__).with_name("every_type.py")
    command = [
        sys.executable,
        "-m",
        "ftsafety.audit",
        f"{file}:dataset",
        "--samples",
        "2000",
        "--threads",
        "2",
    ]
    done = completed(
        [*command, "--seconds", "0.5", "--json"],
        env={**os.environ, "PYTHONPATH": importable()},
        cwd=tmp_path,
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert int(re.search(r"(\d+) samples", report["dataset"])[1]) > 1000
    assert not [
        finding
        for finding in report["findings"]
        if finding["kind"] in ("crash", "hang", "exception")
    ]


@pytest.mark.parametrize("indices", [np.array([0, 2]), torch.tensor([0, 2]), np.array([0])])
def test_indices_may_be_an_array(indices):
    report = audit(Rows(make=int), indices=indices, threads=2, seconds=0.1)
    assert not report.findings


def test_an_image_that_cannot_be_decoded_raises_its_own_error(tmp_path):
    """An image is decoded when its copy is made, so the error is the dataset's."""
    Image.new("RGB", (64, 64)).save(tmp_path / "whole.png")
    data = (tmp_path / "whole.png").read_bytes()
    (tmp_path / "half.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(OSError, match="truncated"):
        freeze([Image.open(tmp_path / "half.png")])


class Forgetful(list):
    """Copies are empty, and nothing can be put back."""

    def copy(self):
        return []

    def clear(self):
        raise LookupError

    extend = __iter__ = __len__ = clear


class Ordered(collections.OrderedDict):
    def update(self, *_):
        raise LookupError

    clear = items = copy = update


@pytest.mark.parametrize(
    "container", [Forgetful([1, 2]), Ordered(a=1, b=2), collections.deque([1, 2], 2), {3, 4}]
)
def test_a_container_is_restored_whatever_its_class_makes_of_it(container):
    kind = next(
        each
        for each in (list, collections.OrderedDict, collections.deque, set)
        if isinstance(container, each)
    )
    before = repr(
        kind(kind.__iter__(container))
        if kind is not collections.OrderedDict
        else kind.__repr__(container)
    )
    snapshot = DatasetSnapshot([Node("dataset.kept", container)])
    kind.clear(container)
    assert not kind.__len__(container)
    snapshot.restore()
    after = repr(
        kind(kind.__iter__(container))
        if kind is not collections.OrderedDict
        else kind.__repr__(container)
    )
    assert after == before


def test_a_dictionary_that_is_a_property_is_not_asked():
    class Plain:
        pass

    class Asked(Plain):
        asked = False

        @property
        def __dict__(self):
            Asked.asked = True
            return {"x": 1}

    value = Asked()
    object.__setattr__(value, "own", 2)
    assert attributes_of(value) == {"own": 2} and not Asked.asked


class Proxy:
    """As wrapt.ObjectProxy: the wrapped object is in a slot,
    and the class that of the wrapped object.
    """

    __slots__ = ("__wrapped__",)

    def __init__(self, wrapped):
        object.__setattr__(self, "__wrapped__", wrapped)

    @property
    def __class__(self):
        return type(object.__getattribute__(self, "__wrapped__"))

    def __getitem__(self, index):
        return self.__wrapped__[index]


def test_what_a_proxy_holds_is_seen():
    lock = threading.Lock()
    assert any(node.value is lock for node in walk(Holds([Proxy({"lock": lock})])))
    dataset = Rows()
    assert (
        target.make(Proxy(Proxy(torch.utils.data.DataLoader(dataset))), "data.py:loader") is dataset
    )
    proxy = Proxy(dataset)
    assert target.make(proxy, "data.py:dataset") is proxy


def test_images_that_differ_are_described_by_their_pixels():
    for mode in ("L", "I;16", "F", "RGB", "P", "1"):
        here, there = Image.new(mode, (9, 9)), Image.new(mode, (9, 9))
        there.putpixel((0, 0), 1 if mode != "RGB" else (1, 0, 0))
        assert "values differ, the first at [" in difference(freeze(here), freeze(there)), mode


def test_a_shared_memoryview_is_a_risk():
    class Views:
        def __init__(self, make):
            self.parts = [make(bytes(64))]

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return bytes(memoryview(self.parts[0])[index : index + 8])

    # Without the GIL, the threads may also meet the bug itself: another finding.
    findings = audit(Views(memoryview), seconds=0.5, threads=2).findings
    (finding,) = [finding for finding in findings if finding.kind == "shared-view"]
    assert (finding.level, finding.title) == (
        "risk",
        "threads share dataset.parts[0], a memoryview",
    )
    assert audit(Views(bytes), seconds=0.5, threads=2).ok


def test_a_named_tuple_with_more_elements_than_names():
    class Odd(tuple):
        _fields = ("a",)

    assert freeze(Odd((1, 2))) != freeze(Odd((1, 3)))
