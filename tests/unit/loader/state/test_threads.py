"""States that other threads, user code and forked processes ask for; resumed in new processes."""

import contextlib
import json
import sys
import threading

import pytest
import torch

from ftloader import DataLoader
from ftloader.state import progress, store
from tests.datasets import Rows
from tests.unit.loader.state.resuming import (
    EACH_WAY,
    SIZE,
    WAYS,
    contents,
    plain,
    resume,
    shuffling,
)


@contextlib.contextmanager
def asked_by_another_thread(loader, note):
    """Call *note* with the loader's states all the time."""
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            note(loader.state_dict())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow
def test_states_taken_by_another_thread_are_whole(way):
    loader = shuffling(way)
    batches, states, ready = [], [], threading.Event()
    with asked_by_another_thread(loader, lambda state: (states.append(state), ready.set())):
        assert ready.wait(60)
        for batch in loader:
            batches.append(plain(batch))
            ready.clear()
            assert ready.wait(60)
    seen = {state["handed_over"]: state for state in states if state["phase"] == "middle"}
    assert len(seen) >= 5
    for handed_over, state in seen.items():
        assert resume(shuffling("serial"), state) == batches[handed_over:]


@pytest.mark.parametrize("way", ["serial", "threads"])
@pytest.mark.slow
def test_states_taken_by_another_thread_between_epochs_are_whole(way):
    loader = shuffling(way)
    epochs, states = [], {}
    with asked_by_another_thread(loader, lambda state: states.setdefault(json.dumps(state), state)):
        for _ in range(5):
            epochs.append(contents(loader))
    epochs.append(contents(loader))
    for state in states.values():
        rest = resume(shuffling("serial"), state)
        handed_over = state["handed_over"]
        assert rest in [epoch[handed_over:] for epoch in epochs]
    assert {state["phase"] for state in states.values()} <= {"begin", "middle", "end"}


@pytest.mark.slow
def test_a_sampler_may_change_its_attributes_in_another_thread():
    class Changing(torch.utils.data.SequentialSampler):
        def __iter__(self):
            for _ in range(200_000):
                self.batches = self.lengths = None
                del self.batches, self.lengths
            return super().__iter__()

    sampler = Changing(range(2))
    vars(sampler).update({f"setting_{number}": number for number in range(200)})
    loader = DataLoader(range(2), sampler=sampler)
    changing = threading.Thread(target=list, args=[sampler])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    changing.start()
    try:
        while changing.is_alive():
            loader.state_dict()
    finally:
        sys.setswitchinterval(interval)
        changing.join()


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_the_state_may_be_asked_for_anywhere(way):
    class Asking(torch.utils.data.Sampler):
        def __iter__(self):
            states.append(loader.state_dict())
            for i in range(6):
                states.append(loader.state_dict())
                yield i

    def load(index):
        states.append(loader.state_dict())
        return index

    states = []
    loader = DataLoader(Rows(SIZE, load), None, sampler=Asking(), **WAYS[way])
    assert contents(loader) == list(range(6))
    assert len(states) == 13
    for state in states:
        resumed = resume(DataLoader(range(6), None, sampler=range(6)), state)
        assert resumed == list(range(state["handed_over"], 6))


@contextlib.contextmanager
def at_every_line(call):
    """Run *call* at each line of the modules that keep the state,
    as a signal handler may run there.
    """

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in (store.__file__, progress.__file__):
            return None
        if event == "line":
            call()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("way", ["serial", "threads"])
@pytest.mark.parametrize("resumed", [False, True])
def test_states_taken_by_a_signal_handler_are_whole(way, resumed):
    loader = shuffling(way)
    if resumed:
        iterator = iter(loader)
        whole = [plain(next(iterator)) for _ in range(2)]
        loader.load_state_dict(loader.state_dict())
    else:
        whole = []
    states = {}

    def ask():
        state = loader.state_dict()
        if state["phase"] != "begin":  # else the epoch is about to draw its seeds
            states[json.dumps(state)] = state

    with at_every_line(ask):
        for batch in loader:
            whole.append(plain(batch))
    following = contents(loader)
    assert {state["handed_over"] for state in states.values()} >= set(
        range(2 if resumed else 0, len(whole))
    )
    for state in states.values():
        expected = following if state["phase"] == "end" else whole[state["handed_over"] :]
        assert resume(shuffling("serial"), state) == expected


def test_states_taken_by_a_signal_handler_with_batches_out_of_order():
    """At every line a batch is either in the state or not."""
    in_the_making = progress.EpochProgress({}, {"base_seed": 0, "epoch": 0})
    order = [3, 1, 0, 2, 5, 4, 6]
    seen = []

    def ask():
        state = in_the_making.state(dict)
        assert all(number > state["handed_over"] for number in state["ahead"])
        done = {*range(state["handed_over"]), *state["ahead"]}
        if done not in seen:
            seen.append(done)

    with at_every_line(ask):
        for number in order:
            in_the_making.handed_over(number)
    ask()
    assert seen == [set(order[:count]) for count in range(len(order) + 1)]


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("batch_size", [4, None])
@pytest.mark.slow
def test_a_dataset_may_change_the_indices_that_it_is_given(way, batch_size):
    """Sorting them is useful: files are read faster in order."""

    class Sorting(Rows):
        def __getitem__(self, indices):
            indices.sort()
            return list(indices)

        def __getitems__(self, indices):
            return self[indices]

    def make():
        order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(5)).tolist()
        sampler = order if batch_size else [order[n : n + 4] for n in range(0, SIZE, 4)]
        return DataLoader(Sorting(SIZE), batch_size, sampler=sampler, **WAYS[way])

    loader = make()
    iterator = iter(loader)
    assert plain(next(iterator)) == sorted(plain(next(iter(make()))))
    state = loader.state_dict()
    rest = contents(iterator)
    assert len(rest) == 5
    assert resume(make(), state) == rest


@pytest.mark.slow
def test_a_forked_child_can_ask_for_the_state(run_program):
    source = """
        import os, threading
        from ftloader import DataLoader

        loader = DataLoader(range(20), batch_size=4)
        iterator = iter(loader)
        next(iterator)
        asked, stop = threading.Event(), threading.Event()

        def ask():
            while not stop.is_set():
                loader.state_dict()
                asked.set()

        # One thread only, and after its first question: CPython 3.13t's dict.get() waits for the dictionary's
        # own lock when a thread looks for the first time into one that another thread has made (here
        # copy.deepcopy's), and a fork in that moment leaves the lock taken in the child: not ours to mend.
        thread = threading.Thread(target=ask)
        thread.start()
        asked.wait()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                state = loader.state_dict()
                next(iterator)
                os._exit(state["handed_over"] + loader.state_dict()["handed_over"])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        stop.set()
        thread.join()
        print("done")
    """
    status, out, err = run_program(source)
    assert (status, out) == (0, "done\n"), err


RESUME = """
import json
import torch
from ftloader import DataLoader

state, size, arguments = json.loads(%r)
torch.manual_seed(1234)
loader = DataLoader(range(1000, 1000 + size), batch_size=4, shuffle=True, **arguments)
loader.load_state_dict(state)
print(json.dumps([batch.tolist() for batch in loader]))
"""


@pytest.mark.parametrize(("saving", "loading"), [("processes", "threads"), ("threads", "process")])
@pytest.mark.slow
def test_in_a_new_process(run_program, saving, loading):
    loader = DataLoader(range(1000, 1000 + SIZE), batch_size=4, shuffle=True, **WAYS[saving])
    iterator = iter(loader)
    next(iterator)
    status, out, err = run_program(RESUME % json.dumps([loader.state_dict(), SIZE, WAYS[loading]]))
    assert status == 0, err
    assert json.loads(out) == contents(iterator)
