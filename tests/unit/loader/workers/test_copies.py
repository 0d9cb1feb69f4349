"""Copies of an iterable-style dataset, one for each worker thread,
and the parts that copies share.
"""

import random
import sys
import threading
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest
import torch

from ftloader import DataLoader
from ftloader.compat.torch_private import DatasetKind
from ftloader.workers.copies import Copier, UserObjects
from tests.datasets import Whole


class Holder:
    def __init__(self, **values):
        self.__dict__.update(values)


def copies(number, /, **values):
    copier = Copier(UserObjects(Holder(**values), None, None), DatasetKind.Iterable, number)
    return [copier.copy().dataset for _ in range(number)]


def copied(**values):
    return copies(1, **values)[0]


def test_members_are_copied_in_depth_and_keep_their_identity():
    shard = {"done": [1, 2]}
    one, other = copies(2, a=shard, b=shard)
    assert one.a is one.b and one.a == shard
    one.a["done"].append(3)
    assert shard == other.a == {"done": [1, 2]}


def test_arrays_and_tensors_that_can_be_written_are_copied():
    array, tensor = np.arange(4), torch.arange(4)
    copy = copied(array=array, same=array, tensor=tensor, view=tensor[2:])
    assert copy.array is copy.same and copy.array is not array
    copy.array[0], copy.tensor[3] = 9, 9
    assert array[0] == 0 and tensor[3] == 3
    assert copy.view.tolist() == [2, 9]  # still on the memory of the other


def test_memory_that_is_read_only_or_shared_by_processes_is_shared(tmp_path):
    fixed = np.arange(4)
    fixed.flags.writeable = False
    mapped = np.memmap(tmp_path / "map", np.uint8, "w+", shape=(4,))
    tensor = torch.arange(4).share_memory_()
    copy = copied(
        fixed=fixed,
        part=fixed[1:],
        mapped=mapped,
        piece=mapped[1:],
        tensor=tensor,
        from_bytes=np.frombuffer(b"ab", np.uint8),
    )
    for name in ("fixed", "part", "mapped", "piece"):
        assert np.shares_memory(
            getattr(copy, name), mapped if name in ("mapped", "piece") else fixed
        ), name
    assert copy.tensor.data_ptr() == tensor.data_ptr()


def test_a_read_only_view_of_an_array_that_can_be_written_is_copied():
    array = np.arange(4)
    view = array[:]
    view.flags.writeable = False
    assert not np.shares_memory(copied(view=view).view, array)


def test_functions_and_classes_without_a_name_are_shared():
    class Local:
        pass

    def function():
        return 1

    copy = copied(cls=Local, one=Local(), function=function, text=lambda: 2, module=np)
    assert copy.cls is Local and type(copy.one) is Local and copy.function is function
    assert copy.text() == 2 and copy.module is np


def test_a_closure_is_copied_with_what_it_closes_over():
    def counter(numbers):
        def count():
            numbers.append(len(numbers))
            return count, numbers

        return count

    numbers = []
    copy = copied(count=counter(numbers), numbers=numbers)
    again, seen = copy.count()
    assert again is copy.count and seen is copy.numbers == [0] and numbers == []


def test_objects_that_the_caller_names_are_shared():
    words, more = ["of", "the"], {"of": 1}
    original = UserObjects(Holder(words=words, again=words, more=more), None, None)
    copier = Copier(original, DatasetKind.Map, 1, [words])
    copy = copier.copy().dataset
    assert copy.words is words and copy.again is words
    assert copy.more == more and copy.more is not more


def test_what_is_only_its_identity_is_shared():
    missing = object()
    copy = copied(
        missing=missing, draw=random.random, numpys=np.random.rand, torchs=torch.default_generator
    )
    assert copy.missing is missing and copy.torchs is torch.default_generator
    random.seed(1), np.random.seed(1)
    drawn = [copy.draw(), copy.numpys()]
    random.seed(1), np.random.seed(1)
    assert drawn == [random.random(), np.random.rand()]


def test_views_of_one_array_are_views_of_one_copy():
    series = np.zeros(1000)
    windows = np.lib.stride_tricks.sliding_window_view(series, 900)
    copy = copied(first=series[:10], all=series, turned=series.reshape(10, 100).T, windows=windows)
    copy.first[0] = 5
    assert copy.all[0] == copy.turned[0, 0] == copy.windows[0, 0] == 5 and series[0] == 0
    assert copy.turned.strides == (8, 800) and copy.windows.strides == windows.strides
    assert not copy.windows.flags.writeable


def test_an_array_of_a_class_of_its_own_keeps_its_attributes():
    masked = np.ma.masked_array([1, 2], mask=[True, False])
    assert copied(masked=masked).masked.mask.tolist() == [True, False]


def test_locks_become_free_ones():
    lock, condition = threading.Lock(), threading.Condition()
    with lock, condition:
        copy = copied(
            lock=lock,
            again=lock,
            recursive=threading.RLock(),
            condition=condition,
            event=threading.Event(),
        )
        assert copy.lock is copy.again and copy.lock is not lock
        assert copy.lock.acquire(blocking=False) and copy.recursive.acquire(blocking=False)
        with copy.condition:
            copy.condition.notify()
    copy.event.set()


def test_what_processes_share_is_shared():
    event, value = torch.multiprocessing.Event(), torch.multiprocessing.Value("i", 3)
    copy = copied(event=event, value=value)
    assert copy.event is event and copy.value is value
    raw = torch.multiprocessing.get_context("fork").Array("d", 4)
    memory = SharedMemory(create=True, size=8)
    try:
        arrays = {
            "array": np.ctypeslib.as_array(raw.get_obj()),
            "memory": np.ndarray(8, np.uint8, memory.buf),
        }
        copy = copied(**arrays)
        for name, array in arrays.items():
            assert np.shares_memory(getattr(copy, name), array), name
    finally:
        arrays.clear()
        del copy, array
        memory.close()
        memory.unlink()


def test_a_private_map_is_copied(tmp_path):
    (tmp_path / "map").write_bytes(b"abcd")
    private = np.memmap(tmp_path / "map", np.uint8, "c")
    copied(private=private).private[0] = 0
    assert private[0] == ord("a")


def test_pieces_that_cannot_be_put_together_are_a_type_error():
    class Cause(Exception):
        def __init__(self, a, b):
            super().__init__(a)

    with pytest.raises(TypeError, match="Holder cannot be copied"):
        copied(error=Cause(1, 2))


def test_generators_draw_the_same_from_where_they_are():
    generators = [np.random.default_rng(3), torch.Generator().manual_seed(3)]
    copy = copied(generators=generators)
    assert copy.generators[0].random() == generators[0].random()
    assert torch.rand(1, generator=copy.generators[1]) == torch.rand(1, generator=generators[1])


class Numbers(Whole):
    """The numbers 0 to 3, and maybe what cannot be copied."""

    def __init__(self, path=None):
        super().__init__(range(4))
        self.file = path and open(path)


class NotToBeCopied:
    def __reduce__(self):
        raise TypeError("holds a connection")

    def __call__(self, samples):
        return samples


@pytest.mark.parametrize(
    ("open_file", "collate_fn", "error"),
    [
        (True, None, "Numbers.file cannot be copied.*TextIOWrapper.*__iter__"),
        (
            False,
            NotToBeCopied(),
            "worker_init_fn or collate_fn cannot be copied .*holds a connection",
        ),
    ],
)
def test_what_cannot_be_copied(open_file, collate_fn, error, gil_is_off, caplog, tmp_path):
    (tmp_path / "file").write_text("x")
    dataset = Numbers(tmp_path / "file" if open_file else None)
    with pytest.raises(TypeError, match=error):
        iter(DataLoader(dataset, num_workers=1, worker_method="thread", collate_fn=collate_fn))
    with caplog.at_level("INFO", "ftloader"):
        iterator = iter(DataLoader(dataset, num_workers=1, collate_fn=collate_fn))
    assert type(iterator).__name__ == "ProcessDataLoaderIter" and len(list(iterator)) == 4
    assert "'auto' takes processes" in caplog.text and error.split()[0] in caplog.text
    if open_file:
        dataset.file.close()


def test_parameters_of_a_model_stay_the_originals():
    model = torch.nn.BatchNorm1d(3)
    copy = copied(model=model)
    assert copy.model is not model and copy.model.weight is model.weight
    assert copy.model.running_mean is not model.running_mean


class Counted(Whole):
    """Stream that counts its copies."""

    copies = 0

    def __setstate__(self, state):
        type(self).copies += 1
        vars(self).update(state)


@pytest.mark.skipif(sys._is_gil_enabled(), reason="with the GIL auto takes processes")
def test_auto_copies_an_iterable_style_dataset_once_for_each_worker():
    Counted.copies = 0
    for epochs in (1, 2):
        assert len(list(DataLoader(Counted(range(4)), num_workers=2))) == 8
        assert Counted.copies == 2 * epochs
