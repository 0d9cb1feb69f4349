"""A map-style loader stopped after any batch and resumed, in any way, gives the remaining batches."""

import copy
import itertools
import json
import pickle
import threading

import pytest
import torch
from torch.utils.data import DistributedSampler, TensorDataset
from torchdata.stateful_dataloader.stateful import Stateful

from loader import DataLoader
from loader.random import sample_rng
from tests.unit.loader.resuming import (
    ALL_PAIRS,
    EACH_WAY,
    FEW_PAIRS,
    WAYS,
    contents,
    interrupt,
    param,
    plain,
    resume,
    seeded,
)

SIZE = 23
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Noisy(torch.utils.data.Dataset):
    """Samples with random numbers of their own."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return index, sample_rng().numpy.integers(1 << 30)


def shuffling(way, **arguments):
    """Shuffles with a generator of its own, so all it draws is up to the state."""
    arguments = {"batch_size": 4, "shuffle": True, "generator": seeded()} | arguments
    return DataLoader(Noisy(), **WAYS[way], **arguments)


@pytest.mark.parametrize(("saving", "loading"), ALL_PAIRS)
def test_the_remaining_batches_and_the_next_epoch_are_the_same(saving, loading):
    loader = shuffling(saving)
    first, state, rest = interrupt(loader, 2)
    following = contents(loader)

    other = shuffling(loading, generator=seeded(99))
    assert resume(other, state) == rest
    assert contents(other) == following
    assert sorted(i for indices, _ in first + rest for i in indices) == list(range(SIZE))
    assert sorted(i for indices, _ in following for i in indices) == list(range(SIZE))
    assert following[0] != first[0]


@pytest.mark.parametrize("handed_over", range(7))
@pytest.mark.parametrize(("saving", "loading"), [("serial", "threads"), ("threads", "serial")])
def test_after_any_number_of_batches(saving, loading, handed_over):
    first, state, rest = interrupt(shuffling(saving), handed_over)
    assert len(first) == handed_over
    assert len(rest) == 6 - handed_over
    assert resume(shuffling(loading), state) == rest


@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": False},
        {"drop_last": True},
        {"batch_size": None},
        {"batch_size": None, "shuffle": False},
        {"batch_size": None, "shuffle": False, "generator": None},
        {"persistent_workers": True},
        {"prefetch_factor": 1},
        {"in_order": False},
        {"snapshot_every_n_steps": 3},
        {"snapshot_every_n_steps": None},
    ],
    ids=str,
)
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_with_other_arguments(saving, loading, arguments):
    def make(way):
        fitting = dict(arguments)
        if way == "serial":
            fitting.pop("persistent_workers", None)
            fitting.pop("prefetch_factor", None)
        return shuffling(way, **fitting)

    first, state, rest = interrupt(make(saving), 3)
    resumed = resume(make(loading), state)
    if arguments.get("in_order", True):
        assert resumed == rest
    else:
        assert sorted(resumed) == sorted(rest)


@pytest.mark.thread_unsafe(reason="the process's random generators")
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_the_global_generator_is_enough_and_left_alone(saving, loading):
    torch.manual_seed(3)
    _, state, rest = interrupt(shuffling(saving, generator=None), 2)
    torch.manual_seed(4)
    before = torch.get_rng_state()
    assert resume(shuffling(loading, generator=None), state) == rest
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.thread_unsafe(reason="the process's random generators")
@pytest.mark.parametrize("way", EACH_WAY)
def test_asking_for_the_state_draws_nothing_and_disturbs_nothing(way):
    undisturbed = contents(shuffling(way))
    loader = shuffling(way)
    loader.state_dict()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    batches = []
    for batch in loader:
        batches.append(plain(batch))
        assert loader.state_dict() == loader.state_dict()
    loader.state_dict()
    assert batches == undisturbed
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.thread_unsafe(reason="the process's random generators")
def test_draws_are_torchs_own():
    def orders(cls, **own):
        torch.manual_seed(5)
        data = TensorDataset(torch.arange(SIZE))
        loader = cls(data, batch_size=4, shuffle=True, **own)
        return [contents(loader), torch.rand(1).item(), contents(loader), torch.rand(1).item()]

    expected = orders(torch.utils.data.DataLoader)
    for way in ("serial", "threads"):
        assert orders(DataLoader, **WAYS[way]) == expected


@pytest.mark.parametrize("handed_over", [0, 2, 6])
@pytest.mark.parametrize("way", EACH_WAY)
def test_the_iterator_may_be_gone(way, handed_over):
    _, state, rest = interrupt(shuffling(way), handed_over)
    loader = shuffling(way)
    iterator = iter(loader)
    for _ in range(handed_over):
        next(iterator)
    assert loader.state_dict() == state
    del iterator
    assert loader.state_dict() == state
    assert resume(loader, loader.state_dict()) == rest


@pytest.mark.thread_unsafe(reason="the process's random generators")
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.parametrize("own_generator", [True, False])
def test_before_any_iteration(saving, loading, own_generator):
    def make(way, seed):
        return shuffling(way, generator=seeded(seed) if own_generator else None)

    torch.manual_seed(7)
    loader = make(saving, 1)
    state = loader.state_dict()
    epoch = contents(loader)
    torch.manual_seed(8)
    assert resume(make(loading, 2), state) == epoch


@pytest.mark.thread_unsafe(reason="the process's random generators")
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.parametrize("own_generator", [True, False])
def test_at_the_end_of_an_epoch_the_next_one_follows(saving, loading, own_generator):
    def make(way, seed):
        return shuffling(way, generator=seeded(seed) if own_generator else None)

    torch.manual_seed(7)
    loader = make(saving, 1)
    first = contents(loader)
    state = loader.state_dict()
    second = contents(loader)
    assert second != first
    torch.manual_seed(8)
    assert resume(make(loading, 2), state) == second


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


@pytest.mark.parametrize("way", EACH_WAY)
def test_the_state_that_was_loaded_is_the_state(way):
    _, state, rest = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    iterator = iter(loader)
    assert loader.state_dict() == state
    assert contents(iterator) == rest


@pytest.mark.parametrize("way", EACH_WAY)
def test_loading_does_not_touch_an_iterator_in_use(way):
    _, state, rest = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    expected = contents(shuffling(way))
    iterator = iter(loader)
    first = plain(next(iterator))
    loader.load_state_dict(state)
    assert [first, *contents(iterator)] == expected
    # The generator belongs to both; it is put right for the resumed epoch.
    assert contents(loader) == rest


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_an_empty_state_starts_over(way):
    _, state, _ = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    loader.load_state_dict(state)
    loader.load_state_dict({})
    assert len(contents(loader)) == 6


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_loader_have_a_state_of_their_own(duplicate):
    def make():
        return DataLoader(range(SIZE), batch_size=4)

    loader = make()
    next(iter(loader))
    other = duplicate(loader)
    assert other.state_dict()["phase"] == "begin"
    assert len(contents(other)) == 6
    assert loader.state_dict()["handed_over"] == 1

    loaded = make()
    loaded.load_state_dict(loader.state_dict())
    other = duplicate(loaded)
    assert len(contents(loaded)) == len(contents(other)) == 5
    assert len(contents(other)) == 6


class Gate:
    """Sample 0 is only loaded once it may be; the next batches overtake it."""

    def __init__(self, event):
        self.event = event

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        if index == 0:
            assert self.event.wait(60)
        return index


@pytest.mark.parametrize("saving", ["threads", param("processes")])
@pytest.mark.parametrize("loading", EACH_WAY)
def test_batches_out_of_order_are_neither_lost_nor_repeated(saving, loading):
    event = threading.Event() if saving == "threads" else torch.multiprocessing.Event()
    # Of two batches at a time, so that the other workers do not have to build the first one.
    loader = DataLoader(Gate(event), batch_size=None, in_order=False, prefetch_factor=4, **WAYS[saving])
    iterator = iter(loader)
    first = contents(itertools.islice(iterator, 2))
    assert 0 not in first
    state = loader.state_dict()
    assert state["handed_over"] == 0
    assert sorted(state["ahead"]) == sorted(first)
    event.set()
    rest = contents(iterator)
    assert sorted(first + rest) == list(range(SIZE))
    resumed = resume(DataLoader(Gate(event), batch_size=None, **WAYS[loading]), state)
    assert resumed == sorted(rest)


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_distributed_sampler(saving, loading):
    def make(way, rank):
        sampler = DistributedSampler(range(SIZE), num_replicas=2, rank=rank, shuffle=True, seed=1)
        return DataLoader(Noisy(), batch_size=2, sampler=sampler, generator=seeded(), **WAYS[way])

    for rank in (0, 1):
        loader = make(saving, rank)
        loader.sampler.set_epoch(5)
        _, state, rest = interrupt(loader, 2)
        assert rest
        # The epoch's number is part of the state, for programs that forget it.
        other = make(loading, rank)
        assert resume(other, state) == rest
        assert other.sampler.epoch == 5

    contents(loader)
    state = loader.state_dict()
    other = make(loading, 1)
    other.sampler.set_epoch(6)
    loader.sampler.set_epoch(6)
    assert resume(other, state) == contents(loader)  # of a whole epoch it is the program's


class Faulty(Noisy):
    def __getitem__(self, index):
        if index in self.faulty:
            raise OSError(f"cannot read {index}")
        return super().__getitem__(index)

    def __init__(self, faulty):
        self.faulty = faulty


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_samples_left_out_count_as_handed_over(saving, loading):
    def make(way):
        # All of the third batch, some of others.
        dataset = Faulty({1, 8, 9, 10, 11, 17})
        return DataLoader(dataset, batch_size=4, on_error="skip", generator=seeded(), **WAYS[way])

    assert len(contents(make(saving))) == 5
    for handed_over in range(6):
        first, state, rest = interrupt(make(saving), handed_over)
        assert resume(make(loading), state) == rest
        assert len(first) + len(rest) == 5


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_a_batch_that_raised_is_tried_again_until_a_later_one_was_handed_over(saving, loading):
    def make(way, faulty):
        return DataLoader(Faulty(faulty), batch_size=4, generator=seeded(), **WAYS[way])

    expected = contents(make(saving, ()))
    loader = make(saving, {5})
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(OSError, match="cannot read 5"):
        next(iterator)
    state = loader.state_dict()
    assert resume(make(loading, ()), state) == expected[1:]
    next(iterator)
    state = loader.state_dict()
    assert resume(make(loading, ()), state) == expected[3:] == contents(iterator)


@pytest.mark.parametrize("way", EACH_WAY)
def test_states_taken_by_another_thread_are_whole(way):
    loader = shuffling(way)
    batches, states = [], []
    ready, stop = threading.Event(), threading.Event()

    def watch():
        while not stop.is_set():
            states.append(loader.state_dict())
            ready.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert ready.wait(60)
        for batch in loader:
            batches.append(plain(batch))
            ready.clear()
            assert ready.wait(60)
    finally:
        stop.set()
        watcher.join()
    seen = {state["handed_over"]: state for state in states if state["phase"] == "midst"}
    assert len(seen) >= 5
    for handed_over, state in seen.items():
        assert resume(shuffling("serial"), state) == batches[handed_over:]


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_states_taken_by_another_thread_between_epochs_are_whole(way):
    loader = shuffling(way)
    epochs, states = [], {}
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            state = loader.state_dict()
            states[json.dumps(state)] = state

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(5):
            epochs.append(contents(loader))
    finally:
        stop.set()
        watcher.join()
    epochs.append(contents(loader))
    for state in states.values():
        rest = resume(shuffling("serial"), state)
        handed_over = state["handed_over"]
        assert rest in [epoch[handed_over:] for epoch in epochs]
    assert {state["phase"] for state in states.values()} <= {"begin", "midst", "end"}


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_the_state_may_be_asked_for_anywhere(way):
    class Asking(torch.utils.data.Sampler):
        def __iter__(self):
            states.append(loader.state_dict())
            for i in range(6):
                states.append(loader.state_dict())
                yield i

    class Dataset(Noisy):
        def __getitem__(self, index):
            states.append(loader.state_dict())
            return index

    states = []
    loader = DataLoader(Dataset(), None, sampler=Asking(), **WAYS[way])
    assert contents(loader) == list(range(6))
    assert len(states) == 13
    for state in states:
        resumed = resume(DataLoader(range(6), None, sampler=range(6)), state)
        assert resumed == list(range(state["handed_over"], 6))


def test_tools_recognise_a_loader_with_a_state():
    assert isinstance(DataLoader(range(3)), Stateful)


@pytest.mark.thread_unsafe(reason="one process forks for all tests")
def test_a_forked_child_can_ask_for_the_state(run_program):
    source = """
        import os, threading
        from loader import DataLoader

        loader = DataLoader(range(20), batch_size=4)
        iterator = iter(loader)
        next(iterator)
        stop = threading.Event()

        def ask():
            while not stop.is_set():
                loader.state_dict()

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                state = loader.state_dict()
                next(iterator)
                os._exit(state["handed_over"] + loader.state_dict()["handed_over"])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        stop.set()
        for thread in threads:
            thread.join()
        print("done")
    """
    status, out, err = run_program(source)
    assert (status, out) == (0, "done\n"), err


class Counting:
    """A map-style dataset with a state of its own."""

    def __init__(self):
        self.loaded = 0

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        self.loaded += 1
        return index, self.loaded

    def state_dict(self):
        return {"loaded": self.loaded}

    def load_state_dict(self, state):
        self.loaded = state["loaded"]


@pytest.mark.thread_unsafe(reason="forks")
def test_the_datasets_own_state_is_restored():
    _, state, rest = interrupt(DataLoader(Counting(), batch_size=4), 2)
    assert state["dataset"] == {"loaded": 8}
    for way in ("serial", "process"):
        assert resume(DataLoader(Counting(), batch_size=4, **WAYS[way]), state) == rest

    dataset = Counting()
    _, state, rest = interrupt(DataLoader(dataset, batch_size=4, **WAYS["threads"]), 2)
    assert dataset.loaded == SIZE
    other = Counting()
    loader = DataLoader(other, batch_size=4, **WAYS["threads"])
    loader.load_state_dict(state)
    next(iter(loader))
    assert other.loaded >= state["dataset"]["loaded"] + 4 >= 12


@pytest.mark.thread_unsafe(reason="forks")
def test_the_datasets_states_of_worker_processes_are_restored():
    def make(way, **arguments):
        return DataLoader(Counting(), batch_size=4, **WAYS[way] | arguments)

    first, state, rest = interrupt(make("processes"), 3)
    assert [batch[1] for batch in first] == [[1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8]]
    assert state["datasets"] == [{"loaded": 8}, {"loaded": 4}]
    assert resume(make("processes"), state) == rest
    for loader in (make("serial"), make("threads"), make("processes", num_workers=3)):
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match=r"2 different states.*num_workers=2"):
            iter(loader)

    _, state, rest = interrupt(make("processes"), 4)  # now they have the same
    assert [indices for indices, _ in resume(make("threads"), state)] == [indices for indices, _ in rest]


def test_the_state_does_not_grow_with_the_dataset():
    def size(samples):
        loader = DataLoader(range(samples), batch_size=2, shuffle=True)
        next(iter(loader))
        return len(json.dumps(loader.state_dict()))

    assert abs(size(200_000) - size(10)) < 100


RESUME = """
    import json, pickle, sys
    import torch
    from loader import DataLoader

    def plain(batch):
        return batch.tolist()

    if __name__ == "__main__":
        path, how, num_workers, method = sys.argv[1:] if len(sys.argv) > 1 else {arguments!r}
        if how == "json":
            state = json.load(open(path))
        elif how == "pickle":
            state = pickle.load(open(path, "rb"))
        else:
            state = torch.load(path)  # weights_only
        torch.manual_seed(1234)
        loader = DataLoader(
            range(1000, 1000 + {size}), batch_size=4, shuffle=True,
            num_workers=int(num_workers), worker_method=method,
        )
        loader.load_state_dict(state)
        print(json.dumps([batch.tolist() for batch in loader]))
"""


@pytest.mark.thread_unsafe(reason="starts processes")
@pytest.mark.parametrize(
    ("saving", "how", "num_workers", "method"),
    [
        ("processes", "torch.save", "2", "thread"),
        ("threads", "json", "2", "process"),
        ("threads", "pickle", "0", "auto"),
    ],
)
def test_in_a_new_process(start_python, tmp_path, saving, how, num_workers, method):
    loader = DataLoader(range(1000, 1000 + SIZE), batch_size=4, shuffle=True, **WAYS[saving])
    iterator = iter(loader)
    next(iterator)
    state, path = loader.state_dict(), tmp_path / "state"
    if how == "json":
        path.write_text(json.dumps(state))
    elif how == "pickle":
        path.write_bytes(pickle.dumps(state))
    else:
        torch.save(state, path)
    arguments = [str(path), how, num_workers, method]
    process = start_python(RESUME.format(arguments=arguments, size=SIZE))
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert json.loads(out) == contents(iterator)
