"""Samples that cannot be loaded: what each on_error policy does,
and that nothing is lost in silence.
"""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from ftloader.batch.errors import SKIP, SkipLog, Skipped
from tests.datasets import Failing, FailingBatches, FailingStream, Whole
from tests.in_threads import in_threads


def ways(
    least=0,
    most=2,
    of=((0, "thread"), (1, "thread"), (2, "thread"), (1, "process"), (2, "process")),
):
    """Return arguments of DataLoader for *least* to *most* workers."""
    return [
        pytest.param({"num_workers": workers, "worker_method": method}, id=f"{workers}-{method}")
        for workers, method in of
        if least <= workers <= most
    ]


SLOTS = ((0, "thread"), (2, "thread"))  # processes build batches without slots

left_out = pytest.mark.filterwarnings("ignore:.*on_error left them out")


def bad_sample(index):
    return ValueError(f"bad\n{index}")


def bad(*at):
    """Return rows of 0 to 19 that fail for those in *at*."""
    return Failing(bad_sample, at=at)


def bad_stream(*at):
    """Return a stream of 0 to 9 that fails for those in *at*."""
    return FailingStream(ValueError, 10, at)


class Generator(IterableDataset):
    def __iter__(self):
        yield from range(5)
        raise ValueError("bad 5")


def minus(error, index):
    return -index


def only_even(error, index):
    return SKIP if index % 2 else -index


def gives_up(error, index):
    raise LookupError(f"no substitute for {index}") from error


def lists(dl):
    return [batch.tolist() for batch in dl]


@pytest.mark.parametrize("bad", ["ignore", "", "SKIP", None, 1, ["skip"]])
def test_no_policy(bad):
    with pytest.raises(
        ValueError if isinstance(bad, str) else TypeError, match="'raise', 'skip' or a callable"
    ):
        DataLoader([1], on_error=bad)


def test_policy_is_checked_when_set_later_and_kept():
    dl = DataLoader([1], on_error="skip")
    with pytest.raises(ValueError):
        dl.on_error = "ignore"
    assert dl.on_error == "skip" and vars(dl)["on_error"] == "skip"
    dl.on_error = minus
    assert dl.on_error is minus


BY_FOUR = [[*range(start, start + 4)] for start in range(0, 20, 4)]


@left_out
@pytest.mark.parametrize(
    ("dataset", "batch_size", "batches", "indices"),
    [
        (bad(2, 3, 11), 4, [[0, 1], BY_FOUR[1], [8, 9, 10], *BY_FOUR[3:]], [2, 3, 11]),
        (bad(0, 7), None, [i for i in range(20) if i not in (0, 7)], [0, 7]),
        # A batch without samples is no batch.
        (bad(*range(4, 12), 16, 17, 18, 19), 4, BY_FOUR[:4:3], [*range(4, 12), 16, 17, 18, 19]),
        (bad(*range(20)), 3, [], [*range(20)]),
        # A dataset that loads batches is skipped by the batch.
        (FailingBatches(bad_sample, at=[5]), 4, [BY_FOUR[0], *BY_FOUR[2:]], [BY_FOUR[1]]),
    ],
)
@pytest.mark.parametrize("workers", ways())
def test_skip_leaves_the_sample_out_and_says_so(workers, dataset, batch_size, batches, indices):
    dl = DataLoader(dataset, batch_size=batch_size, **workers, on_error="skip")
    assert (list(dl) if batch_size is None else lists(dl)) == batches
    assert dl.skipped.samples == tuple(
        (i, f"ValueError: bad {5 if type(i) is list else i}") for i in indices
    )
    assert dl.skipped.count == len(indices)


@pytest.mark.parametrize("workers", ways())
@pytest.mark.slow(cases=1)
def test_one_warning_at_the_end_of_an_epoch(workers):
    dl = DataLoader(bad(2, 3, 8, 9, 16), batch_size=4, **workers, on_error="skip")
    iterator = iter(dl)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            next(iterator)
    with pytest.warns(
        UserWarning, match="^5 of this .* 2: ValueError: bad 2; 3: .* 2 more"
    ) as caught:
        assert list(iterator) == []
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match="^5 of this epoch's.*10 so far"):
        list(dl)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(DataLoader(bad(), **workers, on_error="skip"))


IMAGES = {
    "array": lambda index: (np.full((3, 80, 80), index, dtype=np.uint8), index),
    "tensor": lambda index: {"image": torch.full((3, 80, 80), float(index)), "index": index},
    "alone": lambda index: np.full((3, 80, 80), index, dtype=np.uint8),
}
"""Samples that are large enough to be written straight into a batch's memory."""


@left_out
@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("bad", [(0,), (3,), (0, 1, 2, 3), (5, 6), (1, 2, 9, 19), (16, 17, 18, 19)])
@pytest.mark.parametrize("workers", ways(of=SLOTS))
def test_large_samples_close_up(workers, bad, kind):
    dl = DataLoader(
        Failing(ValueError, at=bad, make=IMAGES[kind]), batch_size=4, **workers, on_error="skip"
    )
    expected = [[i for i in range(start, start + 4) if i not in bad] for start in range(0, 20, 4)]
    for _ in range(2):  # buffers are used again
        seen = []
        for batch in dl:
            images = batch["image"] if kind == "tensor" else batch if kind == "alone" else batch[0]
            seen.append(images[:, 0, 0, 0].tolist())
            assert images.shape[1:] == (3, 80, 80) and (images == images[:, :1, :1, :1]).all()
            if kind != "alone":
                assert seen[-1] == (batch["index"] if kind == "tensor" else batch[1]).tolist()
        assert seen == [indices for indices in expected if indices]
    assert [s.index for s in dl.skipped.samples] == [*bad, *bad]


def substitute_image(error, index):
    return torch.full((3, 80, 80), -1.0), -index


@pytest.mark.parametrize("bad", [(0,), (2, 3), (4, 5, 6, 7)])
@pytest.mark.parametrize("workers", ways(of=SLOTS))
def test_large_substitutes(workers, bad):
    rows = Failing(
        ValueError, at=bad, make=lambda index: (torch.full((3, 80, 80), float(index)), index)
    )
    dl = DataLoader(rows, batch_size=4, **workers, on_error=substitute_image)
    for number, (images, indices) in enumerate(dl):
        for position, (image, index) in enumerate(zip(images, indices, strict=True)):
            expected = number * 4 + position
            assert index == (-expected if expected in bad else expected)
            assert (image == (-1 if expected in bad else expected)).all()


@left_out
@pytest.mark.parametrize("workers", ways())
def test_a_callable_substitutes_or_skips(workers):
    dl = DataLoader(bad(2, 3), batch_size=4, **workers, on_error=only_even)
    assert lists(dl)[0] == [0, 1, -2]
    assert [s.index for s in dl.skipped.samples] == [3]
    dl = DataLoader(bad(2, 3), batch_size=4, **workers, on_error=minus)
    assert lists(dl)[0] == [0, 1, -2, -3]
    assert dl.skipped.count == 0


@pytest.mark.parametrize("workers", ways())
def test_a_callable_that_raises(workers):
    dl = DataLoader(bad(6), batch_size=4, **workers, on_error=gives_up)
    iterator = iter(dl)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(LookupError, match="no substitute for 6"):
        next(iterator)
    assert lists(iterator) == [[8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]
    assert dl.skipped.count == 0


@left_out
@pytest.mark.parametrize("workers", ways())
def test_an_error_in_collate_is_not_a_samples(workers):
    dl = DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2, **workers, on_error="skip")
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(dl)
    assert dl.skipped.count == 0


@pytest.mark.slow(cases=12)
@pytest.mark.parametrize("on_error", ["raise", "skip", minus])
@pytest.mark.parametrize("dataset", [[0, SKIP, 2], Whole([0, SKIP, 2])], ids=["map", "iterable"])
@pytest.mark.parametrize("workers", ways(most=1))
def test_a_sample_that_is_skip_is_not_left_out(workers, dataset, on_error):
    common = workers | {"on_error": on_error}
    assert list(DataLoader(dataset, batch_size=2, collate_fn=list, **common)) == [[0, SKIP], [2]]
    assert list(DataLoader(dataset, batch_size=None, **common)) == [0, SKIP, 2]


@left_out
@pytest.mark.parametrize("at", [(0, 4, 8, 9), (8, 9)])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", ways(most=1))
def test_iterable_style(workers, drop_last, at):
    dl = DataLoader(bad_stream(*at), batch_size=2, **workers, on_error="skip", drop_last=drop_last)
    assert sum(lists(dl), []) == [i for i in range(10) if i not in at]
    assert [s.index for s in dl.skipped.samples] == [(0, i) for i in at]


@pytest.mark.parametrize("workers", ways(most=1))
def test_a_generator_that_fails_has_ended_and_the_warning_says_so(workers):
    dl = DataLoader(Generator(), batch_size=2, **workers, on_error="skip")
    with pytest.warns(UserWarning, match="bad 5.*generator"):
        assert lists(dl) == [[0, 1], [2, 3], [4]]
    assert dl.skipped.count == 1


@pytest.mark.parametrize("workers", ways())
def test_an_iterator_that_only_raises_is_given_up(workers):
    dl = DataLoader(
        FailingStream(ConnectionError, at=range(10**6)), batch_size=2, **workers, on_error="skip"
    )
    with pytest.raises(RuntimeError, match="in a row") as caught:
        list(dl)
    assert "bad 999" in str(caught.value) or "bad 999" in str(caught.value.__cause__)


@left_out
@pytest.mark.parametrize("workers", ways(least=1))
def test_persistent_workers_go_on_counting(workers):
    dl = DataLoader(bad(3), batch_size=4, **workers, on_error="skip", persistent_workers=True)
    for epoch in range(1, 4):
        assert len(sum(lists(dl), [])) == 19
        assert dl.skipped.count == epoch
    dl._iterator = None


@left_out
@pytest.mark.parametrize("duplicate", [copy.copy, lambda dl: pickle.loads(pickle.dumps(dl))])
def test_copies_and_pickles_of_a_loader(duplicate, worker_method):
    dl = DataLoader(
        bad(3), batch_size=4, num_workers=1, worker_method=worker_method, on_error="skip"
    )
    list(dl)
    other = duplicate(dl)
    assert other.on_error == "skip" and other.skipped.count == 1
    assert len(sum(lists(other), [])) == 19
    assert other.skipped.count == 2


@left_out
@pytest.mark.parametrize("workers", ways())
def test_abandoned_epochs_keep_their_record(workers):
    dl = DataLoader(bad(0), batch_size=4, **workers, on_error="skip")
    iterator = iter(dl)
    next(iterator)
    del iterator
    assert dl.skipped.count == 1


# The record of skipped samples, without a loader


def test_skip_is_one_object_wherever_it_goes():
    for duplicate in (copy.copy(SKIP), copy.deepcopy(SKIP), pickle.loads(pickle.dumps(SKIP))):
        assert duplicate is SKIP


def test_a_description_is_short():
    assert len(Skipped.because_of(ValueError("x" * 10_000), 1).error) < 400


def test_log_counts_all_and_describes_the_first_thousand():
    log = SkipLog()
    for start in range(0, 2500, 100):
        log.add([Skipped(i, "E") for i in range(start, start + 100)])
    assert log.count == 2500
    assert [s.index for s in log.samples] == list(range(1000))


def test_log_from_many_threads_loses_nothing():
    log = SkipLog()

    def add(name):
        for i in range(500):
            log.add([Skipped((name, i), "E")])

    in_threads(add, range(8))
    assert log.count == 4000
    assert len(log.samples) == 1000
    for name in range(8):  # each thread's in its order
        mine = [s.index[1] for s in log.samples if s.index[0] == name]
        assert mine == sorted(mine)
