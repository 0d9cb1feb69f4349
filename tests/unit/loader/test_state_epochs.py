"""States from before, after and between epochs, and of persistent workers."""

import pytest
import torch

from tests.unit.loader.resuming import EACH_WAY, FEW_PAIRS, contents, interrupt, param, plain, resume, seeded, shuffling

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_before_any_iteration(saving, loading):
    loader = shuffling(saving, generator=seeded(1))
    state = loader.state_dict()
    epoch = contents(loader)
    assert resume(shuffling(loading, generator=seeded(2)), state) == epoch


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_at_the_end_of_an_epoch_the_next_one_follows(saving, loading):
    loader = shuffling(saving, generator=seeded(1))
    first = contents(loader)
    state = loader.state_dict()
    second = contents(loader)
    assert second != first
    assert resume(shuffling(loading, generator=seeded(2)), state) == second


@pytest.mark.thread_unsafe(reason="the process's random generators")
@pytest.mark.parametrize("epochs", [0, 1])
def test_between_epochs_the_order_comes_from_the_programs_generator_as_it_is(epochs):
    torch.manual_seed(7)
    loader = shuffling("threads", generator=None)
    for _ in range(epochs):
        contents(loader)
    state = loader.state_dict()
    torch.manual_seed(8)
    expected = contents(loader)
    torch.manual_seed(8)
    assert resume(shuffling("serial", generator=None), state) == expected


@pytest.mark.thread_unsafe(reason="the process's random generators")
def test_a_restored_global_generator_is_used_as_without_the_interruption():
    torch.manual_seed(7)
    loader = shuffling("serial", generator=None)
    contents(loader)
    state, rng = loader.state_dict(), torch.get_rng_state()
    expected = [contents(loader), torch.rand(1).item(), contents(loader)]

    loader = shuffling("threads", generator=None)
    torch.set_rng_state(rng)
    assert [resume(loader, state), torch.rand(1).item(), contents(loader)] == expected


@pytest.mark.parametrize("way", EACH_WAY)
def test_when_all_was_handed_over_the_epoch_ends_and_then_a_whole_one_follows(way):
    loader = shuffling(way)
    _, state, rest = interrupt(loader, 6)
    following = contents(loader)
    assert rest == []
    loader = shuffling(way)
    loader.load_state_dict(state)
    assert contents(loader) == []
    assert contents(loader) == following


@pytest.mark.parametrize(("saving", "loading"), [param("threads", "processes"), param("processes", "threads")])
def test_persistent_workers_in_a_later_epoch(saving, loading):
    loader = shuffling(saving, persistent_workers=True)
    contents(loader)
    _, state, rest = interrupt(loader, 2)
    following = contents(loader)
    assert state["epoch"] == 1

    other = shuffling(loading, persistent_workers=True)
    contents(other)
    assert resume(other, state) == rest
    assert contents(other) == following
    assert other.state_dict()["epoch"] == loader.state_dict()["epoch"] == 3


@pytest.mark.parametrize(("saving", "loading"), [param("threads", "processes"), param("processes", "threads")])
def test_persistent_workers_at_the_end_of_an_epoch(saving, loading):
    loader = shuffling(saving, persistent_workers=True)
    contents(loader)
    state = loader.state_dict()
    following = contents(loader)
    assert resume(shuffling(loading, persistent_workers=True), state) == following


@pytest.mark.parametrize("way", EACH_WAY)
def test_a_resumed_epoch_can_be_interrupted_again(way):
    expected = contents(shuffling(way))
    state = None
    batches = []
    for _ in expected:
        loader = shuffling(way, generator=seeded(len(batches)) if batches else seeded())
        if state is not None:
            loader.load_state_dict(state)
        iterator = iter(loader)
        batches.append(plain(next(iterator)))
        del iterator
        state = loader.state_dict()
    assert batches == expected
    assert resume(shuffling(way), state) == []
