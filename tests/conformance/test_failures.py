"""Failures of user code: every kind of worker reports them in their place,
and no other batch is lost.
"""

import os
import queue
import re
import signal
import threading
import time
import traceback

import pytest
import torch
import torch.utils.data
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from tests.datasets import Failing, FailingSampler, Rows, Shares, my_share


class TwoArguments(Exception):
    """Exception that cannot be made from a message alone."""

    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code = code


class HoldsLock(ValueError):
    """Exception that cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class WithMessage(Exception):
    """Exception with a *message*, which torch passes by keyword."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message


ERRORS = {
    "ValueError": lambda: ValueError("seven"),
    "KeyError": lambda: KeyError("seven"),
    "IndexError": lambda: IndexError("seven"),
    "NotImplementedError": NotImplementedError,
    "AssertionError": lambda: AssertionError("seven"),
    "OSError": lambda: FileNotFoundError(2, "No such file or directory", "/seven.jpg"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "seven"),
    "MemoryError": MemoryError,
    "StopAsyncIteration": lambda: StopAsyncIteration("seven"),
    "TimeoutError": lambda: TimeoutError("seven"),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("seven"), KeyError("eight")]),
    "TwoArguments": lambda: TwoArguments(7, "seven"),
    "HoldsLock": lambda: HoldsLock("seven"),
    "WithMessage": lambda: WithMessage("seven"),
}
# Of these, torch's worker processes cannot make the exception again;
# ours report the text, as RuntimeError.
ONLY_AS_TEXT = ("UnicodeDecodeError", "ExceptionGroup", "TwoArguments")
BATCHES = [[*range(i, i + 5)] for i in range(0, 20, 5)]


def take_apart(outcomes):
    """Return the batches as lists, the exceptions, and the place of the first exception."""
    batches = [o.tolist() for o in outcomes if not isinstance(o, Exception)]
    errors = [o for o in outcomes if isinstance(o, Exception)]
    place = next((n for n, o in enumerate(outcomes) if isinstance(o, Exception)), None)
    return batches, errors, place


def check_notes(error, workers):
    """Check that the notes name the sample, and the worker
    and its batch where there is a worker.
    """
    assert any("dataset[7]" in note for note in error.__notes__)
    if workers["num_workers"]:
        worker = f"loader worker {workers['worker_method']}"
        # processes do not know it
        number = "batch 1" if workers["worker_method"] == "thread" else "a batch"
        batch = f"{number} from samples [5, 6, 7, 8, 9] (5 samples)"
        assert any(worker in note and batch in note for note in error.__notes__), error.__notes__


@pytest.mark.parametrize("kind", ERRORS)
def test_error_of_a_sample(kind, light_workers, outcomes):
    error = ERRORS[kind]()
    batches, errors, place = take_apart(
        outcomes(DataLoader(Failing(error), batch_size=5, **light_workers))
    )
    assert errors == [error]  # the object itself: exceptions compare by identity
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)
    text = "".join(traceback.format_exception(error))
    assert "in explode" in text and "raise self.error" in text
    check_notes(error, light_workers)


@pytest.mark.thread_unsafe(reason="forks")
def test_errors_of_samples_in_processes_are_torchs(outcomes):
    """Even samples each raise another of the errors."""
    size = 2 * len(ERRORS)
    dataset = Failing(lambda index: [*ERRORS.values()][index // 2](), size, at=range(0, size, 2))
    arguments = {"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork"}
    ours = outcomes(DataLoader(dataset, worker_method="process", **arguments))
    torchs = outcomes(torch.utils.data.DataLoader(dataset, **arguments))
    assert len(ours) == size
    assert ours[1::2] == torchs[1::2] == [*range(1, size, 2)]
    for index, name in enumerate(ERRORS):
        error, torchs_error = ours[2 * index], torchs[2 * index]
        assert type(error) is (RuntimeError if name in ONLY_AS_TEXT else type(ERRORS[name]())), name
        if name not in ONLY_AS_TEXT:
            assert str(error).splitlines()[0] == str(torchs_error).splitlines()[0], name
        text = "".join(traceback.format_exception(error))
        assert "in explode" in text, name
        assert type(ERRORS[name]()).__name__ in text, name
        assert text.count(f"dataset[{2 * index}]") == 1, name


def test_the_note_on_a_batch_without_samples(real_workers):
    with pytest.raises(IndexError) as caught:  # default_collate's
        list(DataLoader(Rows(), batch_sampler=[[]], **real_workers))
    assert caught.value.__notes__[-1].endswith("from samples [] (0 samples)")


@pytest.mark.parametrize(
    "on_error", ["raise", "skip", lambda error, index: -index], ids=["raise", "skip", "callable"]
)
@pytest.mark.parametrize("base", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_proper_is_raised_in_its_place(base, on_error, light_workers):
    """The rest of the epoch can still be had."""
    error = base("seven")
    iterator = iter(DataLoader(Failing(error), batch_size=5, on_error=on_error, **light_workers))
    assert next(iterator).tolist() == BATCHES[0]
    with pytest.raises(base) as caught:
        next(iterator)
    assert caught.value is error
    check_notes(error, light_workers)
    assert [batch.tolist() for batch in iterator] == BATCHES[2:]


ENDS = {  # torch notices an exit status of 0 within 5 seconds, any other at once
    "interrupted": (KeyboardInterrupt, queue.Empty, "^$"),
    "exits": (
        SystemExit,
        RuntimeError,
        r"worker \(pid \d+\) exited unexpectedly with exit code 7\. ",
    ),
    "killed": (
        lambda index: os.kill(os.getpid(), signal.SIGKILL),
        RuntimeError,
        r"worker \(pid \d+\) is killed by signal: Killed\. ",
    ),
}
ENDED = r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$"


@pytest.mark.thread_unsafe(reason="forks")
@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_worker_process_is_reported(end):
    error, kind, words = ENDS[end]

    def ending(index):
        time.sleep(0.5)  # the main process waits by then: a signal elsewhere would raise elsewhere
        return error(index)

    # With one batch under way, the worker gets the second when its first has arrived.
    options = {"batch_size": 5, "num_workers": 1, "prefetch_factor": 1, "worker_method": "process"}
    iterator = iter(DataLoader(Failing(ending), **options))
    assert next(iterator).tolist() == BATCHES[0]
    with pytest.raises(RuntimeError, match=ENDED) as caught:
        next(iterator)
    assert type(caught.value.__cause__) is kind and re.search(words, str(caught.value.__cause__))


@pytest.mark.thread_unsafe(reason="forks")
def test_a_batch_of_a_worker_process_that_has_ended_is_reported_as_its_end():
    """The batch's memory is asked for from the process that made it."""
    iterator = iter(
        DataLoader(Failing(KeyboardInterrupt), batch_size=5, num_workers=1, worker_method="process")
    )
    iterator._workers[0].join()
    with pytest.raises(RuntimeError, match=ENDED) as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, OSError | EOFError)


# StopIteration: in torch it ends the epoch in silence,
# or a worker process for good. Here it is an error.


def test_stop_iteration_of_a_sample(workers, outcomes):
    stop = StopIteration("seven")
    batches, errors, place = take_apart(
        outcomes(DataLoader(Failing(stop), batch_size=5, **workers))
    )
    assert [type(error) for error in errors] == [RuntimeError]
    assert "raised StopIteration" in str(errors[0])
    if workers.get("worker_method") != "process":
        cause = errors[0].__cause__
        assert cause is stop or workers.get("copy_dataset") and cause.args == stop.args
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)


def stop(samples):
    numbers = [number for _, number in samples]
    if 7 in numbers:
        raise StopIteration("collate")
    return torch.tensor(numbers)


def two_arguments(samples):
    numbers = [number for _, number in samples]
    if 7 in numbers:
        raise TwoArguments(7, "collate")
    return torch.tensor(numbers)


@pytest.mark.parametrize(
    ("collate", "words"), [(stop, "raised StopIteration"), (two_arguments, "TwoArguments")]
)
@pytest.mark.parametrize(
    "dataset", [Rows(20, lambda i: (0, i)), Shares(20, 0)], ids=["map", "iterable"]
)
def test_error_of_collate(dataset, collate, words, workers, outcomes):
    batches, errors, place = take_apart(
        outcomes(DataLoader(dataset, batch_size=5, collate_fn=collate, **workers))
    )
    (text,) = ("".join(traceback.format_exception(error)) for error in errors)
    assert words in text and f"in {collate.__name__}" in text
    assert collate is not stop or type(errors[0]) is RuntimeError
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)


# Elsewhere than in a sample


@pytest.mark.parametrize("unpicklable", [threading.Lock(), lambda: None], ids=["lock", "lambda"])
def test_a_batch_that_cannot_be_pickled(unpicklable, real_workers, outcomes):
    """An error in its place with processes; threads need not pickle it."""
    dataset = Rows(4, lambda index: unpicklable if index == 1 else index)
    first, second, *rest = outcomes(DataLoader(dataset, batch_size=None, **real_workers))
    assert (first, rest) == (0, [2, 3])
    if real_workers["worker_method"] == "thread":
        assert second is unpicklable or real_workers.get("copy_dataset")
    else:
        assert "pickle" in str(second)
        assert any("must be picklable" in note for note in second.__notes__)


@pytest.mark.parametrize("after", [0, 3, 7, 17])
def test_error_of_the_sampler(after, workers, outcomes):
    """All full batches from before come, then the exception, and no more."""
    error = HoldsLock("sampler")
    dl = DataLoader(range(20), sampler=FailingSampler(error, after), batch_size=3, **workers)
    batches, errors, place = take_apart(outcomes(dl))
    assert errors == [error]
    if workers["num_workers"]:
        assert any("sampler" in note for note in error.__notes__)
    assert batches == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(after // 3)]
    assert place == len(batches)


class GoesOn:
    """Batch sampler that raises at its third step, and goes on."""

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


def test_a_sampler_that_goes_on_after_an_error(light_workers, outcomes):
    found = outcomes(DataLoader(torch.arange(10), batch_sampler=GoesOn(), **light_workers))
    batches, errors, place = take_apart(found)
    assert batches == [[1], [2], [4], [5], [6]]
    assert ([str(error) for error in errors], place) == (["the third"], 2)


def test_error_of_the_samplers_iter(workers):
    class Bad(Rows):
        def __iter__(self):
            raise HoldsLock("sampler")

    dl = DataLoader(range(20), sampler=Bad(3), **workers)
    assert len(dl) == 3
    with pytest.raises(HoldsLock, match="sampler"):
        list(dl)


def fail_to_start(worker_id):
    raise TwoArguments(worker_id, "no disk")


def stop_to_start(worker_id):
    raise StopIteration


@pytest.mark.parametrize(
    ("start", "words"), [(fail_to_start, "no disk"), (stop_to_start, "StopIteration")]
)
def test_error_of_the_init_function(start, words, real_workers, outcomes):
    dl = DataLoader(range(20), batch_size=5, worker_init_fn=start, **real_workers)
    with pytest.raises((TwoArguments, RuntimeError)) as caught:
        list(dl)
    errors = [caught.value]
    if real_workers["worker_method"] == "process":  # which report it for each batch
        errors = outcomes(dl)
        assert ["worker_init_fn" in error.__notes__[0] for error in errors] == [True] * 4
    for error in errors:
        text = "".join(traceback.format_exception(error))
        assert f"in {start.__name__}" in text and words in text


class BadIter(IterableDataset):
    def __iter__(self):
        raise TwoArguments(1, "iter")


def test_error_of_iter_of_an_iterable_style_dataset(workers, outcomes):
    with pytest.raises((TwoArguments, RuntimeError)) as caught:
        list(DataLoader(BadIter(), **workers))
    assert "TwoArguments" in "".join(traceback.format_exception(caught.value))
    if workers.get("worker_method") == "thread":  # each reports it once
        assert [str(error) for error in outcomes(DataLoader(BadIter(), **workers))] == [
            "(1, 'iter')"
        ] * 2


class BadStream(IterableDataset):
    """Stream that fails after five samples in the first worker."""

    def __iter__(self):
        yield from range(5)
        if my_share()[0] == 0:
            raise ValueError("stream")
        yield from range(5, 10)


def test_an_iterable_style_dataset_fails_half_way(workers, outcomes):
    batches, errors, _ = take_apart(outcomes(DataLoader(BadStream(), batch_size=2, **workers)))
    assert [type(error) for error in errors] == [ValueError]
    assert "stream" in str(errors[0])
    # The failed worker gave two whole batches, the other, if there is one, all of its ten.
    seen = sorted(sum(batches, []))
    assert seen == sorted([0, 1, 2, 3] + ([*range(10)] if workers["num_workers"] else []))


def test_an_iterable_style_dataset_whose_iter_gives_no_iterator(workers):
    class NotIterable(IterableDataset):
        def __iter__(self):
            return 5

    with pytest.raises(TypeError, match="iter"):
        list(DataLoader(NotIterable(), **workers))


# The consumer's side


def test_the_loader_can_be_used_again_after_each_failure(workers, outcomes):
    dl = DataLoader(Failing(ValueError), batch_size=5, **workers)
    for _ in range(3):
        batches, errors, place = take_apart(outcomes(dl))
        assert (batches, len(errors), place) == ([BATCHES[0], *BATCHES[2:]], 1, 1)
        check_notes(errors[0], workers)
