"""The measurement of --why: the parts of a dataset, what threads share in each way to load, and
where they wait.
"""

import contextlib
import functools
import queue
import threading
import time

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, Dataset, Subset

from ftbench.measure import sharing
from ftbench.measure.parts import parts_of
from ftbench.measure.sharing import ALL, ALONE, COPIED, KEPT, OBJECT, SHARED, Sharing
from ftbench.measure.waits import Waits
from ftbench.plan.scenario import TrialError
from ftloader.workers import copies
from tests.unit.bench.turns import without_pause

THREADS = 2
ON_LOAD = []
"""The datasets that threads loaded from, alive so that none has the place of another."""


class Words(Dataset):
    transform = None

    def __init__(self, **attributes):
        self.words, self.number = ["of", "the"], 3
        self.__dict__.update(attributes)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ON_LOAD.append(self)
        return index


class Slotted(Dataset):
    __slots__ = ("empty", "words")

    def __init__(self):
        self.words = {"of": 1000}

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ON_LOAD.append(self)
        return index


class Scale:
    def __init__(self, table):
        self.table = table

    def __call__(self, sample):
        return sample


def padding(vocabulary):
    def collate(samples):
        return vocabulary, samples

    return collate


def padded(samples, vocabulary):
    return samples


def together(samples):
    return samples


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(sharing, "TURN_SECONDS", 0.001)
    ON_LOAD.clear()
    before = threading.active_count()
    yield
    assert threading.active_count() == before
    ON_LOAD.clear()


@pytest.mark.parametrize(
    "dataset, collate, names",
    [
        (Words(), together, {"words"}),
        (Words(words="text", number=300, scale=0.5), together, {"words", "number", "scale"}),
        (Slotted(), together, {"words"}),
        (Subset(Words(), range(4)), together, {"dataset.words", "indices"}),
        (
            ConcatDataset([Words(), Slotted()]),
            together,
            {"datasets.0.words", "datasets.1.words", "cumulative_sizes"},
        ),
        (Words(words=None, transform=Scale([1])), together, {"transform.table"}),
        (
            Words(words=None, steps=[Scale([1]), Scale({})]),
            together,
            {"steps.0.table", "steps.1.table"},
        ),
        (Words(words=None), Scale([1]), {"collate_fn.table"}),
        (Words(words=None), Scale([1]).__call__, {"collate_fn.table"}),
        (Words(words=None), padding(["of"]), {"collate_fn.vocabulary"}),
        (
            Words(words=None),
            functools.partial(padded, vocabulary=["of"]),
            {"collate_fn.vocabulary"},
        ),
        ([[1], 2], together, {"0"}),
    ],
)
def test_parts(dataset, collate, names):
    assert parts_of(dataset, collate).keys() == names


def test_a_list_in_itself_and_a_class_have_no_parts_within():
    endless = []
    endless.append(endless)
    assert [*parts_of(Words(words=endless), list)] == ["words"]


def test_parts_of_objects_that_refer_to_each_other_come_once():
    dataset = Words()
    dataset.inner, dataset.collate = dataset, dataset.__getitem__
    assert [*parts_of(dataset, dataset.collate)] == ["words"]


def number_of(objects):
    return len({id(value) for value in objects})


@pytest.mark.parametrize(
    "way, numbers",
    [
        (ALONE, (1, 1, 1)),
        (SHARED, (1, 1, 1)),
        (OBJECT, (2, 1, 1)),
        (COPIED + "words", (2, 2, 1)),
        (KEPT + "words", (2, 1, 2)),
        (ALL, (2, 2, 2)),
    ],
)
def test_threads_share_what_the_way_says(short, way, numbers):
    with_more = Words(more={"of": 1000})
    measured = Sharing(with_more, together, THREADS)
    ON_LOAD.clear()
    assert measured.rate(way) > 0
    measured.close()
    objects = (
        number_of(ON_LOAD),
        number_of(d.words for d in ON_LOAD),
        number_of(d.more for d in ON_LOAD),
    )
    assert objects == numbers
    # What they share is fresh, as copies are.
    assert all(dataset.words is not with_more.words for dataset in ON_LOAD)


def test_a_part_of_a_wrapped_dataset_with_slots_is_copied_alone(short):
    measured = Sharing(Subset(Slotted(), range(64)), together, THREADS)
    ON_LOAD.clear()
    measured.rate(COPIED + "dataset.words")
    assert number_of(dataset.words for dataset in ON_LOAD) == 2
    ON_LOAD.clear()
    measured.rate(KEPT + "dataset.words")
    assert number_of(ON_LOAD) == 2 and number_of(dataset.words for dataset in ON_LOAD) == 1
    measured.close()


def test_what_has_no_copy_is_named_and_always_shared(short):
    numbers = (number for number in range(3))
    measured = Sharing(Words(numbers=numbers), together, THREADS)
    assert "cannot pickle 'generator' object" in measured.lacking["numbers"]
    assert measured.kinds == {"words": "list"}
    ON_LOAD.clear()
    measured.rate(ALL)
    measured.close()
    assert number_of(dataset.words for dataset in ON_LOAD) == 2
    assert {id(dataset.numbers) for dataset in ON_LOAD} == {id(numbers)}


class Stubborn(Words):
    def __reduce_ex__(self, protocol):
        raise ValueError("one is enough")


def test_a_dataset_without_copies_is_measured_as_it_is(short):
    measured = Sharing(Stubborn(), together, THREADS)
    result = without_pause(sharing.measure(measured, 2, 60.0))
    measured.close()
    assert result["lacking"] == {ALL: "ValueError: one is enough"}
    assert result["rates"].keys() == {ALONE, SHARED} and result["kinds"] == {}


def test_what_a_getstate_leaves_out_is_no_part(short):
    class_with_state = Reopened(file=(number for number in range(3)))
    measured = Sharing(class_with_state, together, THREADS)
    measured.close()
    assert measured.lacking == {} and measured.kinds == {"words": "list"}


class Reopened(Words):
    def __getstate__(self):
        return {**self.__dict__, "file": None}


class FailsInThreads(Words):
    def __getitem__(self, index):
        if threading.current_thread() is threading.main_thread():
            return index
        with contextlib.suppress(IndexError):  # another thread has taken the last one
            if self.words.pop() == "the":
                raise RuntimeError("not thread-safe")
        return index


class FailsToCopy(Words):
    made = 0

    def __setstate__(self, state):
        self.__dict__.update(state)
        if threading.current_thread() is not threading.main_thread():
            FailsToCopy.made += 1
            if FailsToCopy.made > 1:
                raise OSError("too many open files")


@pytest.mark.parametrize(
    "dataset, way, error",
    [(FailsInThreads(), SHARED, "not thread-safe"), (FailsToCopy(), ALL, "too many open files")],
)
def test_the_error_of_a_thread_is_raised_and_ends_the_others(short, dataset, way, error):
    measured = Sharing(dataset, together, THREADS)
    with pytest.raises((RuntimeError, TypeError), match=error):
        measured.rate(way)
    measured.close()


def test_copies_that_do_not_fit_into_memory(short, monkeypatch):
    monkeypatch.setattr(copies, "usable_memory", lambda: 1000)
    with pytest.raises(TrialError, match="3 copies of Words have .* bytes or more each"):
        Sharing(Words(large=np.zeros(1000)), together, THREADS)


def test_an_attribute_that_is_no_part_of_a_later_copy(short):
    measured = Sharing(Words(seed=1000), together, THREADS)
    with contextlib.closing(measured):
        objects = measured._copier.copy()
        objects.dataset.seed = 3
        assert measured._shared(objects, KEPT + "seed") == []
        assert measured._shared(objects, COPIED + "seed") == [objects.dataset.words]


def test_of_many_attributes_those_are_measured_that_cost_most_to_share(short, monkeypatch):
    many = {f"part{number}": [number] for number in range(sharing.MOST_PARTS + 2)}
    measured = Sharing(Words(words=None, **many), together, THREADS)
    cheap = ["part3", "part5"]
    monkeypatch.setattr(
        measured, "rate", lambda way, waits=None: 2.0 if way.removeprefix(KEPT) in cheap else 1.0
    )
    result = without_pause(sharing.measure(measured, 3, 60.0))
    measured.close()
    assert result["unmeasured"] == cheap
    assert {len(rates) for rates in result["rates"].values()} == {3}
    assert KEPT + "part4" in result["rates"] and KEPT + "part5" not in result["rates"]


def test_time_ends_the_rounds_but_not_the_first(short):
    measured = Sharing(Words(), together, THREADS)
    result = without_pause(sharing.measure(measured, 100, 0.0))
    measured.close()
    assert {len(rates) for rates in result["rates"].values()} == {sharing.FEWEST_ROUNDS}


def test_the_lines_at_which_threads_are_are_counted():
    lock, empty, stop = threading.Lock(), queue.Queue(), threading.Event()

    def locked():
        with lock:
            pass

    def waiting():
        empty.get()

    def working():
        while not stop.is_set():
            pass

    lock.acquire()
    threads = [threading.Thread(target=target) for target in (locked, waiting, working)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    waits = Waits()
    for _ in range(3):
        waits.look([thread.ident for thread in threads])
    lock.release()
    empty.put(None)
    stop.set()
    for thread in threads:
        thread.join()
    counts = {line.rpartition(": ")[2]: count for line, count in waits.counts().items()}
    assert counts["empty.get()"] == 3 and sum(counts.values()) == 9
    assert any("with lock" in line and __file__ in line for line in waits.counts())
