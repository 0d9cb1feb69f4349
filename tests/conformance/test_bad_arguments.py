"""Absurd arguments, and datasets that do not keep their word: refused, or used, as torch does."""

import pytest
import torch
import torch.utils.data

from ftloader import DataLoader
from tests.datasets import Failing, Rows, Stream

BAD_ARGUMENTS = [
    # Text is refused in words of our own, which name "auto".
    *({"num_workers": bad} for bad in (-1, None, 1.5, float("nan"))),
    *({"batch_size": bad} for bad in (0, -3, "4", 1.5, True, [2])),
    *({"timeout": bad} for bad in (-1, "soon", None)),
    *({"prefetch_factor": bad} for bad in (2, -1)),
    {"num_workers": 1, "prefetch_factor": -1},
    {"num_workers": 1, "prefetch_factor": "2"},
    {"persistent_workers": True},
    {"shuffle": True, "sampler": [0]},
    *({"shuffle": bad} for bad in ("yes", None)),
    {"batch_size": 2, "batch_sampler": [[0]]},
    {"shuffle": True, "batch_sampler": [[0]]},
    {"drop_last": True, "batch_sampler": [[0]]},
    {"sampler": [0], "batch_sampler": [[0]]},
    {"batch_size": None, "drop_last": True},
    {"batch_size": None, "shuffle": True},
    *({"drop_last": bad} for bad in ("no", 2)),
    {"generator": 5},
    {"shuffle": True, "generator": 5},
    {"multiprocessing_context": "fork"},
    {"num_workers": 1, "multiprocessing_context": "nonsense"},
    {"num_workers": 1, "multiprocessing_context": 5},
    {"pin_memory_device": "nonsense"},
    {"unknown": 1},
    {"collate_fn": 5},
    *({"sampler": bad} for bad in (5, "ab", [100], [None], [-1, -2])),
    *({"batch_sampler": bad} for bad in (5, [0, 1], [[0, 100], [1]], [None])),
]


def attempt(work):
    """Return (True, value), or (False, type and text of the exception)."""
    try:
        return True, work()
    except Exception as error:
        return False, (type(error).__name__, str(error))


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
@pytest.mark.parametrize("worker_method", ["auto", "thread", "process"])
def test_refused_arguments_are_torchs(arguments, worker_method):
    if worker_method == "thread" and "multiprocessing_context" in arguments:
        pytest.skip("threads have no context")
    rows = torch.arange(10)
    torchs_made, torchs = attempt(lambda: torch.utils.data.DataLoader(rows, **arguments))
    made, ours = attempt(lambda: DataLoader(rows, worker_method=worker_method, **arguments))
    assert made == torchs_made
    if not made:
        assert ours == torchs


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
def test_absurd_arguments_give_torchs_epoch(arguments, light_workers, outcomes, assert_same):
    """Arguments that the constructor accepts fail later, or do not, as in torch without workers."""
    rows = torch.arange(10)
    if {"num_workers", "multiprocessing_context", "prefetch_factor", "persistent_workers"} & set(
        arguments
    ):
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
    """An exception, and no thread is left, also for more than the system has threads for."""
    made, dl = attempt(lambda: DataLoader(range(4), num_workers=number, worker_method="thread"))
    if made and number != 10**9:
        made, batches = attempt(lambda: list(dl))
        assert not made


def test_at_most_all_batches_are_prefetched():
    batches = DataLoader(
        range(6), batch_size=2, num_workers=2, prefetch_factor=10**9, worker_method="thread"
    )
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    "dataset", [None, 5, object(), lambda: None, iter([1, 2])], ids=lambda d: type(d).__name__
)
def test_what_is_no_dataset(dataset, light_workers):
    made, ours = attempt(lambda: list(DataLoader(dataset, **light_workers)))
    torchs_made, torchs = attempt(lambda: list(torch.utils.data.DataLoader(dataset)))
    assert not made and not torchs_made
    assert ours[0] == torchs[0]
    assert torchs[1] in ours[1]


def test_iterable_style_refuses_samplers_as_torchs():
    for arguments in (
        {"shuffle": True},
        {"sampler": [0]},
        {"batch_sampler": [[0]]},
        {"shuffle": 5},
    ):
        torchs = attempt(
            lambda arguments=arguments: torch.utils.data.DataLoader(Stream(), **arguments)
        )
        assert attempt(lambda arguments=arguments: DataLoader(Stream(), **arguments)) == torchs
        assert not torchs[0]


# Datasets that do not keep their word


def test_fewer_samples_than_said(workers, assert_like_torch):
    lying = Failing(IndexError, 20, at=range(12, 20))
    ours = assert_like_torch(lying, workers, batch_size=5)
    assert [isinstance(outcome, IndexError) for outcome in ours] == [False, False, True, True]


def test_a_dataset_that_shrinks_during_the_epoch(light_workers, outcomes):
    """A sample that still exists comes; a missing one is an error in its place."""
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


def test_a_dataset_that_grows(workers):
    """As in torch, the sampler asks for the length at the start of the epoch."""
    rows = [*range(9)]
    dl = DataLoader(rows, batch_size=5, **workers)
    rows.append(9)
    assert len(dl) == 2
    iterator = iter(dl)
    first = next(iterator)
    rows.extend(range(10, 20))
    assert [first.tolist(), *[batch.tolist() for batch in iterator]] == [
        [*range(5)],
        [*range(5, 10)],
    ]
    assert [batch.tolist() for batch in dl] == [[*range(i, i + 5)] for i in range(0, 20, 5)]


def test_len_that_raises(light_workers):
    class NoLen(Rows):
        def __len__(self):
            raise OSError("no index file")

    ours = attempt(lambda: list(DataLoader(NoLen(), **light_workers)))
    assert ours == attempt(lambda: list(torch.utils.data.DataLoader(NoLen())))
    # With a sampler of its own the length is not asked for.
    assert torch.cat(list(DataLoader(NoLen(), sampler=[3, 4], **light_workers))).tolist() == [3, 4]
