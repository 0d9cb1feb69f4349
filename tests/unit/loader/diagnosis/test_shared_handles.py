"""The warning of "auto" about files, cursors and readers among a dataset's attributes:
once, and of no others.
"""

import copy
import functools
import gzip
import io
import itertools
import mmap
import multiprocessing
import os
import socket
import sqlite3
import tarfile
import tempfile
import threading
import warnings
import zipfile

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, Subset

from ftloader import DataLoader
from ftloader.datasets import ImageFolder
from ftloader.diagnosis.shared_handles import handles_of
from tests import datasets


class Rows(datasets.Rows):
    def __init__(self, **attributes):
        super().__init__(8)
        vars(self).update(attributes)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(b"1,2\n" * 1000)
    return tmp_path / "file"


@pytest.fixture
def opened(path):
    """Open things, and close them after the test."""
    things = []

    def keep(thing):
        things.append(thing)
        return thing

    yield keep
    for thing in reversed(things):
        thing.close()


def paths_in(dataset):
    return [handle.partition(" ")[0] for handle in handles_of(dataset)]


def archive(path, kind):
    target = path.with_name(kind)
    if kind == "zip":
        with zipfile.ZipFile(target, "w") as file:
            file.write(path)
        return zipfile.ZipFile(target)
    with tarfile.open(target, "w") as file:
        file.add(path)
    return tarfile.open(target)


def library_class(module, name):
    return type(name, (), {"__module__": module})


HANDLES = {
    "binary": lambda path, keep: keep(open(path, "rb")),
    "text": lambda path, keep: keep(open(path)),
    "raw": lambda path, keep: keep(open(path, "rb", buffering=0)),
    "both ways": lambda path, keep: keep(open(path, "r+b")),
    "gzip": lambda path, keep: keep(gzip.open(path)),
    "temporary": lambda path, keep: keep(tempfile.NamedTemporaryFile()),
    "zip": lambda path, keep: keep(archive(path, "zip")),
    "tar": lambda path, keep: keep(archive(path, "tar")),
    "socket": lambda path, keep: keep(socket.socket()),
    "connection": lambda path, keep: keep(sqlite3.connect(":memory:")),
    "cursor": lambda path, keep: keep(keep(sqlite3.connect(":memory:")).cursor()),
    "lmdb": lambda path, keep: library_class("builtins", "Transaction")(),
}


@pytest.mark.parametrize("make", HANDLES.values(), ids=HANDLES)
def test_what_has_a_position_is_found(make, path, opened):
    assert paths_in(Rows(names=["a"], archive=make(path, opened))) == ["dataset.archive"]


def closed(file):
    file.close()
    return file


HARMLESS = {
    "nothing": lambda path, keep: None,
    "closed": lambda path, keep: closed(open(path)),
    "closed tar": lambda path, keep: closed(archive(path, "tar")),
    "a log": lambda path, keep: keep(open(path.with_name("log"), "w")),
    "a log that is read": lambda path, keep: keep(open(path.with_name("log"), "a+")),
    "in memory": lambda path, keep: io.BytesIO(b"x"),
    "array on disk": lambda path, keep: np.memmap(path, mode="r"),
    "counter": lambda path, keep: itertools.count(),
    "one for each worker": lambda path, keep: {0: keep(open(path)), 1: keep(open(path))},
    "lmdb's environment": lambda path, keep: library_class("builtins", "Environment")(),
    "of a library": lambda path, keep: with_attribute(torch.nn.Identity(), keep(open(path))),
    "a module, a class, a function": lambda path, keep: (
        os,
        Rows,
        paths_in,
        torch.ones,
        functools.partial(len),
    ),
    "descriptor": lambda path, keep: keep(open(path)).fileno(),
}


def with_attribute(thing, value):
    thing.file = value
    return thing


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_what_threads_may_share_is_not(make, path, opened):
    assert paths_in(Rows(archive=make(path, opened))) == []


GUARDS = {
    "lock": threading.Lock,
    "condition": threading.Condition,
    "processes' lock": multiprocessing.Lock,
    "map": lambda: mmap.mmap(-1, 1),
}


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_dataset_with_a_lock_or_a_map_knows_what_it_does(guard, path, opened):
    assert paths_in(Rows(guard=guard(), file=opened(open(path)))) == []
    assert paths_in(Subset(Rows(guard=guard(), file=opened(open(path))), [0])) == []


def test_a_dataset_that_is_wrapped_is_looked_at(path, opened):
    rows = Rows(file=opened(open(path)))
    assert paths_in(Subset(Subset(rows, [0, 1]), [0])) == ["dataset.dataset.dataset.file"]
    circle = Rows(file=rows.file)
    circle.circle = circle
    assert paths_in(circle)[0] == "dataset.file"


def test_no_methods_of_user_defined_objects_are_called():
    class Gives:
        def __getattr__(self, name):
            raise AssertionError(name)

        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    assert paths_in(Rows(one=Gives(), other=Gives)) == []


# In the loader


def warnings_of(program):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        program()
    return [entry for entry in log if issubclass(entry.category, UserWarning)]


class Late(Rows):
    """Rows that open their file at the first sample, as is usual for worker processes."""

    file = None

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path)
        return index


@pytest.mark.parametrize(
    "arguments", [{"batch_size": 2}, {"batch_size": 8}, {"batch_size": 2, "in_order": False}]
)
def test_what_is_opened_late_is_found_after_the_first_batch(arguments, gil_is_off, path):
    dataset = Late(path=path)
    dl = DataLoader(dataset, num_workers=1, **arguments)
    (entry,) = warnings_of(lambda: (list(dl), list(dl)))
    assert entry.filename == __file__
    message = str(entry.message)
    assert message.startswith("dataset.file is a _io.TextIOWrapper that all workers")
    assert "threading.local()" in message and "./twins audit FILE.py:NAME" in message
    assert "worker_method='process'" in message and "worker_method='thread'" in message
    dataset.file.close()


def test_what_is_opened_in_a_later_epoch_of_persistent_workers_is_found(gil_is_off, path, opened):
    dataset = Rows()
    dl = DataLoader(dataset, 2, num_workers=1, persistent_workers=True)
    assert warnings_of(lambda: list(dl)) == []
    dataset.file = opened(open(path))
    assert len(warnings_of(lambda: [list(dl), list(dl)])) == 1


def test_as_an_error_it_costs_no_batch(gil_is_off, path):
    dataset = Late(path=path)
    dl = DataLoader(dataset, 2, num_workers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        batches = iter(dl)
        found = [next(batches)]
        with pytest.raises(UserWarning, match=r"dataset\.file"):
            next(batches)
        found += batches
        dataset.file.close()
        dataset.file = open(path)
        with pytest.raises(UserWarning, match=r"dataset\.file"):
            iter(DataLoader(dataset, num_workers=1))
    assert torch.cat(found).tolist() == list(range(8))
    dataset.file.close()


def test_as_an_error_it_costs_no_loaded_state(gil_is_off, path, opened):
    saved = DataLoader(Rows(), 2, num_workers=1)
    batches = iter(saved)
    next(batches)
    dl = DataLoader(Rows(file=opened(open(path))), 2, num_workers=1)
    dl.load_state_dict(saved.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match=r"dataset\.file"):
            iter(dl)
    assert torch.cat(list(dl)).tolist() == list(range(2, 8))


class Stream(IterableDataset):
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __iter__(self):
        return iter([1, 2])


@pytest.mark.parametrize(
    "arguments",
    [{"worker_method": "thread"}, {"worker_method": "process"}, {"num_workers": 0}],
    ids=str,
)
def test_no_warning_where_the_method_was_chosen(arguments, gil_is_off, path, opened):
    dataset = Rows(file=opened(open(path)))
    if arguments.get("worker_method") == "process" and multiprocessing.get_start_method() != "fork":
        pytest.skip("the dataset must be picklable")
    assert warnings_of(lambda: list(DataLoader(dataset, **{"num_workers": 1} | arguments))) == []


def test_no_warning_where_nothing_is_shared(gil_is_off, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "x.jpg").touch()
    for dataset in (
        Rows(),
        list(range(9)),
        Subset(range(9), [1]),
        Stream(count=iter([1])),
        ImageFolder(tmp_path),
    ):
        assert warnings_of(lambda: iter(DataLoader(dataset, num_workers=1))) == []  # noqa: B023


def test_a_copy_of_the_loader_warns_for_itself(gil_is_off, path, opened):
    dl = DataLoader(Rows(file=opened(open(path))), num_workers=1)
    assert len(warnings_of(lambda: list(dl))) == len(warnings_of(lambda: list(copy.copy(dl)))) == 1
