"""Workers that stay for the next epoch: the same threads,
and nothing left of the previous epoch.
"""

import contextlib
import threading

import pytest
import torch

from ftloader import DataLoader
from tests.datasets import Rows, Stream
from tests.worker_threads import PREFIX, worker_threads


def test_the_same_threads_and_one_init_per_worker():
    started = []
    both = threading.Barrier(2)  # else one worker may build all batches before the other has begun

    def start(worker_id):
        started.append(worker_id)
        both.wait(timeout=30)

    dl = DataLoader(
        Rows(24),
        num_workers=2,
        worker_method="thread",
        persistent_workers=True,
        worker_init_fn=start,
    )
    assert len(list(dl)) == 24
    threads = worker_threads()
    assert len(threads) == 2
    assert len(list(dl)) == 24
    assert worker_threads() == threads
    assert sorted(started) == [0, 1]


@pytest.mark.parametrize("dataset", [Rows(24), Stream(24)], ids=["map", "iterable"])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.slow(cases=1)
def test_an_epoch_left_early_does_not_leak_into_the_next(worker_method, taken, in_order, dataset):
    arguments = {
        "num_workers": 2,
        "worker_method": worker_method,
        "persistent_workers": True,
        "in_order": in_order,
    }
    dl = DataLoader(dataset, batch_size=2, shuffle=isinstance(dataset, Rows), **arguments)
    for _ in range(3):
        iterator = iter(dl)
        for _ in range(taken):
            next(iterator)
    assert sorted(torch.cat(list(dl)).tolist()) == [*range(24)]


def test_a_slow_batch_of_the_old_epoch_is_dropped():
    release, loading = threading.Event(), threading.Event()

    class Slow(Rows):
        first = True

        def __getitem__(self, index):
            if index == 0 and Slow.first:
                Slow.first = False
                loading.set()
                assert release.wait(30)
                return -1  # must never be seen
            return index

    dl = DataLoader(
        Slow(24), batch_size=1, num_workers=2, worker_method="thread", persistent_workers=True
    )
    iter(dl)
    assert loading.wait(30)
    iterator = iter(dl)
    first = next(iterator)
    release.set()
    assert torch.cat([first, *iterator]).tolist() == [*range(24)]


def test_epoch_after_close_and_after_a_worker_failed_to_start():
    fail = [True]

    def init(worker_id):
        if worker_id == 1 and fail[0]:
            raise OSError("no disk")

    dl = DataLoader(
        Rows(24),
        batch_size=4,
        num_workers=2,
        worker_method="thread",
        persistent_workers=True,
        worker_init_fn=init,
    )
    raised = []
    for _ in range(2):
        try:
            for _ in dl:
                pass
        except OSError as error:
            raised.append(str(error))
        # Worker 0 may be through before worker 1 has failed: then the next epoch says so.
        for thread in worker_threads():
            if thread.name == f"{PREFIX}-1":
                thread.join(30)
    assert raised and set(raised) == {"no disk"}
    fail[0] = False
    with contextlib.suppress(OSError):  # of the second epoch, maybe
        list(dl)
    assert torch.cat(list(dl)).tolist() == [*range(24)]
    # The worker that did start was told to end, and may not have got to it.
    for thread in worker_threads():
        if thread not in dl._iterator._pool.threads:
            thread.join(30)
    assert len(worker_threads()) == 2
    iter(dl).close()
    assert worker_threads() == []
    assert torch.cat(list(dl)).tolist() == [*range(24)]


def test_iterator_taken_over_by_another_thread():
    dl = DataLoader(
        Rows(24), batch_size=4, num_workers=2, worker_method="thread", persistent_workers=True
    )
    epochs = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: epochs.append(torch.cat(list(dl)).tolist()))
        thread.start()
        thread.join()
    assert epochs == [[*range(24)]] * 3
