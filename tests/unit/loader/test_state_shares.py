"""Datasets with a state that live on from epoch to epoch, where epochs are left and loaders changed."""

import itertools

import pytest

from ftloader import DataLoader
from tests.unit.loader.resuming import contents, resume
from tests.unit.loader.stateful_datasets import CountsAtBegin, Documented, OnlyIterator, Stream

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


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
    """Where the dataset is then depends on how far it was asked, which nobody knows until it says so."""
    loader = make(dataset())
    leave(loader, 3)
    iterator = iter(loader)
    with pytest.raises(ValueError, match="left before its end.*Ask for the state once each worker has given a batch"):
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
        with pytest.raises(ValueError, match="gave no sample after the state was loaded.*CountsAtBegin.state_dict"):
            contents(other)


def test_another_number_of_persistent_workers():
    loader = persistent(Stream())
    contents(loader)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="with 2 worker.*this loader has 1.*persistent_workers=False"):
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
