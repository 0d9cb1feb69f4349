"""``loader.statistics()``: what it counts."""

import copy
import dataclasses
import json
import threading
import time

import numpy as np
import pytest
import torch

from ftloader import SKIP, DataLoader
from ftloader.diagnosis.recording import EpochRecord
from tests.datasets import Failing, Rows, Whole

METHODS = pytest.mark.parametrize(
    "workers", [("thread", 0), ("thread", 2), ("process", 2)], ids=str
)


def row(index):
    return np.full(1000, index, np.float32)


def slow_row(index):
    time.sleep(0.03)
    return row(index)


def loader(dataset, workers, **options):
    method, number = workers
    return DataLoader(dataset, batch_size=8, num_workers=number, worker_method=method, **options)


@pytest.mark.slow(cases=1)
@METHODS
def test_counts_and_times_of_an_epoch(workers):
    batches = loader(Rows(80, slow_row), workers)
    assert str(batches.statistics()) == "no batch has been handed over yet"
    for _ in batches:
        time.sleep(0.01)
    found = batches.statistics()
    assert 0 < found.first_batch <= found.waited
    assert (found.batches, found.samples, found.skipped, found.nbytes) == (10, 80, 0, 80 * 4000)
    assert found.num_workers == workers[1]
    assert found.worker_method == (workers[0] if workers[1] else "none")
    assert 0 < found.waited < found.seconds - 9 * 0.01  # the loop's own time is not waited
    assert 0 < found.wait_median <= found.wait_95 <= found.wait_99 <= found.wait_max <= found.waited
    assert 0.8 <= found.loading and 0 < found.collating and 0 < found.cpu
    assert sum(worker.samples for worker in found.workers) == 80
    assert found.loading + found.collating <= found.seconds * max(1, workers[1])
    document = json.loads(json.dumps(found.as_dict()))
    assert document["samples"] == 80
    assert str(found).splitlines()[1:3] == [
        f"{name}: {document[name]}" for name in ("limit", "change")
    ]


@METHODS
def test_total_adds_up_epochs_also_those_that_were_left_early(workers):
    batches = loader(Rows(80, row), workers, persistent_workers=bool(workers[1]))
    list(batches)
    first = batches.statistics()
    next(iter(batches))
    left = batches.statistics()
    assert (left.batches, left.samples) == (1, 8)
    list(batches)
    total = batches.statistics(total=True)
    assert (total.batches, total.samples) == (21, 168)
    assert batches.statistics().samples == first.samples == 80
    assert total.seconds >= first.seconds + left.seconds
    assert total.wait_max >= first.wait_max


@METHODS
@pytest.mark.slow(cases=1)
def test_total_counts_epochs_that_run_at_the_same_time(workers):
    batches = loader(Rows(80, row), workers)
    assert len(list(zip(batches, batches, batches))) == 10
    assert batches.statistics(total=True).samples == 240


@METHODS
def test_samples_left_out_are_counted(workers):
    dataset = Failing(ValueError("damaged"), 80, range(0, 80, 8), row)
    batches = loader(dataset, workers, on_error=lambda error, index: SKIP)
    with pytest.warns(UserWarning, match="left out|skipped"):
        list(batches)
    assert (batches.statistics().samples, batches.statistics().skipped) == (70, 10)


@METHODS
def test_iterable_style_counts_the_last_short_batch(workers):
    batches = loader(Whole(torch.arange(60)), workers)
    list(batches)
    assert batches.statistics().samples == 60 * max(1, workers[1])


@pytest.mark.slow
def test_any_thread_may_ask_while_epochs_begin_and_end():
    batches = loader(Rows(80, row), ("thread", 2))
    seen, failures, stop = [], [], threading.Event()

    def ask():
        try:
            while not stop.is_set():
                seen.append(batches.statistics(total=True).samples)
        except BaseException as error:
            failures.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    for _ in range(3):
        list(batches)
    stop.set()
    asker.join()
    assert not failures
    assert seen == sorted(seen)
    assert seen[-1] <= batches.statistics(total=True).samples == 240


def test_memory_is_that_of_the_batches_held():
    batches = loader([torch.zeros(100_000)] * 80, ("thread", 2))
    list(batches)
    found = batches.statistics()
    assert 8 * 400_000 <= found.memory_held <= found.memory_peak <= 10 * 8 * 400_000


def test_batches_of_any_kind_are_measured():
    itself: list = [torch.zeros(4)]
    itself.append(itself)
    kinds = [
        torch.eye(3).to_sparse(),
        {"a": (np.zeros(5), [torch.zeros(2)])},
        itself,
        ["text"],
        None,
        object(),
    ]
    batches = DataLoader(range(len(kinds)), batch_size=1, collate_fn=lambda keys: kinds[keys[0]])
    assert len(list(batches)) == len(kinds)
    # Of the sparse tensor all nine places are counted; the list that holds itself counts once.
    assert batches.statistics().nbytes == 36 + 40 + 8 + 16


@METHODS
def test_the_record_cannot_be_changed(workers):
    batches = loader(Rows(80, row), workers)
    list(batches)
    found = batches.statistics()
    for part in (found, *found.workers):
        with pytest.raises(dataclasses.FrozenInstanceError):
            part.samples = 0
    assert found.workers == batches.statistics().workers


def test_a_copy_starts_from_nothing():
    batches = loader(Rows(80, row), ("thread", 2))
    list(batches)
    assert copy.copy(batches).statistics().batches == 0


def test_quantiles_of_waits():
    record = EpochRecord("none", [])
    for milliseconds in range(1, 101):
        record.returned(time.perf_counter() - milliseconds / 1000, 0, 0.0)
    for share in (0.5, 0.95, 0.99):
        assert share * 0.1 * 0.99 <= record.wait_at(share) <= share * 0.1 * 1.3
    assert record.wait_at(1.0) <= record.wait_max


@pytest.fixture
def measured():
    """Builds the statistics of ten seconds of an epoch, with other figures than were measured."""
    batches = loader(Rows(80, row), ("thread", 2))
    list(batches)
    found = batches.statistics()

    def build(workers, **figures):
        usual = {
            "num_workers": workers,
            "worker_seconds": 10.0 * workers,
            "seconds": 10.0,
            "starting": 0.0,
            "sampling": 0.0,
            "first_batch": 0.1,
            "collating": 0.0,
            "ready": 2.5,
            "cpus": 2,
            "gil": False,
        }
        return dataclasses.replace(found, **usual, **figures)

    return build


@pytest.mark.parametrize("workers, enough", [(2, ""), (4, ""), (9, "; num_workers=2 is enough")])
def test_other_programs_are_named_whatever_the_number_of_workers(measured, workers, enough):
    busy = 10.0 * workers
    # Others have one of the two CPUs.
    crowded = measured(workers, waited=9.5, loading=busy, cpu=9.0, queued=busy - 9.0)
    change = f"change: fewer other programs, a cheaper dataset[i], or more CPUs{enough}"
    assert str(crowded).splitlines()[2] == change


def test_other_programs_are_not_named_where_workers_or_the_loop_have_the_cpus(measured):
    change = "change: a cheaper dataset[i], or more CPUs"
    alone = measured(4, waited=9.5, loading=40.0, cpu=19.0, queued=20.0)
    assert str(alone).splitlines()[2] == change
    # The loop may compute, in several threads, for half of the time.
    beside_loop = measured(4, waited=5.0, loading=40.0, cpu=9.0, queued=30.0)
    assert str(beside_loop).splitlines()[2] == change


def test_a_loop_that_waits_for_its_first_batch_alone_is_told(measured):
    first = measured(2, loading=6.0, cpu=6.0, queued=0.0, waited=1.9)
    first = dataclasses.replace(first, first_batch=1.6)
    line, limit, _ = str(first).splitlines()
    assert line.endswith("the loop waited for data 19% of the time")
    after = "after the first batch (16% of the time) its data is ready (2.5 batches when it asks)"
    assert limit == f"limit: the loop: {after}"
    usual = dataclasses.replace(first, first_batch=0.3, waited=0.4)
    assert str(usual).splitlines()[1].startswith("limit: the loop: its data is ready (2.5 ")
