"""DistributedSampler in this loader: the number of ranks changes in the middle of an epoch."""

import itertools
import json
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftloader import DataLoader
from ftloader.distributed import DistributedSampler
from ftloader.state.progress import EpochProgress
from tests.datasets import Batches, Gated, Rows, seeded
from tests.unit.loader.state.resuming import NOISY, WAYS, contents, plain

SIZE = len(NOISY)
EPOCH = 3


def loaders(ranks, make=DataLoader, dataset=NOISY, epoch=EPOCH, **arguments):
    """Return the loaders of all ranks."""
    found = []
    for rank in range(ranks):
        sampler = DistributedSampler(dataset, ranks, rank)
        found.append(make(dataset, sampler=sampler, generator=seeded(), **arguments))
        sampler.set_epoch(epoch)
    return found


def pairs(batches):
    """Return the (index, random number) of each sample of *batches*."""
    return [tuple(pair) for batch in contents(batches) for pair in zip(*batch)]


def stages(plan, read=pairs, **options):
    """Run the stages (ranks, steps, arguments) of *plan*, up to the epoch's end.

    Returns each stage's samples, and the state at the end.
    """
    given, state = [], {}
    for ranks, steps, arguments in plan:
        samples, states = [], []
        for loader in loaders(ranks, **options, **arguments):
            loader.load_state_dict(state)
            iterator = iter(loader)
            samples += read(itertools.islice(iterator, steps))
            states.append(json.loads(json.dumps(loader.state_dict())))
        assert all(position(each) == position(states[0]) for each in states)
        given.append(samples)
        state = states[-1]  # any is enough
        if state["phase"] == "end":
            break
    return given, state


def position(state):
    """Return the sampler's state in a loader's."""
    (found,) = state["sampler"]["states"].values()
    return found


def undisturbed():
    return sorted(pairs(loaders(1, batch_size=5)[0]))


def check_once(given, last):
    """Check that each sample was given once, with its own random numbers;
    fewer than *last* were given twice.
    """
    samples = list(itertools.chain(*given))
    once = undisturbed()
    assert sorted(set(samples)) == once
    assert 0 <= len(samples) - len(once) < last


IN_THREADS = st.sampled_from(["serial", "thread", "threads"])
STAGE = st.tuples(
    st.integers(1, 4),
    st.integers(0, 4),
    st.builds(lambda way, size: WAYS[way] | {"batch_size": size}, IN_THREADS, st.integers(1, 5)),
)


@given(plan=st.lists(STAGE, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.slow
def test_each_sample_once_with_its_own_random_numbers(plan):
    ranks, _, arguments = plan[-1]
    given, _ = stages([*plan[:-1], (ranks, None, arguments)])
    # A stage that came to the end of the epoch has padded for its number of ranks.
    check_once(given, max(each[0] for each in plan))


@pytest.mark.parametrize("prefetch", [1, 4])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_with_processes_too(seed, prefetch):
    draw = random.Random(seed)
    plan = []
    for ranks, steps in (4, 1), (2, 2), (3, 1), (1, None):
        way = draw.choice(["processes", "threads", "process"])
        plan.append(
            (
                ranks,
                steps,
                WAYS[way] | {"batch_size": draw.randint(1, 3), "prefetch_factor": prefetch},
            )
        )
    given, _ = stages(plan)
    check_once(given, 1)


def test_without_batches():
    plan = [
        (2, 4, {"batch_size": None}),
        (3, 1, {"batch_size": 2}),
        (1, 2, {"batch_size": None, **WAYS["threads"]}),
    ]
    given, _ = stages(
        [*plan, (1, None, WAYS["thread"])],
        lambda batches: flat(contents(batches)),
        dataset=Rows(SIZE),
    )
    assert [len(each) for each in given] == [8, 6, 2, 7]
    assert sorted(itertools.chain(*given)) == list(range(SIZE))


def flat(batches):
    return [
        sample for batch in batches for sample in (batch if isinstance(batch, list) else [batch])
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch_size", [5, 4, None])  # 23 samples: the last batch is short, or not
@pytest.mark.slow
def test_the_end_of_an_epoch(way, batch_size):
    def make(epoch):
        sampler = DistributedSampler(range(SIZE), 2, 1, shuffle=False)
        sampler.set_epoch(epoch)
        return DataLoader(range(SIZE), batch_size, sampler=sampler, **WAYS[way])

    loader = make(4)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    last = loader.state_dict()
    assert next(iterator, None) is None
    after = loader.state_dict()
    again = make(4)
    again.load_state_dict(last)
    assert contents(again) == []  # nothing is left, however the sampler's end was found
    whole = contents(again)
    assert len(whole) == len(loader)
    for epoch in 4, 5:  # the program may have set the next epoch or, without shuffling, none
        again = make(epoch)
        again.load_state_dict(after)
        assert again.sampler.epoch == epoch
        assert contents(again) == whole
    following = iter(loader)
    assert position(loader.state_dict())["given"] == 0
    assert plain(next(following)) == whole[0]


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
@pytest.mark.slow(cases=1)
def test_later_epochs_are_those_of_an_undisturbed_run(way):
    def train(loader, epochs):
        samples = []
        for epoch in epochs:
            loader.sampler.set_epoch(epoch)
            samples.append(sorted(pairs(loader)))
        return samples

    (whole,) = loaders(1, batch_size=4)
    expected = train(whole, range(3, 6))
    given, state = stages([(1, 2, {"batch_size": 3, **WAYS[way]})])
    (resumed,) = loaders(1, batch_size=4, **WAYS[way])
    resumed.load_state_dict(state)
    found = train(resumed, range(3, 6))
    found[0] = sorted(found[0] + given[0])
    assert found == expected


def test_a_loaded_state_can_be_saved_again():
    _, state = stages([(2, 3, {"batch_size": 2})])
    (loader,) = loaders(1, batch_size=4, epoch=0)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert loader.sampler.epoch == EPOCH and loader.sampler.state_dict()["given"] == 12
    loader.sampler.set_epoch(0)  # as Accelerate's loaders do: the state's epoch is finished first
    iterator = iter(loader)
    assert position(loader.state_dict()) == position(state)
    assert len(pairs(iterator)) == SIZE - 12
    loader.load_state_dict(state)
    loader.load_state_dict({})
    assert len(pairs(loader)) == SIZE


def test_the_loaders_own_drop_last():
    """A rank's samples that filled no batch are not lost to other ranks."""
    given, _ = stages(
        [
            (4, 1, {"batch_size": 4, "drop_last": True}),
            (1, None, {"batch_size": 7, "drop_last": True}),
        ]
    )
    assert [len(each) for each in given] == [16, 7]
    check_once(given, 1)


def test_a_refused_state_changes_nothing():
    _, state = stages([(2, 3, {"batch_size": 2})])
    sampler = DistributedSampler(range(SIZE - 1), 1, 0)
    loader = DataLoader(range(SIZE - 1), 4, sampler=sampler, generator=seeded(5))
    before = loader.generator.get_state().tolist()
    with pytest.raises(
        ValueError, match=f"a dataset of {SIZE} samples, and this one has a dataset of {SIZE - 1}"
    ):
        loader.load_state_dict(state)
    assert loader.generator.get_state().tolist() == before
    assert len(contents(loader)) == 6


def test_a_state_with_torchs_sampler_goes_on_in_the_same_ranks():
    """It has no position over all ranks, but the order is the same."""
    torchs = torch.utils.data.DistributedSampler(range(SIZE), 2, 1)
    torchs.set_epoch(2)
    saving = DataLoader(range(SIZE), 4, sampler=torchs)
    iterator = iter(saving)
    next(iterator)
    state, rest = saving.state_dict(), contents(iterator)
    loader = DataLoader(
        range(SIZE), 4, sampler=DistributedSampler(range(SIZE), 2, 1), **WAYS["threads"]
    )
    loader.load_state_dict(state)
    batches = iter(loader)
    found = contents(itertools.islice(batches, 1))
    other = DataLoader(range(SIZE), 4, sampler=DistributedSampler(range(SIZE), 2, 1))
    other.load_state_dict(loader.state_dict())  # which is ours now
    assert found + contents(other) == found + contents(batches) == rest
    for ranks, size in (3, 4), (2, 3):
        loader = DataLoader(range(SIZE), size, sampler=DistributedSampler(range(SIZE), ranks, 1))
        with pytest.raises(ValueError, match="2 rank.* among 3|another batch_size"):
            loader.load_state_dict(state)
            contents(loader)


def test_torchs_sampler_refuses_our_state():
    _, state = stages([(2, 3, {"batch_size": 2})])
    loader = DataLoader(
        NOISY, 2, sampler=torch.utils.data.DistributedSampler(NOISY, 2, 0), generator=seeded()
    )
    with pytest.raises(ValueError, match="whose sampler inside has state_dict"):
        loader.load_state_dict(state)


class GatedBatches(Gated):
    """Gated rows that one worker loads a batch at a time,
    while another worker loads a later batch.
    """

    __getitems__ = Batches.__getitems__


def test_batches_out_of_order():
    """A later batch was handed over before an earlier one: the position is not one number then."""

    def make(dataset, ranks=2, size=2, **arguments):
        sampler = DistributedSampler(dataset, ranks, 0, shuffle=False)
        return DataLoader(
            dataset, size, sampler=sampler, num_workers=2, worker_method="thread", **arguments
        )

    dataset = GatedBatches(size=20, at=0)
    saving = make(dataset, in_order=False)
    iterator = iter(saving)
    first = next(iterator).tolist()
    state = saving.state_dict()
    dataset.gate.set()
    rest = contents(iterator)
    assert state["ahead"] and sorted([first, *rest]) == [[i, i + 2] for i in range(0, 20, 4)]
    again = make(range(20))
    again.load_state_dict(state)
    assert contents(again) == sorted(rest)
    with pytest.raises(
        ValueError, match=r"in_order=False\), so only the same number of ranks, 2, can continue"
    ):
        make(range(20), ranks=1).load_state_dict(state)
    with pytest.raises(ValueError, match="another batch_size"):
        make(range(20), size=3).load_state_dict(state)


def test_a_state_taken_in_the_middle_of_a_hand_over():
    """Another thread asks between the two steps of the hand-over: the sampler's state is that of
    the batches given.
    """
    progress = EpochProgress({}, {"base_seed": 1, "epoch": 0, "shared_seed": None, "dataset": None})
    snapshots = tuple({"drawn": n, "states": {"sampler": {"given": n}}} for n in range(3))
    progress.snapshots = snapshots
    progress.handed_over(0)
    progress.snapshots = snapshots
    assert progress.state(dict)["sampler"] == snapshots[1]


@pytest.mark.parametrize("way", ["serial", "threads", "processes"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.slow(cases=1)
def test_the_length_is_that_of_steps_done_and_left(way, drop_last):
    """It stays while the epoch runs, however often the ranks change,
    and is that of a whole epoch afterwards.
    """
    done, state = 0, {}
    for ranks, steps, size in (1, 2, 2), (4, 1, 1), (2, 2, 3), (1, None, 2):
        loader = loaders(ranks, batch_size=size, drop_last=drop_last, **WAYS[way])[0]
        whole = len(loader)
        loader.load_state_dict(state)
        expected = len(loader)
        iterator = iter(loader)
        assert len(loader) == expected
        done += len(contents(itertools.islice(iterator, steps)))
        assert len(loader) == (whole if steps is None else expected)  # the epoch has ended, or not
        state = json.loads(json.dumps(loader.state_dict()))
        assert expected >= done
    assert done == expected != whole
    loader.sampler.set_epoch(EPOCH + 1)
    assert len(contents(loader)) == len(loader) == whole


def test_the_length_after_a_rest_that_was_left():
    _, state = stages([(2, 3, {"batch_size": 2})])
    (loader,) = loaders(1, batch_size=2)
    loader.load_state_dict(state)
    assert len(loader) == 3 + 6
    next(iter(loader))
    assert len(loader) == 3 + 6
    next(iter(loader))
    assert len(loader) == 12
    loader.load_state_dict(state)
    loader.load_state_dict({})
    assert len(loader) == 12


class Skipping(torch.utils.data.BatchSampler):
    """Batch sampler with the attribute of Accelerate's."""

    def __init__(self, batch_sampler, skip_batches):
        self.batch_sampler, self.skip_batches = batch_sampler, skip_batches

    def __iter__(self):
        return itertools.islice(iter(self.batch_sampler), self.skip_batches, None)

    def __len__(self):
        return len(self.batch_sampler) - self.skip_batches


def test_batches_are_not_skipped_twice():
    _, state = stages([(1, 3, {"batch_size": 2})])
    (loader,) = loaders(1, batch_size=2)
    skipping = DataLoader(NOISY, batch_sampler=Skipping(loader.batch_sampler, 3))
    assert len(contents(skipping)) == 9
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="would leave out 3 batches that were never trained"):
        iter(skipping)
    assert len(contents(loader)) == 9
    assert len(contents(skipping)) == 9
