"""What fails, fails alike everywhere: with its type and a traceback, in its place, and nothing else is lost."""

import threading
import traceback

import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ftloader import DataLoader

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few CPUs
]


class TwoArguments(Exception):
    """Cannot be made from a message alone."""

    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code = code


class HoldsLock(ValueError):
    """Cannot be pickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class OddPickle(ValueError):
    def __reduce__(self):
        raise RuntimeError("not to be pickled")


class WithMessage(Exception):
    """torch passes such a class its text by keyword."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message


class KeywordOnly(Exception):
    def __init__(self, *, text):
        super().__init__(text)


class ShadowedNotes(Exception):
    """Has no place for notes."""

    __notes__ = ()


def in_a_group():
    return ExceptionGroup("several", [ValueError("seven"), KeyError("eight")])


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
    "ExceptionGroup": in_a_group,
    "TwoArguments": lambda: TwoArguments(7, "seven"),
    "HoldsLock": lambda: HoldsLock("seven"),
    "OddPickle": lambda: OddPickle("seven"),
    "WithMessage": lambda: WithMessage("seven"),
    "KeywordOnly": lambda: KeywordOnly(text="seven"),
    "ShadowedNotes": lambda: ShadowedNotes("seven"),
}
# Of these, torch's worker processes can only report the text: as RuntimeError.
ONLY_AS_TEXT = ("UnicodeDecodeError", "ExceptionGroup", "TwoArguments", "KeywordOnly")


class Failing(Dataset):
    """Raises, for sample 7 of 20, what ``make`` makes."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index == 7:
            self.explode()
        return index

    def explode(self):
        raise self.make()


BATCHES = [[*range(i, i + 5)] for i in range(0, 20, 5)]


def take_apart(outcomes):
    """(batches as lists, exceptions, place of the first exception)."""
    batches = [o.tolist() for o in outcomes if not isinstance(o, BaseException)]
    errors = [o for o in outcomes if isinstance(o, BaseException)]
    place = next((n for n, o in enumerate(outcomes) if isinstance(o, BaseException)), None)
    return batches, errors, place


@pytest.mark.parametrize("kind", ERRORS)
def test_error_of_a_sample(kind, light_workers, outcomes):
    error = ERRORS[kind]()
    dl = DataLoader(Failing(lambda: error), batch_size=5, **light_workers)
    batches, errors, place = take_apart(outcomes(dl))
    assert errors == [error]  # the object itself: exceptions compare by identity
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)
    text = "".join(traceback.format_exception(error))
    assert "in explode" in text and "raise self.make()" in text


class FailingEach(Dataset):
    """Sample i raises the i-th of the errors, odd samples do not."""

    def __len__(self):
        return 2 * len(ERRORS)

    def __getitem__(self, index):
        if index % 2 == 0:
            self.explode([*ERRORS.values()][index // 2])
        return index

    def explode(self, make):
        raise make()


@pytest.mark.thread_unsafe(reason="forks")
def test_errors_of_samples_in_processes(outcomes):
    dl = DataLoader(FailingEach(), batch_size=None, num_workers=2, worker_method="process")
    found = outcomes(dl)
    assert len(found) == 2 * len(ERRORS)
    assert found[1::2] == [*range(1, 2 * len(ERRORS), 2)]
    for name, error in zip(ERRORS, found[::2], strict=True):
        expected = RuntimeError if name in ONLY_AS_TEXT else type(ERRORS[name]())
        assert type(error) is expected, name
        text = "".join(traceback.format_exception(error))
        assert "in explode" in text, name
        assert type(ERRORS[name]()).__name__ in text, name


def test_every_sample_fails(workers, outcomes):
    class Never(Failing):
        def __getitem__(self, index):
            raise NotImplementedError(f"sample {index}")

    found = outcomes(DataLoader(Never(None), batch_size=4, **workers))
    assert [type(error) for error in found] == [NotImplementedError] * 5
    assert all(f"sample {4 * n}" in str(error) for n, error in enumerate(found))


def test_an_error_does_not_depend_on_who_is_faster(workers, outcomes):
    """Several samples of a batch fail: the first in the batch's order is raised."""

    class Some(Failing):
        def __getitem__(self, index):
            if index % 5 in (1, 2, 4):
                raise ValueError(f"sample {index}")
            return index

    found = outcomes(DataLoader(Some(None), batch_size=5, **workers))
    assert [type(error) for error in found] == [ValueError] * 4
    assert all(f"sample {5 * n + 1}" in str(error) for n, error in enumerate(found))


@pytest.mark.parametrize("base", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_not_an_exception_proper(base, light_workers):
    """Raised as it is, in its place; the rest of the epoch can still be had."""
    iterator = iter(DataLoader(Failing(lambda: base("seven")), batch_size=5, **light_workers))
    assert next(iterator).tolist() == BATCHES[0]
    with pytest.raises(base, match="seven"):
        next(iterator)
    assert [batch.tolist() for batch in iterator] == BATCHES[2:]


@pytest.mark.thread_unsafe(reason="forks")
@pytest.mark.parametrize("base", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_worker_process_is_reported(base):
    dl = DataLoader(Failing(base), batch_size=5, num_workers=1, worker_method="process")
    iterator = iter(dl)
    # OSError, EOFError: torch's queue asks the dead process for the memory of a batch that it had sent.
    with pytest.raises((RuntimeError, OSError, EOFError, base)):
        for _ in range(4):
            next(iterator)


# StopIteration


def test_stop_iteration_of_a_sample(workers, outcomes):
    """In torch it ends the epoch in silence, or a worker process for good; here it is an error."""
    batches, errors, place = take_apart(outcomes(DataLoader(Failing(StopIteration), batch_size=5, **workers)))
    assert [type(error) for error in errors] == [RuntimeError]
    assert "StopIteration" in str(errors[0])
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)


def stop(samples):
    if samples[0] == 5:
        raise StopIteration("collate")
    return torch.tensor(samples)


def test_stop_iteration_of_collate(workers, outcomes):
    batches, errors, place = take_apart(outcomes(DataLoader(range(20), batch_size=5, collate_fn=stop, **workers)))
    assert [type(error) for error in errors] == [RuntimeError]
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)


# Elsewhere than in a sample


def bad_collate(samples):
    if 7 in samples:
        raise TwoArguments(7, "collate")
    return torch.tensor(samples)


def test_collate(workers, outcomes):
    batches, errors, place = take_apart(
        outcomes(DataLoader(range(20), batch_size=5, collate_fn=bad_collate, **workers))
    )
    assert len(errors) == 1
    text = "".join(traceback.format_exception(errors[0]))
    assert "TwoArguments" in text and "in bad_collate" in text
    assert (batches, place) == ([BATCHES[0], *BATCHES[2:]], 1)


class Unsendable:
    """A batch that cannot be pickled; threads need not."""

    def __init__(self, samples):
        self.samples = samples
        self.lock = threading.Lock()


@pytest.mark.thread_unsafe(reason="forks")
def test_a_batch_that_cannot_be_pickled(outcomes):
    found = outcomes(DataLoader(range(6), batch_size=3, collate_fn=Unsendable, num_workers=2, worker_method="thread"))
    assert [batch.samples for batch in found] == [[0, 1, 2], [3, 4, 5]]
    found = outcomes(DataLoader(range(6), batch_size=3, collate_fn=Unsendable, num_workers=2, worker_method="process"))
    assert len(found) == 2
    assert all("pickle" in str(error) for error in found)


class FailingSampler:
    def __init__(self, error, after):
        self.error, self.after = error, after

    def __iter__(self):
        yield from range(self.after)
        raise self.error


@pytest.mark.parametrize("after", [0, 3, 7, 17])
def test_sampler(after, workers, outcomes):
    """All that it gave before, in full batches, then its exception, and no more."""
    error = HoldsLock("sampler")
    found = outcomes(DataLoader(range(20), sampler=FailingSampler(error, after), batch_size=3, **workers))
    batches, errors, place = take_apart(found)
    assert errors == [error]
    assert batches == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(after // 3)]
    assert place == len(batches)


def test_iter_of_the_sampler(workers):
    class Bad:
        def __iter__(self):
            raise HoldsLock("sampler")

        def __len__(self):
            return 3

    dl = DataLoader(range(20), sampler=Bad(), **workers)
    assert len(dl) == 3
    with pytest.raises(HoldsLock, match="sampler"):
        list(dl)


def fail_to_start(worker_id):
    raise TwoArguments(worker_id, "no disk")


def test_init_function(real_workers):
    with pytest.raises((TwoArguments, RuntimeError)) as caught:
        list(DataLoader(range(20), batch_size=5, worker_init_fn=fail_to_start, **real_workers))
    text = "".join(traceback.format_exception(caught.value))
    assert "in fail_to_start" in text and "no disk" in text


def stop_to_start(worker_id):
    raise StopIteration


def test_init_function_raises_stop_iteration(real_workers):
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(range(20), batch_size=5, worker_init_fn=stop_to_start, **real_workers))


class BadIter(IterableDataset):
    def __iter__(self):
        raise TwoArguments(1, "iter")


def test_iter_of_an_iterable_dataset(workers):
    with pytest.raises((TwoArguments, RuntimeError)) as caught:
        list(DataLoader(BadIter(), **workers))
    assert "TwoArguments" in "".join(traceback.format_exception(caught.value))


class BadStream(IterableDataset):
    """Fails after five of its share."""

    def __iter__(self):
        info = get_worker_info()
        yield from range(5)
        if info is None or info.id == 0:
            raise ValueError("stream")
        yield from range(5, 10)


def test_an_iterable_dataset_half_way(workers, outcomes):
    batches, errors, _ = take_apart(outcomes(DataLoader(BadStream(), batch_size=2, **workers)))
    assert [type(error) for error in errors] == [ValueError]
    assert "stream" in str(errors[0])
    # The failed worker gave two whole batches, the other, if there is one, all of its ten.
    seen = sorted(sum(batches, []))
    assert seen == sorted([0, 1, 2, 3] + ([*range(10)] if workers["num_workers"] else []))


class NotIterable(IterableDataset):
    def __iter__(self):
        return 5


def test_an_iterable_dataset_that_is_none(workers):
    with pytest.raises(TypeError, match="iter"):
        list(DataLoader(NotIterable(), **workers))


# Arguments


BAD_ARGUMENTS = [
    {"num_workers": -1},
    {"num_workers": "two"},
    {"num_workers": None},
    {"num_workers": 1.5},
    {"num_workers": float("nan")},
    {"batch_size": 0},
    {"batch_size": -3},
    {"batch_size": "4"},
    {"batch_size": 1.5},
    {"batch_size": True},
    {"batch_size": [2]},
    {"timeout": -1},
    {"timeout": "soon"},
    {"timeout": None},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1},
    {"num_workers": 1, "prefetch_factor": -1},
    {"num_workers": 1, "prefetch_factor": "2"},
    {"persistent_workers": True},
    {"shuffle": True, "sampler": [0]},
    {"shuffle": "yes"},
    {"shuffle": None},
    {"batch_size": 2, "batch_sampler": [[0]]},
    {"shuffle": True, "batch_sampler": [[0]]},
    {"drop_last": True, "batch_sampler": [[0]]},
    {"sampler": [0], "batch_sampler": [[0]]},
    {"batch_size": None, "drop_last": True},
    {"batch_size": None, "shuffle": True},
    {"drop_last": "no"},
    {"drop_last": 2},
    {"generator": 5},
    {"shuffle": True, "generator": 5},
    {"multiprocessing_context": "fork"},
    {"num_workers": 1, "multiprocessing_context": "nonsense"},
    {"num_workers": 1, "multiprocessing_context": 5},
    {"pin_memory_device": "nonsense"},
    {"unknown": 1},
    {"sampler": 5},
    {"batch_sampler": 5},
    {"collate_fn": 5},
    {"sampler": "ab"},
    {"batch_sampler": [0, 1]},
    {"sampler": [100]},
    {"sampler": [None]},
    {"sampler": [-1, -2]},
    {"batch_sampler": [[0, 100], [1]]},
    {"batch_sampler": [None]},
]


def attempt(work):
    """(True, value), or (False, type and text of the exception)."""
    try:
        return True, work()
    except Exception as error:
        return False, (type(error).__name__, str(error))


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
@pytest.mark.parametrize("worker_method", ["auto", "process"])
def test_refused_arguments_are_torchs(arguments, worker_method):
    rows = torch.arange(10)
    torchs_made, torchs = attempt(lambda: torch.utils.data.DataLoader(rows, **arguments))
    made, ours = attempt(lambda: DataLoader(rows, worker_method=worker_method, **arguments))
    assert made == torchs_made
    if not made:
        assert ours == torchs


@pytest.mark.thread_unsafe(reason="seeds torch's default generator")
@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
def test_absurd_arguments_give_torchs_epoch(arguments, light_workers, outcomes, assert_same):
    """What the constructor lets pass fails, or does not, as it does in torch without workers."""
    rows = torch.arange(10)
    if {"num_workers", "multiprocessing_context", "prefetch_factor", "persistent_workers"} & set(arguments):
        return  # mean something else with workers: the constructor's affair, or another test's

    def epoch(cls, **more):
        torch.manual_seed(0)
        return outcomes(cls(rows, **arguments, **more))

    timeout = arguments.get("timeout", 0)
    torchs_made, torchs = attempt(lambda: epoch(torch.utils.data.DataLoader))
    made, ours = attempt(lambda: epoch(DataLoader, **light_workers))
    if timeout is None or isinstance(timeout, str):
        assert not made or not torchs_made or len(ours) == 10  # torch ignores it without workers
        return
    # Made by the sampler while the iterator is made, or at the first batch.
    ours, torchs = (o if isinstance(o, list) else [o] for o in (ours, torchs))
    name = lambda o: o[0] if isinstance(o, tuple) else type(o).__name__  # noqa: E731
    assert [name(o) for o in ours] == [name(o) for o in torchs]
    for a, b in zip(ours, torchs, strict=True):
        if isinstance(b, torch.Tensor):
            assert_same(a, b)


@pytest.mark.parametrize("number", [1.5, "2", None, float("nan"), 10**9, -(10**9)])
def test_absurd_numbers_of_workers_never_hang(number):
    """More than the system has threads for included: an exception and no thread left."""
    made, dl = attempt(lambda: DataLoader(range(4), num_workers=number, worker_method="thread"))
    if made and number != 10**9:
        made, batches = attempt(lambda: list(dl))
        assert not made


@pytest.mark.parametrize("prefetch", [0, 1.5, 10**9])
def test_absurd_prefetch(prefetch, outcomes):
    """As many as there are, at most; what is no number of batches is an error."""
    made, found = attempt(
        lambda: outcomes(
            DataLoader(range(6), batch_size=2, num_workers=2, prefetch_factor=prefetch, worker_method="thread")
        )
    )
    if prefetch == 10**9:
        assert made and [batch.tolist() for batch in found] == [[0, 1], [2, 3], [4, 5]]
    else:
        assert not made


@pytest.mark.parametrize("dataset", [None, 5, object(), lambda: None, iter([1, 2])], ids=lambda d: type(d).__name__)
def test_what_is_no_dataset(dataset, light_workers):
    def epoch(cls, **more):
        return list(cls(dataset, **more))

    made, ours = attempt(lambda: epoch(DataLoader, **light_workers))
    torchs_made, torchs = attempt(lambda: epoch(torch.utils.data.DataLoader))
    assert not made and not torchs_made
    assert ours[0] == torchs[0]
    assert torchs[1] in ours[1]


def test_iterable_style_refuses_samplers_as_torchs():
    for arguments in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"shuffle": 5}):
        torchs = attempt(lambda arguments=arguments: torch.utils.data.DataLoader(BadStream(), **arguments))
        assert attempt(lambda arguments=arguments: DataLoader(BadStream(), **arguments)) == torchs
        assert not torchs[0]


# Datasets that do not keep their word


class Lying(Dataset):
    """Says 20, has 12."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index >= 12:
            raise IndexError(f"{index} is beyond the end")
        return index


def test_fewer_samples_than_said(workers, assert_like_torch):
    ours = assert_like_torch(Lying(), workers, batch_size=5)
    assert [isinstance(outcome, IndexError) for outcome in ours] == [False, False, True, True]


def test_a_dataset_that_shrinks_during_the_epoch(light_workers, outcomes):
    """What is still there comes, what is gone is an error in its place; nothing is lost in silence."""
    rows = [*range(40)]
    iterator = iter(DataLoader(rows, batch_size=5, **light_workers))
    first = next(iterator)
    del rows[20:]
    found = [first, *outcomes(iterator)]
    assert len(found) == 8
    for n, outcome in enumerate(found):
        if isinstance(outcome, Exception):
            assert isinstance(outcome, IndexError) and n >= 4
        else:
            assert outcome.tolist() == [*range(5 * n, 5 * n + 5)]
    # Beyond what was prefetched, at the latest, they are gone.
    assert isinstance(found[-1], IndexError)


def test_a_dataset_that_grows_during_the_epoch(light_workers):
    """As in torch, the sampler asked for the length when the epoch began."""
    rows = [*range(10)]
    dl = DataLoader(rows, batch_size=5, **light_workers)
    iterator = iter(dl)
    first = next(iterator)
    rows.extend(range(10, 20))
    assert [first.tolist(), *[batch.tolist() for batch in iterator]] == BATCHES[:2]
    assert [batch.tolist() for batch in dl] == BATCHES


def test_len_that_raises(light_workers):
    class NoLen(Dataset):
        def __len__(self):
            raise OSError("no index file")

        def __getitem__(self, index):
            return index

    def use(cls, **more):
        return list(cls(NoLen(), **more))

    assert attempt(lambda: use(DataLoader, **light_workers)) == attempt(lambda: use(torch.utils.data.DataLoader))
    # With a sampler of its own the length is nobody's business.
    assert torch.cat(list(DataLoader(NoLen(), sampler=[3, 4], **light_workers))).tolist() == [3, 4]


# The consumer's side


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit])
def test_an_exception_in_the_loop(error, workers):
    with pytest.raises(error):
        for _ in DataLoader(range(100), batch_size=2, **workers):
            raise error


def test_the_loader_is_as_good_as_new_after_each_failure(workers, outcomes):
    dl = DataLoader(Failing(lambda: ValueError("seven")), batch_size=5, **workers)
    for _ in range(3):
        batches, errors, place = take_apart(outcomes(dl))
        assert (batches, len(errors), place) == ([BATCHES[0], *BATCHES[2:]], 1, 1)


@pytest.mark.parametrize("persistent", [False, True])
def test_failures_in_threads_that_stay(persistent, outcomes):
    dl = DataLoader(
        Failing(lambda: ValueError("seven")),
        batch_size=5,
        num_workers=3,
        worker_method="thread",
        persistent_workers=persistent,
        in_order=False,
    )
    for _ in range(3):
        batches, errors, _ = take_apart(outcomes(dl))
        assert (sorted(batches), len(errors)) == ([BATCHES[0], *BATCHES[2:]], 1)
