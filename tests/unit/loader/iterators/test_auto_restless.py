"""``num_workers="auto"`` whose tuner is never content:
the number of threads changes at nearly every batch.
"""

import threading
import time

import pytest
import torch

from ftloader import DataLoader
from ftloader.diagnosis.limits import usable_cpus
from tests.datasets import Failing, Rows, Stream, my_share
from tests.worker_threads import until_collected, worker_threads

pytestmark = pytest.mark.usefixtures("restless_tuner")


def auto(dataset, *args, **arguments):
    return DataLoader(dataset, *args, num_workers="auto", worker_method="thread", **arguments)


def waiting(index):
    time.sleep(0.02)
    return index


@pytest.mark.parametrize(
    "arguments",
    [{}, {"batch_size": None}, {"persistent_workers": True}, {"in_order": False}],
    ids=str,
)
@pytest.mark.slow
def test_batches_are_the_same_while_the_number_changes(arguments):
    changes = 0
    loader = auto(Rows(3000, torch.tensor), **{"batch_size": 7} | arguments)
    for _ in range(3):
        found = [batch.reshape(-1) for batch in loader]
        samples = torch.cat(found).tolist()
        assert (samples if loader.in_order else sorted(samples)) == [*range(3000)]
        changes += len(loader.statistics().numbers) - 1
        assert sum(worker.samples for worker in loader.statistics().workers) == 3000
    assert changes > 5


@pytest.mark.slow
def test_errors_and_early_ends_while_threads_are_parked():
    loader = auto(Failing(lambda index: ValueError("damaged"), 2000, at=(1500,)), 5)
    for _ in range(5):
        iterator = iter(loader)
        found = []
        with pytest.raises(ValueError, match="damaged"):
            for batch in iterator:
                found += batch.tolist()
        assert found == [*range(1500)]
        assert next(iterator).tolist() == [*range(1505, 1510)]
        del iterator


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (Stream(40), {"worker_method": "thread"}),
        (Rows(40), {"worker_method": "thread", "worker_init_fn": lambda worker: None}),
        (Rows(40), {"worker_method": "process"}),
    ],
    ids=["iterable-style", "worker_init_fn", "processes"],
)
def test_the_number_is_fixed_where_it_must_be(dataset, arguments):
    loader = DataLoader(dataset, num_workers="auto", **arguments)
    assert sorted(torch.cat(list(loader)).tolist()) == [*range(40)]
    assert loader.statistics().num_workers == usable_cpus()
    assert loader.statistics().max_workers is None


def test_worker_ids_are_below_the_number_that_workers_are_told():
    told = set()

    def load(index):
        told.add(my_share())
        return waiting(index)

    list(auto(Rows(400, load), 8, max_workers=5))
    assert {number for _, number in told} == {5}
    assert {worker for worker, _ in told} <= set(range(5))
    assert threading.active_count() < 60


def with_parked_threads(**arguments):
    """Return (loader, iterator), in an epoch in which some threads are parked."""
    loader = auto(Rows(1_000_000), 8, max_workers=8, **arguments)
    iterator = iter(loader)
    while len(worker_threads()) <= loader.statistics().num_workers:
        next(iterator)
    return loader, iterator


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("way", ["close", "drop", "drop in another thread"])
def test_parked_threads_end_with_their_iterator(way, persistent):
    held = [*with_parked_threads(persistent_workers=persistent)]
    if way == "close":
        held[1].close()
        assert not worker_threads()
    elif way == "drop":
        held.clear()
    else:
        dropper = threading.Thread(target=held.clear)
        dropper.start()
        dropper.join()
    assert until_collected()


def test_an_epoch_with_parked_threads_is_left_and_the_next_one_is_whole():
    loader, iterator = with_parked_threads(persistent_workers=True)
    loader.dataset.size = 500
    for _ in range(3):
        assert torch.cat(list(loader)).tolist() == [*range(500)]
    assert loader._iterator is iterator
    found = loader.statistics(total=True)
    assert sum(worker.samples for worker in found.workers) >= found.samples
