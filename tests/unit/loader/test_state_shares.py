"""Datasets with a state that live on from epoch to epoch, where epochs are left and loaders changed."""

import itertools

import pytest

from ftloader import DataLoader
from ftloader.state.shares import begun, following, share_out
from tests.unit.loader.resuming import contents, resume
from tests.unit.loader.stateful_datasets import CountsAtBegin, Documented, ItsOwnIterator, OnlyIterator, Stream

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def persistent(dataset, workers=2, **arguments):
    arguments = {"persistent_workers": True, "worker_method": "thread"} | arguments
    return DataLoader(dataset, 2, num_workers=workers, **arguments)


def serial(dataset):
    return DataLoader(dataset, 2)


def leave(loader, batches):
    for _ in itertools.islice(loader, batches):
        pass


@pytest.mark.parametrize(
    ("make", "dataset"),
    # Other datasets depend on how far worker threads had loaded ahead when the epoch was left.
    [(persistent, CountsAtBegin), (serial, CountsAtBegin), (serial, Documented), (serial, ItsOwnIterator)],
)
def test_after_an_epoch_that_was_left(make, dataset):
    loader = make(dataset())
    leave(loader, 3)
    iterator = iter(loader)
    state = loader.state_dict()
    first = contents(itertools.islice(iterator, 1))
    later = loader.state_dict()
    rest = contents(iterator)
    assert resume(make(dataset()), state) == first + rest
    assert resume(make(dataset()), later) == rest


def test_a_resumed_epoch_that_is_left_at_once():
    loader = persistent(CountsAtBegin())
    contents(loader)
    leave(loader, 3)
    state = loader.state_dict()
    expected = contents(loader)
    for _ in range(20):  # whether the workers had begun
        other = persistent(CountsAtBegin())
        other.load_state_dict(state)
        iter(other)
        assert contents(other) == expected


def test_another_number_of_persistent_workers():
    loader = persistent(Stream())
    contents(loader)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="for each of 2 workers, and this loader has 1: .*persistent_workers=False"):
        persistent(Stream(), 1).load_state_dict(state)
    with pytest.raises(ValueError, match="this loader has 0"):
        serial(Stream()).load_state_dict(state)
    # Without persistent workers every epoch begins with the loader's own dataset.
    other = persistent(Stream(), 1, persistent_workers=False)
    assert resume(other, state) == contents(other) != []


def test_one_stream_goes_on_without_workers():
    loader = persistent(Stream(), 1)
    contents(loader)
    state = loader.state_dict()
    other = serial(Stream())
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


SNAPSHOT = {"states": {"dataset": {"i": 6}}, "position": 6}


def test_what_follows_a_share():
    def after(share, ended=True, stateful=True, ahead=False):
        return following(share, ended=ended, stateful=stateful, ahead=ahead)

    given = begun() | {"batches": 5, "snapshot": SNAPSHOT, "snapshot_at": 3}
    assert after(given) == begun({"snapshot": SNAPSHOT, "passes": [None]})
    assert after(given, ended=False) == begun({"snapshot": SNAPSHOT, "passes": [2]})
    # Nothing had to be kept, or could be, of an epoch with a part of a batch.
    first = after(begun() | {"batches": 1})
    assert first == begun({"snapshot": None, "passes": [None]})
    assert after(first | {"batches": 1}) == begun({"snapshot": None, "passes": [None, None]})
    assert after(begun() | {"batches": 1}, stateful=False) == begun()
    # Nothing was asked of it.
    assert after(first, ended=False) == first
    assert after(first, ended=False, ahead=True) == begun({"snapshot": None, "passes": [None, 0]})


def test_sharing_out():
    one, other = begun(), begun({"snapshot": SNAPSHOT, "passes": [None]})
    assert share_out([one, other], 2, stateful=True) == [one, other]
    assert share_out([other, other], 3, stateful=True) == [other] * 3
    assert share_out([one, other], 1, stateful=False) == [begun()]
    with pytest.raises(ValueError, match="for each of 2 workers"):
        share_out([one, other], 1, stateful=True)
