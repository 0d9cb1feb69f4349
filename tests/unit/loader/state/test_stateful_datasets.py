"""Stateful datasets that live on from epoch to epoch,
resumed anywhere, also as torchdata does it.
"""

import copy
import itertools

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from ftloader import DataLoader
from tests.unit.loader.state.resuming import contents, plain, resume
from tests.unit.loader.state.stateful_datasets import (
    KINDS,
    CountsAtBegin,
    Documented,
    ItsOwnIterator,
    OnlyIterator,
    Stream,
    WithIterator,
)

LIFE = {
    "serial": {"num_workers": 0},
    "new workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
}
ENDED = None
"""A place to stop: the end of the epoch. Others are numbers of batches."""


def ours(method, life):
    return lambda dataset, **arguments: DataLoader(
        dataset, 2, worker_method=method, **LIFE[life], **arguments
    )


def torchdatas(life):
    return lambda dataset: StatefulDataLoader(dataset, 2, **LIFE[life])


def history(loader, epochs=4):
    """Return the batches of each epoch, and its states: after 0, 1, ... batches, and at its end."""
    batches, states = [], []
    for _ in range(epochs):
        iterator = iter(loader)
        batches.append([])
        states.append([copy.deepcopy(loader.state_dict())])
        for batch in iterator:
            batches[-1].append(plain(batch))
            states[-1].append(copy.deepcopy(loader.state_dict()))
        states[-1].append(copy.deepcopy(loader.state_dict()))
    return batches, states


def to_come(batches, epoch, stop):
    """Return the rest of this epoch and the next epoch,
    as a loader resumed there must give them.
    """
    if stop is ENDED:
        return batches[epoch + 1 : epoch + 3]
    return [batches[epoch][stop:], batches[epoch + 1]]


def resumed(loader, state):
    loader.load_state_dict(state)
    return [contents(loader), contents(loader)]


def check(make, dataset, recorded, stops):
    batches, states = recorded
    for epoch, stop in stops:
        state = states[epoch][-1 if stop is ENDED else stop]
        assert resumed(make(dataset()), state) == to_come(batches, epoch, stop), (epoch, stop)


def refused(dataset, life, epoch, stop):
    """True if the state may be one from the end of a pass,
    of a dataset whose state says no more than that.
    """
    early = 2 if life == "persistent workers" else 1  # until each worker has given a batch
    return (
        dataset is CountsAtBegin
        and life != "new workers"
        and (stop is ENDED or (epoch > 0 and stop < early))
    )


@pytest.mark.parametrize(
    ("life", "every"),
    [("serial", 1), ("serial", 1000), ("new workers", 1)]
    + [("persistent workers", every) for every in (1, 3, 1000)],
)
@pytest.mark.parametrize("dataset", KINDS)
@pytest.mark.slow(cases=2)
def test_resumed_anywhere(dataset, life, every):
    def make(dataset):
        return ours("thread", life)(dataset, snapshot_every_n_steps=every)

    recorded = history(make(dataset()))
    assert [len(epoch) for epoch in recorded[0]] == [7] * 4
    stops = [(0, 0), (0, ENDED), *((1, stop) for stop in (*range(8), ENDED))]
    check(make, dataset, recorded, [at for at in stops if not refused(dataset, life, *at)])


@pytest.mark.parametrize("dataset", KINDS)
@pytest.mark.slow
def test_persistent_processes(dataset):
    threads, processes = ours("thread", "persistent workers"), ours("process", "persistent workers")
    recorded = history(processes(dataset()))
    stops = [(0, ENDED), (1, 0), (1, 1), (1, 6), (1, 7), (1, ENDED)]
    stops = [at for at in stops if not refused(dataset, "persistent workers", *at)]
    check(threads, dataset, recorded, stops)
    check(processes, dataset, recorded, stops[-1:])


# Elsewhere torchdata 0.11 gives samples twice or not at all: where one worker's share has ended and
# others' has not, and where what the dataset says at the end of a pass is not where the next one
# begins.
@pytest.mark.parametrize(
    ("dataset", "life", "stops"),
    [
        (Documented, "serial", [(0, 1), (0, ENDED), (1, 0), (1, 3), (1, 7)]),
        (ItsOwnIterator, "serial", [(0, ENDED), (1, 0), (1, 3)]),
        (WithIterator, "serial", [(0, ENDED), (1, 3), (1, 7)]),
        (Documented, "new workers", [(0, ENDED), (1, 1)]),
        (Documented, "persistent workers", [(1, 1), (1, 3)]),
        (WithIterator, "persistent workers", [(0, ENDED), (1, 1)]),
    ],
)
@pytest.mark.slow
def test_as_torchdata(dataset, life, stops):
    theirs = history(torchdatas(life)(dataset()), epochs=3)
    mine = history(ours("thread", life)(dataset()), epochs=3)
    assert mine[0] == theirs[0]
    check(torchdatas(life), dataset, theirs, stops)
    check(ours("thread", life), dataset, mine, stops)


# Epochs that were left, and loaders that were changed


def persistent(dataset, workers=2, **arguments):
    arguments = {"persistent_workers": True, "worker_method": "thread"} | arguments
    return DataLoader(dataset, 2, num_workers=workers, **arguments)


def serial(dataset):
    return DataLoader(dataset, 2)


def leave(loader, batches):
    for _ in itertools.islice(loader, batches):
        pass


@pytest.mark.parametrize("make", [persistent, serial])
@pytest.mark.parametrize("dataset", [Documented, CountsAtBegin])
def test_after_an_epoch_that_was_left(make, dataset):
    """How far the dataset was read is unknown until each worker has given a batch."""
    loader = make(dataset())
    leave(loader, 3)
    iterator = iter(loader)
    with pytest.raises(
        ValueError,
        match="left before its end.*Ask for the state once each worker has given a batch",
    ):
        make(dataset()).load_state_dict(loader.state_dict())
    for _ in range(2):
        next(iterator)
    state = loader.state_dict()
    assert resume(make(dataset()), state) == contents(iterator) != []


@pytest.mark.parametrize("make", [persistent, serial])
def test_a_state_from_the_end_of_a_pass_that_says_no_more_than_that(make):
    loader = make(CountsAtBegin())
    contents(loader)
    at_end = loader.state_dict()
    iter(loader)
    for state in (at_end, loader.state_dict()):
        other = make(CountsAtBegin())
        other.load_state_dict(state)
        with pytest.raises(
            ValueError, match="gave no sample after the state was loaded.*CountsAtBegin.state_dict"
        ):
            contents(other)


def test_another_number_of_persistent_workers():
    loader = persistent(Stream())
    contents(loader)
    state = loader.state_dict()
    with pytest.raises(
        ValueError, match="with 2 worker.*this loader has 1.*persistent_workers=False"
    ):
        persistent(Stream(), 1).load_state_dict(state)
    with pytest.raises(ValueError, match="this loader has 0"):
        serial(Stream()).load_state_dict(state)
    # Without persistent workers every epoch begins with the loader's own dataset.
    other = persistent(Stream(), 1, persistent_workers=False)
    assert resume(other, state) == contents(other) != []


def test_one_stream_goes_on_without_workers():
    loader = persistent(Documented(), 1)
    contents(loader)
    state = loader.state_dict()
    other = serial(Documented())
    other.load_state_dict(state)
    assert contents(other)[0] == contents(loader)[0] == [1000, 1001]


def test_a_dataset_without_a_state_may_have_any_number_of_persistent_workers():
    loader = persistent(OnlyIterator())
    contents(loader)
    state = loader.state_dict()
    assert len(resume(persistent(OnlyIterator(), 1), state)) == 5
    assert len(resume(serial(OnlyIterator()), state)) == 7


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_the_loaders_own_dataset(persistent_workers):
    def make(epoch):
        dataset = Documented()
        dataset.epoch = epoch
        return persistent(dataset, persistent_workers=persistent_workers)

    loader = make(3)
    iterator = iter(loader)
    at_begin = loader.state_dict()
    first = contents(itertools.islice(iterator, 1))
    later = loader.state_dict()  # one of the workers has given nothing yet
    rest = contents(iterator)
    at_end = loader.state_dict()
    following = contents(loader)
    assert first == [[3000, 3001]]
    for state, expected in ((at_begin, first + rest), (later, rest)):
        other = make(0)
        assert resume(other, state) == expected
        assert contents(other) == following

    other = make(0)
    other.load_state_dict(at_end)
    assert other.dataset.epoch == 3
    assert contents(other) == following


def test_between_epochs_the_program_may_set_another_one():
    loader = persistent(Documented(), persistent_workers=False)
    contents(loader)
    state = loader.state_dict()
    other = persistent(Documented(), persistent_workers=False)
    other.load_state_dict(state)
    other.dataset.epoch = 4
    assert contents(other)[0] == [4000, 4001]
