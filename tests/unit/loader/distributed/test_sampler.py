"""DistributedSampler alone: torch's order, and each sample once however often the number
of ranks changes.
"""

import itertools
import json

import pytest
import torch
import torchdata.stateful_dataloader.sampler as torchdatas
from hypothesis import given
from hypothesis import strategies as st

from ftloader.distributed import DistributedSampler
from tests.datasets import Rows

LENGTHS = st.integers(0, 60)
RANKS = st.integers(1, 9)
OPTIONS = st.fixed_dictionaries(
    {"shuffle": st.booleans(), "seed": st.integers(0, 5), "drop_last": st.booleans()}
)


def samplers(length, ranks, epoch=0, sampler=DistributedSampler, **options):
    """Return the samplers of all ranks, at an epoch."""
    found = [
        sampler(range(length), num_replicas=ranks, rank=rank, **options) for rank in range(ranks)
    ]
    for each in found:
        each.set_epoch(epoch)
    return found


def whole_epoch(length, epoch, options):
    """Return the epoch's sequence of indices: that of torch's class with one rank."""
    (alone,) = samplers(length, 1, epoch, torch.utils.data.DistributedSampler, **options)
    return list(alone)


@given(length=LENGTHS, ranks=RANKS, epoch=st.integers(0, 3), options=OPTIONS)
def test_the_order_of_torchs_class(length, ranks, epoch, options):
    ours = samplers(length, ranks, epoch, **options)
    torchs = samplers(length, ranks, epoch, torch.utils.data.DistributedSampler, **options)
    assert [list(each) for each in ours] == [list(each) for each in torchs]
    assert [len(each) for each in ours] == [len(each) for each in torchs]
    assert [list(each) for each in ours] == [list(each) for each in torchs]  # in each pass


@given(
    length=LENGTHS,
    changes=st.lists(st.tuples(RANKS, st.integers(0, 12), st.integers(0, 8)), max_size=5),
    last=RANKS,
    options=OPTIONS,
)
def test_each_sample_once_whatever_the_ranks(length, changes, last, options):
    """*changes*: the number of ranks, the number of samples that each yields, and the rank whose
    state is used.
    """
    sequence, state = [], {}
    for ranks, count, saver in changes:
        found = samplers(length, ranks, 3, **options)
        for each in found:
            each.load_state_dict(state)
        shares = [list(itertools.islice(iter(each), count)) for each in found]
        assert len({len(share) for share in shares}) == 1
        for together in zip(*shares):
            sequence += together
        states = [each.state_dict() for each in found]
        assert all(each == states[0] for each in states)
        state = json.loads(json.dumps(states[saver % ranks]))
    found = samplers(length, last, 3, **options)
    for each in found:
        each.load_state_dict(state)
    left = length - (state["given"] if state else 0)
    rest = list(zip(*found, strict=True))
    assert len(rest) == (left // last if options["drop_last"] else -(-left // last))
    # earlier ranks have reached the end, and have padded or dropped
    ended = len(sequence) != length - left
    sequence += itertools.chain(*rest)
    whole = whole_epoch(length, 3, options)
    if ended:
        assert not left and sequence == (whole * 9)[: len(sequence)] and len(sequence) > length - 9
    elif options["drop_last"]:
        assert sequence == whole[: len(sequence)] and length - len(sequence) < last
    else:
        assert sequence == (whole * 9)[: len(sequence)] and 0 <= len(sequence) - length < last


@given(length=LENGTHS, ranks=RANKS, count=st.integers(0, 70), options=OPTIONS)
def test_the_same_ranks_go_on_as_if_undisturbed(length, ranks, count, options):
    undisturbed = [list(each) for each in samplers(length, ranks, 2, **options)]
    found = samplers(length, ranks, 2, **options)
    first = [list(itertools.islice(iter(each), count)) for each in found]
    resumed = samplers(length, ranks, **options)
    for each in resumed:
        each.load_state_dict(found[0].state_dict())
    assert (
        [each.epoch for each in resumed] == [2] * ranks or not count or count >= len(undisturbed[0])
    )
    for each in resumed:
        each.set_epoch(2)
    assert [begun + list(each) for begun, each in zip(first, resumed)] == undisturbed
    assert [list(each) for each in resumed] == undisturbed  # the next pass is a whole one


@pytest.fixture
def interrupted():
    """Return the state of two ranks after 3 of 10 samples each, in epoch 4."""
    (sampler, _) = samplers(20, 2, 4)
    list(itertools.islice(iter(sampler), 3))
    return sampler.state_dict()


def test_a_state_is_small_and_plain(interrupted, tmp_path):
    assert interrupted == {
        "format": "ftloader.DistributedSampler",
        "version": 1,
        "epoch": 4,
        "given": 6,
        "length": 20,
        "seed": 0,
        "shuffle": True,
        "num_replicas": 2,
    }
    torch.save(interrupted, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == interrupted


def test_the_epoch_is_the_states(interrupted):
    (sampler,) = samplers(20, 1, 1)
    sampler.load_state_dict(interrupted)
    assert sampler.epoch == 4
    rest = list(sampler)
    assert rest == whole_epoch(20, 4, {})[6:]
    assert list(sampler) == whole_epoch(20, 4, {})  # as long as no other epoch is set
    sampler.set_epoch(5)
    assert sampler.state_dict()["given"] == 0 and list(sampler) == whole_epoch(20, 5, {})


def test_what_ranks_drop_at_the_end_is_no_rest_for_others(recwarn):
    four = samplers(10, 4, drop_last=True)
    assert [len(list(each)) for each in four] == [2] * 4
    (two, _) = samplers(10, 2, drop_last=True)
    two.load_state_dict(four[0].state_dict())
    two.set_epoch(1)
    assert len(list(two)) == 5 and not recwarn.list


def test_another_epoch_is_a_whole_one_and_a_warning_says_so(interrupted):
    (sampler,) = samplers(20, 1)
    sampler.load_state_dict(interrupted)
    sampler.set_epoch(1)
    with pytest.warns(
        UserWarning, match=r"the rest of epoch 4.* is left out: .* Call set_epoch\(4\)"
    ) as caught:
        assert list(sampler) == whole_epoch(20, 1, {})
    assert caught[0].filename == __file__
    sampler.set_epoch(4)
    assert list(sampler) == whole_epoch(20, 4, {})


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_state_of_an_epochs_end(epoch):
    """It ends its own epoch at once, and leaves another one
    that the program has set before or sets after.
    """
    (saved,) = samplers(20, 1, 4)
    list(saved)
    for order in ("set first", "load first"):
        sampler = DistributedSampler(range(20), 2, 1)
        if order == "set first":
            sampler.set_epoch(epoch)
        sampler.load_state_dict(saved.state_dict())
        assert sampler.epoch == (epoch if order == "set first" else 4)
        sampler.set_epoch(epoch)
        assert len(list(sampler)) == (0 if epoch == 4 else 10)
        assert len(list(sampler)) == 10


def test_a_state_that_was_loaded_is_the_state(interrupted):
    sampler = DistributedSampler(range(20), 3, 0)
    sampler.load_state_dict(interrupted)
    sampler.set_epoch(7)
    assert sampler.state_dict() == {**interrupted, "epoch": 7, "given": 0, "num_replicas": 3}
    sampler.set_epoch(4)
    assert sampler.state_dict() == sampler.next_pass_state() == {**interrupted, "num_replicas": 3}
    iter(sampler)  # as torch does, which draws from the second iterator
    assert next(iter(sampler)) == whole_epoch(20, 4, {})[6]
    assert sampler.state_dict()["given"] == 9
    assert sampler.next_pass_state()["given"] == 0
    sampler.load_state_dict(interrupted)
    sampler.load_state_dict({})
    assert sampler.state_dict()["given"] == 0 and len(list(sampler)) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"length": 21},
            r"of a sampler with a dataset of 21 samples, and this one has a dataset of 20 "
            r"samples.*begin",
        ),
        ({"seed": 1}, r"with seed=1, and this one has seed=0"),
        ({"shuffle": False}, r"with shuffle=False, and this one has shuffle=True"),
        (
            {"given": 21},
            r"damaged or was changed: epoch 4, 21 of 20 samples given. Load an earlier checkpoint",
        ),
        ({"given": -2}, r"-2 of 20"),
        ({"given": 6.0}, r"6\.0 of 20"),
        ({"given": True}, r"True of 20"),
        ({"epoch": None}, r"epoch None"),
        (
            {"version": 2},
            r"has version 2, and this sampler reads version 1: load it with the release",
        ),
        (
            {"format": "ftloader.DataLoader"},
            r"this is not a state of ftloader\.distributed\.DistributedSampler",
        ),
        ({"more": 1}, r"its keys are \['epoch', .*'more'"),
    ],
)
def test_impossible_states_are_refused(interrupted, change, message):
    sampler = DistributedSampler(range(20), 3, 0)
    sampler.load_state_dict(interrupted)
    with pytest.raises(ValueError, match=message):
        sampler.load_state_dict(interrupted | change)
    assert sampler.state_dict() == interrupted | {"num_replicas": 3}  # nothing has changed


@pytest.mark.parametrize("state", [None, [], 3, {"epoch": 1}])
def test_what_is_no_state(state):
    with pytest.raises(ValueError, match=r"must be a dictionary|not a state of ftloader"):
        DistributedSampler(range(20), 3, 0).load_state_dict(state)


def test_torchdatas_state_and_ours():
    theirs = torchdatas.StatefulDistributedSampler(range(20), 2, 0)
    next(iter(theirs))
    ours = DistributedSampler(range(20), 2, 0)
    with pytest.raises(
        ValueError, match="torchdata's StatefulDistributedSampler, which counts the samples of one"
    ):
        ours.load_state_dict(theirs.state_dict())
    with pytest.raises(ValueError):
        theirs.load_state_dict(ours.state_dict())


def test_a_dataset_that_grew_is_refused():
    dataset = Rows(20)
    sampler = DistributedSampler(dataset, 2, 0)
    dataset.size = 22
    with pytest.raises(
        ValueError, match="had 20 samples when the sampler was made, and has 22 now: make a new"
    ):
        iter(sampler)


def test_bad_arguments_are_torchs_errors():
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler(range(20), 2, 2)
    with pytest.raises((RuntimeError, ValueError), match="process group has not been initialized"):
        DistributedSampler(range(20))
