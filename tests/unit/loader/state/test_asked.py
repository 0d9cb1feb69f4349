"""Calls of state_dict() on samplers and datasets: that few are enough,
and what comes of those that fail.
"""

import itertools
import weakref

import pytest
import torch
from torch.utils.data import IterableDataset, Sampler

from ftloader import DataLoader
from tests.datasets import Rows
from tests.unit.loader.state.resuming import EACH_WAY, WAYS, contents, interrupt, resume
from tests.unit.loader.state.stateful_datasets import Counting

SIZE = 24


class Asked(Sampler):
    """Sampler that goes on from its state, and counts how often it is asked for the state."""

    def __init__(self):
        self.passes, self.i, self.begin = 0, 0, 0
        self.asked = 0

    def __iter__(self):
        self.i, self.begin = self.begin, 0
        while self.i < SIZE:
            self.i += 1
            yield (self.i * 7 + self.passes) % SIZE
        self.i = 0
        self.passes += 1

    def state_dict(self):
        self.asked += 1
        return {"passes": self.passes, "i": self.i}

    def load_state_dict(self, state):
        self.passes, self.begin = state["passes"], state["i"]


@pytest.mark.parametrize(("every", "asked"), [(None, 1), (5, 1 + 2)])
@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_a_sampler_is_asked_once_an_epoch_or_every_n_batches(way, every, asked):
    sampler = Asked()
    loader = DataLoader(range(SIZE), 2, sampler=sampler, snapshot_every_n_steps=every, **WAYS[way])
    for epoch in (1, 2):
        contents(loader)
        loader.state_dict()
        assert sampler.asked == epoch * asked


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_the_sampler_is_gone_through_again_and_not_the_samples(way):
    loader = DataLoader(range(SIZE), 2, sampler=Asked(), **WAYS[way])
    contents(loader)
    first, state, rest = interrupt(loader, 5)
    following = contents(loader)
    loaded = []
    other = DataLoader(
        Rows(SIZE, lambda index: loaded.append(index) or index), 2, sampler=Asked(), **WAYS[way]
    )
    assert resume(other, state) == rest
    assert sorted(loaded) == sorted(itertools.chain(*rest))
    assert contents(other) == following != first + rest


class Curriculum(Sampler):
    """Sampler whose step the training changes."""

    def __init__(self):
        self.step, self.i = 1, 0

    def __iter__(self):
        while self.i < SIZE:
            self.i += self.step
            yield self.i % SIZE
        self.i = 0

    def state_dict(self):
        return vars(self)

    def load_state_dict(self, state):
        vars(self).update(state)


@pytest.mark.parametrize(("every", "right"), [(None, False), (1, True)])
def test_a_sampler_that_is_changed_during_the_epoch(every, right):
    def make():
        return DataLoader(range(SIZE), None, sampler=Curriculum(), snapshot_every_n_steps=every)

    loader = make()
    iterator = iter(loader)
    next(iterator)
    loader.sampler.step = 3
    assert next(iterator) == 4
    state = loader.state_dict()
    if right:
        assert resume(make(), state) == contents(iterator)
        return
    other = make()
    other.load_state_dict(state)
    with pytest.raises(
        ValueError, match=r"batch 1 consists of other samples.*snapshot_every_n_steps=1"
    ):
        next(iter(other))


@pytest.mark.parametrize(("every", "loaded"), [(None, [0, 0]), (1, [6, 4]), (2, [4, 4])])
@pytest.mark.slow
def test_the_state_of_a_map_style_dataset_in_processes_is_the_latest_asked_for(every, loaded):
    def make():
        return DataLoader(Counting(SIZE), 2, snapshot_every_n_steps=every, **WAYS["processes"])

    _, state, _ = interrupt(make(), 5)
    assert state["datasets"] == [{"loaded": n} for n in loaded]
    assert state["next_worker"] == 5 % 2
    first_of_each = [batch[1][0] for batch in resume(make(), state)[:2]]
    assert sorted(first_of_each) == sorted(n + 1 for n in loaded)


def test_a_worker_that_has_given_nothing_begins_as_the_loaders_own_dataset():
    _, state, _ = interrupt(DataLoader(Counting(SIZE), 2, **WAYS["processes"]), 1)
    assert state["datasets"] == [{"loaded": 0}] * 2
    assert resume(DataLoader(Counting(SIZE), 2), state)[0][1] == [1, 2]


class OtherMeaning(IterableDataset):
    """Stream whose state methods want other arguments,
    as those of MosaicML streaming and litdata.
    """

    def state_dict(self, samples, from_beginning):
        raise AssertionError

    def load_state_dict(self, state):
        raise AssertionError

    def __iter__(self):
        return iter(range(4))


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_a_state_dict_that_wants_arguments_is_not_called(way):
    loader = DataLoader(OtherMeaning(), batch_size=2, **WAYS[way])
    torchs = torch.utils.data.DataLoader(
        OtherMeaning(), batch_size=2, num_workers=loader.num_workers
    )
    assert contents(loader) == contents(torchs)
    assert loader.state_dict()["dataset"] is None


class Stub:
    """Base of objects that have the state methods, and no state."""

    def __init__(self, returns):
        self.returns = returns

    def __iter__(self):
        return iter(range(SIZE))

    def state_dict(self):
        if not self.returns:
            raise NotImplementedError("some day")
        return {"lines": (line for line in "")}

    def load_state_dict(self, state):
        raise AssertionError


class StubSampler(Stub, Sampler):
    pass


class StubStream(Stub, IterableDataset):
    pass


class StubDataset(Stub, Rows):
    __iter__ = None
    size, make = SIZE, None


@pytest.mark.parametrize(
    ("returns", "why", "cause", "arguments"),
    [
        (False, "NotImplementedError: some day", NotImplementedError, {}),
        (
            True,
            "TypeError: cannot pickle",
            TypeError,
            {"snapshot_every_n_steps": 1, "persistent_workers": True},
        ),
    ],
)
@pytest.mark.parametrize("stub", [StubSampler, StubStream, StubDataset])
@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
@pytest.mark.slow
def test_a_state_that_cannot_be_taken_is_an_error_only_if_asked_for(
    way, stub, returns, why, cause, arguments
):
    data = (
        {"dataset": stub(returns)}
        if stub is not StubSampler
        else {"dataset": range(SIZE), "sampler": stub(returns)}
    )
    if way == "serial":
        arguments = {
            name: value for name, value in arguments.items() if name != "persistent_workers"
        }
    loader = DataLoader(**data, batch_size=2, **arguments, **WAYS[way])
    torchs = contents(
        torch.utils.data.DataLoader(**data, batch_size=2, num_workers=loader.num_workers)
    )
    error = f"the state of {stub.__name__} could not be taken: {why}"
    for _ in range(2):
        iterator = iter(loader)
        first = contents(itertools.islice(iterator, 3))
        with pytest.raises(RuntimeError, match=error) as caught:
            loader.state_dict()
        if way == "processes" and stub is not StubSampler:  # that of a worker, as text
            cause = type(None)
        assert type(caught.value.__cause__) is cause
        assert first + contents(iterator) == torchs
    with pytest.raises(RuntimeError, match=error):
        loader.state_dict()


class Unsent(StubStream):
    """Stream whose state can be copied, but not pickled."""

    def state_dict(self):
        return {"end": lambda: None}


def one_by_one(samples):
    return (sample for sample in samples)


class UnsentMap(StubDataset):
    state_dict = Unsent.state_dict


@pytest.mark.parametrize("dataset", [Unsent(False), UnsentMap(False)])
@pytest.mark.slow
def test_a_state_that_cannot_be_sent_costs_no_batch(dataset):
    loader = DataLoader(dataset, 2, persistent_workers=True, **WAYS["processes"])
    torchs = contents(torch.utils.data.DataLoader(dataset, 2, num_workers=loader.num_workers))
    for _ in range(2):
        iterator = iter(loader)
        first = contents(itertools.islice(iterator, 3))
        with pytest.raises(
            RuntimeError, match="the state of dataset could not be taken: it cannot be sent"
        ):
            loader.state_dict()
        assert first + contents(iterator) == torchs


@pytest.mark.parametrize("dataset", [Unsent(False), UnsentMap(False), range(SIZE)])
@pytest.mark.slow
def test_a_batch_that_cannot_be_sent_is_an_error_with_and_without_such_a_state(dataset):
    # The only batch of each worker: what comes after it is the end of the worker's share.
    loader = DataLoader(dataset, SIZE, collate_fn=one_by_one, **WAYS["processes"])
    for _ in range(5):
        with pytest.raises(TypeError, match="cannot pickle 'generator'"):
            list(loader)


class Late(Asked):
    """Sampler that has a state once it has begun."""

    def state_dict(self):
        if self.i == 0:
            raise AttributeError("not begun")
        return super().state_dict()


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
@pytest.mark.slow(cases=1)
def test_a_state_that_can_be_taken_later_is_enough(way):
    def make():
        return DataLoader(range(SIZE), 2, sampler=Late(), snapshot_every_n_steps=2, **WAYS[way])

    loader = make()
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(
        RuntimeError, match="the state of Late could not be taken: AttributeError: not begun"
    ):
        loader.state_dict()
    next(iterator)
    state = loader.state_dict()
    assert resume(make(), state) == contents(iterator)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it_in_a_state_dict_too(error):
    class Ending(Asked):
        def state_dict(self):
            raise error

    with pytest.raises(error):
        iter(DataLoader(range(SIZE), 2, sampler=Ending()))


class Chained(Asked):
    def state_dict(self):
        try:
            return self.nothing
        except AttributeError:
            raise NotImplementedError from None


def test_what_could_not_be_taken_keeps_no_iterator_alive():
    loader = DataLoader(range(SIZE), 2, sampler=Chained(), **WAYS["threads"])
    iterator = weakref.ref(iter(loader))
    assert iterator() is None


def test_workers_that_start_again_need_no_state_that_could_not_be_taken():
    loader = DataLoader(StubStream(False), batch_size=2, persistent_workers=True, **WAYS["threads"])
    torchs = contents(loader)
    loader._iterator.close()
    assert contents(loader) == torchs
