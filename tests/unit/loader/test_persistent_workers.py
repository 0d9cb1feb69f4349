"""Workers that stay for the next epoch: the same threads, and nothing else of the epoch before."""

import contextlib
import threading

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ftloader import DataLoader
from tests.worker_threads import PREFIX, worker_threads

pytestmark = [pytest.mark.timeout(60), pytest.mark.thread_unsafe(reason="counts the threads of the process; forks")]


class Rows(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return index


class Share(IterableDataset):
    """0 to 19, every worker its share."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 20, info.num_workers))


def test_every_epoch_is_complete(worker_method):
    dl = DataLoader(Rows(), batch_size=5, num_workers=2, worker_method=worker_method, persistent_workers=True)
    for _ in range(3):
        assert torch.cat(list(dl)).tolist() == [*range(24)]


def test_the_same_threads_and_one_init_per_worker():
    started = []
    both = threading.Barrier(2)  # else one worker may build all batches before the other has begun

    def start(worker_id):
        started.append(worker_id)
        both.wait(timeout=30)

    dl = DataLoader(Rows(), num_workers=2, worker_method="thread", persistent_workers=True, worker_init_fn=start)
    assert len(list(dl)) == 24
    threads = worker_threads()
    assert len(threads) == 2
    assert len(list(dl)) == 24
    assert worker_threads() == threads
    assert sorted(started) == [0, 1]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("taken", [0, 1, 3])
def test_an_epoch_left_early_does_not_leak_into_the_next(worker_method, taken, in_order):
    dl = DataLoader(
        Rows(),
        batch_size=2,
        shuffle=True,
        num_workers=2,
        worker_method=worker_method,
        persistent_workers=True,
        in_order=in_order,
    )
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

    dl = DataLoader(Slow(), batch_size=1, num_workers=2, worker_method="thread", persistent_workers=True)
    iter(dl)
    assert loading.wait(30)
    iterator = iter(dl)
    first = next(iterator)
    release.set()
    assert torch.cat([first, *iterator]).tolist() == [*range(24)]


def test_iterable_dataset_starts_again(worker_method):
    dl = DataLoader(Share(), batch_size=3, num_workers=2, worker_method=worker_method, persistent_workers=True)
    for leave_early in (False, True, False):
        iterator = iter(dl)
        if leave_early:
            next(iterator)
            continue
        assert sorted(torch.cat(list(iterator)).tolist()) == [*range(20)]


def test_epoch_after_a_failed_batch():
    # Not with processes: torch takes 5 s a worker to end the processes of an iterator
    # that is collected in a reference cycle, as one may be after an exception.
    class Bad(Rows):
        def __getitem__(self, index):
            if index == 3:
                raise ValueError("three")
            return index

    dl = DataLoader(Bad(), batch_size=4, num_workers=2, worker_method="thread", persistent_workers=True)
    for _ in range(3):
        with pytest.raises(ValueError, match="three"):
            list(dl)


def test_epoch_after_close_and_after_a_worker_failed_to_start():
    fail = [True]

    def init(worker_id):
        if worker_id == 1 and fail[0]:
            raise OSError("no disk")

    dl = DataLoader(
        Rows(), batch_size=4, num_workers=2, worker_method="thread", persistent_workers=True, worker_init_fn=init
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
    dl = DataLoader(Rows(), batch_size=4, num_workers=2, worker_method="thread", persistent_workers=True)
    epochs = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: epochs.append(torch.cat(list(dl)).tolist()))
        thread.start()
        thread.join()
    assert epochs == [[*range(24)]] * 3
