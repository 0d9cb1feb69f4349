"""The warning of "auto" about files, cursors and readers among a dataset's attributes: once, and of no others."""

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
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, IterableDataset, StackDataset, Subset

from ftloader import DataLoader
from ftloader.datasets import ImageFolder
from ftloader.diagnosis.shared_handles import handles_of
from tests import datasets


class Rows(datasets.Rows):
    def __init__(self, **attributes):
        super().__init__(8)
        vars(self).update(attributes)


class Reader:
    """A user-defined object."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


class PerThread(threading.local):
    pass


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
    return [path for path, *_ in handles_of(dataset)]


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
    "generator": lambda path, keep: (i for i in range(3)),
    "h5py": lambda path, keep: library_class("h5py._hl.files", "File")(),
    "lmdb": lambda path, keep: library_class("builtins", "Transaction")(),
}


@pytest.mark.parametrize("make", HANDLES.values(), ids=HANDLES)
def test_what_has_a_position_is_found(make, path, opened):
    assert paths_in(Rows(names=["a"], archive=make(path, opened))) == ["dataset.archive"]


def closed(file):
    file.close()
    return file


def ended(generator):
    list(generator)
    return generator


def detached(file):
    file.detach()
    return file


HARMLESS = {
    "nothing": lambda path, keep: None,
    "closed": lambda path, keep: closed(open(path)),
    "closed zip": lambda path, keep: closed(archive(path, "zip")),
    "closed tar": lambda path, keep: closed(archive(path, "tar")),
    "a log": lambda path, keep: keep(open(path.with_name("log"), "w")),
    "in memory": lambda path, keep: io.BytesIO(b"x"),
    "memory map": lambda path, keep: keep(mmap.mmap(keep(open(path, "r+b")).fileno(), 0)),
    "array on disk": lambda path, keep: np.memmap(path, mode="r"),
    "counter": lambda path, keep: itertools.count(),
    "generator that has ended": lambda path, keep: ended(i for i in range(3)),
    "detached": lambda path, keep: detached(io.TextIOWrapper(keep(open(path, "rb")))),
    "a log that is read": lambda path, keep: keep(open(path.with_name("log"), "a+")),
    "one for each worker": lambda path, keep: {0: keep(open(path)), 1: keep(open(path))},
    "mapped": lambda path, keep: Reader(file=keep(open(path, "rb")), map=mmap.mmap(-1, 1)),
    "guarded by processes' lock": lambda path, keep: Reader(lock=multiprocessing.Lock(), file=keep(open(path))),
    "lmdb's environment": lambda path, keep: library_class("builtins", "Environment")(),
    "one for each thread": lambda path, keep: with_attribute(PerThread(), keep(open(path))),
    "guarded": lambda path, keep: Reader(lock=threading.Lock(), file=keep(open(path))),
    "of a library": lambda path, keep: with_attribute(torch.nn.Identity(), keep(open(path))),
    "a module, a class, a function": lambda path, keep: (os, Reader, paths_in, torch.ones, functools.partial(len)),
    "descriptor": lambda path, keep: keep(open(path)).fileno(),
}


def with_transforms(thing, *transforms):
    thing.transforms = transforms
    return thing


def with_attribute(thing, value):
    thing.file = value
    return thing


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_what_threads_may_share_is_not(make, path, opened):
    assert paths_in(Rows(archive=make(path, opened))) == []


def test_a_dataset_with_a_lock_knows_what_it_does(path, opened):
    assert paths_in(Rows(lock=threading.Lock(), file=opened(open(path)))) == []
    assert paths_in(Subset(Rows(lock=threading.Condition(), file=opened(open(path))), [0])) == []


def test_where_it_is_found(path, opened):
    rows = Rows(file=opened(open(path)))
    assert paths_in(Subset(Subset(rows, [0, 1]), [0])) == ["dataset.dataset.dataset.file"]
    assert paths_in(ConcatDataset([Rows(), rows])) == ["dataset.datasets[1].file"]
    assert paths_in(StackDataset(Rows(), rows)) == ["dataset.datasets[1].file"]
    assert paths_in(StackDataset(a=rows)) == ["dataset.datasets['a'].file"]
    assert paths_in(Rows(reader=Reader(inner=Reader(file=rows.file)))) == ["dataset.reader.inner.file"]
    assert paths_in(Rows(shards=[1, rows.file], twice=rows.file)) == ["dataset.twice"]
    assert paths_in([rows.file]) == ["dataset[0]"]
    randomizable = library_class("monai.transforms.transform", "Randomizable")
    compose = type("Compose", (randomizable,), {"__module__": "monai.transforms.compose"})
    assert paths_in(Rows(transform=with_transforms(compose(), Reader(), randomizable()))) == [
        "dataset.transform.transforms[1]"
    ]
    assert paths_in(SimpleNamespace(file=rows.file)) == []  # neither a user-defined class nor a dataset


def test_the_look_is_short(path, opened):
    file = opened(open(path))
    assert paths_in(Rows(names=[*map(str, range(1_000_000)), file])) == []
    assert paths_in(Rows(readers=[Reader(inner=[Reader() for _ in range(8)]) for _ in range(8)], file=file))
    chain = Reader(file=file)
    for _ in range(10):
        chain = Reader(next=chain)
    assert len(paths_in(Rows(chain=chain))) == 1
    for _ in range(1000):
        chain = Reader(next=chain)
    assert paths_in(Rows(chain=chain)) == []
    circle = Rows()
    circle.circle = Reader(back=circle)
    assert paths_in(circle) == []


def test_no_methods_of_user_defined_objects_are_called():
    class Gives:
        def __getattr__(self, name):
            raise AssertionError(name)

        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    assert paths_in(Rows(one=Gives(), other=[Gives()], third=Gives)) == []


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


@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"batch_size": 8}, {"batch_size": 2, "in_order": False}])
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
    "arguments", [{"worker_method": "thread"}, {"worker_method": "process"}, {"num_workers": 0}], ids=str
)
def test_no_warning_where_the_method_was_chosen(arguments, gil_is_off, path, opened):
    dataset = Rows(file=opened(open(path)))
    if arguments.get("worker_method") == "process" and multiprocessing.get_start_method() != "fork":
        pytest.skip("the dataset must be picklable")
    assert warnings_of(lambda: list(DataLoader(dataset, **{"num_workers": 1} | arguments))) == []


def test_no_warning_where_nothing_is_shared(gil_is_off, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "x.jpg").touch()
    for dataset in (Rows(), list(range(9)), Subset(range(9), [1]), Stream(count=iter([1])), ImageFolder(tmp_path)):
        assert warnings_of(lambda: iter(DataLoader(dataset, num_workers=1))) == []  # noqa: B023


def test_a_copy_of_the_loader_warns_for_itself(gil_is_off, path, opened):
    dl = DataLoader(Rows(file=opened(open(path))), num_workers=1)
    assert len(warnings_of(lambda: list(dl))) == len(warnings_of(lambda: list(copy.copy(dl)))) == 1
