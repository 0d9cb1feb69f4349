"""An exception anywhere reaches the consumer, and the rest of the epoch still comes."""

import gc
import itertools
import queue
import re
import sysconfig
import threading
import traceback
import weakref

import pytest
import torch
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from ftloader.workers import thread as thread_worker
from tests.unit.loader.awkward import Failing, drain
from tests.worker_threads import worker_threads

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few CPUs
]


class Unpicklable(Exception):
    def __init__(self, detail, lock):
        super().__init__(detail)
        self.lock = lock


REST = [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("seven"),
        KeyError("seven"),
        Unpicklable("seven", threading.Lock()),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "seven"),
        SystemExit(3),
        KeyboardInterrupt("seven"),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_object_itself_with_the_workers_traceback(error, workers):
    dl = DataLoader(Failing(error), batch_size=5, num_workers=workers, worker_method="thread")
    batches, errors = drain(iter(dl))
    assert batches == REST
    assert errors == [error]  # exceptions compare by identity
    text = "".join(traceback.format_exception(error))
    assert "in explode" in text and "raise self.error" in text
    assert any("dataset[7]" in note for note in error.__notes__)
    assert any(
        "loader worker thread" in note and "batch 1 from samples [5, 6, 7, 8, 9]" in note for note in error.__notes__
    )


def test_processes_name_the_workers_function_too(worker_method):
    dl = DataLoader(Failing(ValueError("seven")), batch_size=5, num_workers=2, worker_method=worker_method)
    batches, errors = drain(iter(dl))
    assert batches == REST
    assert [type(error) for error in errors] == [ValueError]
    assert "explode" in "".join(traceback.format_exception(errors[0]))


def test_the_exception_comes_in_its_batchs_place():
    dl = DataLoader(Failing(ValueError()), batch_size=5, num_workers=2, worker_method="thread")
    iterator = iter(dl)
    assert next(iterator).tolist() == REST[0]
    with pytest.raises(ValueError):
        next(iterator)
    assert next(iterator).tolist() == REST[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_stop_iteration_from_a_sample_does_not_end_the_epoch(workers):
    stop = StopIteration("seven")
    dl = DataLoader(Failing(stop), batch_size=5, num_workers=workers, worker_method="thread")
    batches, errors = drain(iter(dl))
    assert batches == REST
    assert [type(error) for error in errors] == [RuntimeError]
    assert errors[0].__cause__ is stop


def test_stop_iteration_from_collate_and_from_an_iterable_dataset():
    def collate(samples):
        raise StopIteration

    class Two(IterableDataset):
        def __iter__(self):
            return iter([1, 2])

    for dataset in ([1, 2], Two()):
        dl = DataLoader(dataset, batch_size=2, num_workers=1, worker_method="thread", collate_fn=collate)
        batches, errors = drain(iter(dl))
        assert batches == []
        assert [type(error) for error in errors] == [RuntimeError]


def test_the_note_on_a_batch_without_samples(worker_method):
    dl = DataLoader([1, 2], batch_sampler=[[]], num_workers=1, worker_method=worker_method)
    with pytest.raises(IndexError) as caught:  # default_collate's
        next(iter(dl))
    assert caught.value.__notes__[-1].endswith("from samples [] (0 samples)")


def test_ragged_samples_in_default_collate(worker_method):
    samples = [torch.zeros(2), torch.zeros(2), torch.zeros(2), torch.zeros(3), torch.ones(2)]
    dl = DataLoader(samples, batch_size=2, num_workers=2, worker_method=worker_method)
    batches, errors = drain(iter(dl))
    assert batches == [[[0, 0], [0, 0]], [[1, 1]]]
    assert [type(error) for error in errors] == [RuntimeError]
    assert "stack expects each tensor to be equal size" in str(errors[0])


@pytest.mark.parametrize("workers", [1, 2])
def test_sampler_fails_in_its_place(workers):
    class Sampler:
        def __len__(self):
            return 10

        def __iter__(self):
            yield from range(5)
            raise LookupError("no more")

    dl = DataLoader(torch.arange(10), batch_size=2, sampler=Sampler(), num_workers=workers, worker_method="thread")
    iterator = iter(dl)
    assert next(iterator).tolist() == [0, 1]
    assert next(iterator).tolist() == [2, 3]
    with pytest.raises(LookupError, match="no more") as caught:
        next(iterator)
    assert any("sampler" in note for note in caught.value.__notes__)
    with pytest.raises(StopIteration):
        next(iterator)


def test_sampler_that_goes_on_after_failing():
    class Sampler:
        def __len__(self):
            return 6

        def __iter__(self):
            self.position = 0
            return self

        def __next__(self):
            self.position += 1
            if self.position == 3:
                raise LookupError("the third")
            if self.position > 6:
                raise StopIteration
            return [self.position]

    dl = DataLoader(torch.arange(10), batch_sampler=Sampler(), num_workers=2, worker_method="thread")
    batches, errors = drain(iter(dl))
    assert batches == [[1], [2], [4], [5], [6]]
    assert [str(error) for error in errors] == ["the third"]


def test_one_worker_that_cannot_start_leaves_the_batches_to_the_others():
    error = OSError("no scratch directory")

    def init(worker_id):
        if worker_id == 0:
            raise error

    dl = DataLoader(torch.arange(20), batch_size=5, num_workers=2, worker_method="thread", worker_init_fn=init)
    batches, errors = drain(iter(dl))
    assert errors == [error]
    assert batches == [[*range(i, i + 5)] for i in (0, 5, 10, 15)]
    assert any("loader worker thread 0" in note for note in error.__notes__)


@pytest.mark.parametrize("kind", ["map", "iterable"])
@pytest.mark.parametrize("failure", [OSError("no disk"), StopIteration("oops")])
def test_no_worker_can_start(kind, failure):
    class Endless(IterableDataset):
        def __iter__(self):
            while True:
                yield 1

    def init(worker_id):
        raise failure

    dl = DataLoader(
        range(100) if kind == "map" else Endless(), num_workers=2, worker_method="thread", worker_init_fn=init
    )
    iterator = iter(dl)
    raised = OSError if isinstance(failure, OSError) else RuntimeError
    for _ in range(2):
        with pytest.raises(raised):
            next(iterator)
    # All failures are reported; nothing can come any more, and nothing hangs.
    with pytest.raises(RuntimeError if kind == "map" else StopIteration):
        next(iterator)


def test_no_worker_can_start_and_the_last_one_ends_first():
    # The first batch is worker 0's; by then worker 1 must not be given another one.
    class Others:  # classes are not copied for the workers
        queue = queue.SimpleQueue()

    def init(worker_id):
        if worker_id == 0:
            Others.queue.get(timeout=30).join(30)
        else:
            Others.queue.put(threading.current_thread())
        raise OSError(f"worker {worker_id} has no disk")

    class Endless(IterableDataset):
        def __iter__(self):
            return itertools.repeat(1)

    iterator = iter(DataLoader(Endless(), num_workers=2, worker_method="thread", worker_init_fn=init))
    for worker_id in (1, 0):
        with pytest.raises(OSError, match=f"worker {worker_id} has no disk"):
            next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_failed_start_is_reported_even_if_no_batch_was_asked_for():
    def init(worker_id):
        raise OSError("no disk")

    dl = DataLoader([], num_workers=1, worker_method="thread", worker_init_fn=init)
    with pytest.raises(OSError, match="no disk"):
        list(dl)


def test_iter_of_the_dataset_fails():
    class Broken(IterableDataset):
        def __iter__(self):
            raise ConnectionError("no server")

    dl = DataLoader(Broken(), num_workers=2, worker_method="thread")
    batches, errors = drain(iter(dl))
    assert batches == []
    assert [str(error) for error in errors] == ["no server"] * 2


def test_iterable_dataset_fails_half_way(worker_method):
    class HalfWay(IterableDataset):
        def __iter__(self):
            yield from range(4)
            raise ConnectionError("gone")

    dl = DataLoader(HalfWay(), batch_size=2, num_workers=1, worker_method=worker_method)
    batches, errors = drain(iter(dl))
    assert batches == [[0, 1], [2, 3]]
    assert [type(error) for error in errors] == [ConnectionError]


def test_dataset_that_cannot_be_copied_says_what_to_do():
    class Single(IterableDataset):
        def __iter__(self):
            return iter([1])

        def __getstate__(self):
            raise NotImplementedError

    dl = DataLoader(Single(), num_workers=1, worker_method="thread")
    with pytest.raises(TypeError, match="Single cannot be copied.*__getstate__"):
        next(iter(dl))


def test_odd_indices_and_odd_exceptions_do_not_hide_the_error():
    class BadRepr:
        def __repr__(self):
            raise RuntimeError("repr")

    class NotesTaken(Exception):
        __notes__ = "taken"

    class Dataset:
        def __getitem__(self, index):
            raise NotesTaken

    dl = DataLoader(Dataset(), batch_size=None, sampler=[BadRepr()], num_workers=1, worker_method="thread")
    with pytest.raises(NotesTaken):
        next(iter(dl))


@pytest.mark.parametrize("in_order", [True, False])
def test_timeout(in_order):
    release = threading.Event()

    class Slow:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 0:
                assert release.wait(30)
            return index

    dl = DataLoader(Slow(), batch_size=None, num_workers=2, worker_method="thread", timeout=0.2, in_order=in_order)
    iterator = iter(dl)
    late = r"^DataLoader timed out after 0\.2 seconds$"

    def patient():
        """On a slow machine, where others may be late."""
        while True:
            try:
                yield next(iterator)
            except StopIteration:
                return
            except RuntimeError as error:
                assert re.search(late, str(error))

    before = [] if in_order else list(itertools.islice(patient(), 3))
    with pytest.raises(RuntimeError, match=late):
        next(iterator)
    release.set()  # the batch was late, not lost
    assert sorted([*before, *patient()]) == [0, 1, 2, 3]


def test_a_defect_in_the_engine_ends_the_epoch_with_its_error(monkeypatch):
    def broken(*args):
        raise MemoryError("engine")

    monkeypatch.setattr(thread_worker, "_attempt", broken)
    iterator = iter(DataLoader(range(100), num_workers=2, worker_method="thread"))
    with pytest.raises(MemoryError, match="engine"):
        next(iterator)
    with pytest.raises((MemoryError, RuntimeError)):  # the other worker's, or shut down
        next(iterator)


class Sample:
    """Something that can be referred to weakly."""


def test_a_handled_exception_keeps_nothing_alive():
    gc.collect()
    gc.disable()
    try:
        references = []

        class Dataset:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                sample = Sample()
                references.append(weakref.ref(sample))
                if index == 1:
                    raise ValueError("one")
                return sample

        dl = DataLoader(Dataset(), batch_size=2, num_workers=1, worker_method="thread", collate_fn=len)
        iterator = iter(dl)
        references.append(weakref.ref(iterator))
        try:
            next(iterator)
        except ValueError:
            pass
        assert next(iterator) == 2
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # There an object of a worker that waits is not freed by its count alone.
            gc.collect()
        del iterator
        assert worker_threads() == []
        assert [reference() for reference in references] == [None] * 5
    finally:
        gc.enable()
