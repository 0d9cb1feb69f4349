"""Thread safety of the thread workers: many loaders, many threads, everything at once.

Each test runs for a fixed time and checks every batch that it sees. The environment variable
``STRESS_SECONDS`` makes it longer.
"""

import contextlib
import gc
import os
import random
import threading
import time
import warnings

import pytest
import torch
from torch.utils.data import IterableDataset, default_collate, get_worker_info

from loader import DataLoader

SECONDS = float(os.environ.get("STRESS_SECONDS", "2"))

pytestmark = [
    pytest.mark.timeout(300 + 10 * SECONDS),
    pytest.mark.thread_unsafe(reason="starts threads enough, and counts those of the process"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

SIZE = 60


class Odd(Exception):
    """What a sample raises."""


class Rows:
    """``self[i] == i``, at times after a moment, at times an exception instead."""

    def __init__(self, seed, failing=0.0, slow=0.0):
        self._random = random.Random(seed)
        self.bad = {i for i in range(SIZE) if self._random.random() < failing}
        self.slow = {i for i in range(SIZE) if self._random.random() < slow}

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        if index in self.slow:
            time.sleep(0.0005)
        if index in self.bad:
            raise Odd(index)
        return torch.tensor([index])


class Share(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return (torch.tensor([i]) for i in range(info.id, SIZE, info.num_workers))


def in_threads(count, work):
    """Runs ``work(thread number, deadline)`` in *count* threads; raises what they raise.

    Late warnings (a worker that did not end in time) are failures too.
    """
    errors = []
    deadline = time.monotonic() + SECONDS

    def run(number):
        try:
            work(number, deadline)
        except BaseException as error:
            errors.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def collecting_all_the_time():
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@pytest.fixture(autouse=True)
def no_worker_thread_left():
    yield
    deadline = time.monotonic() + 20
    while True:
        gc.collect()
        left = [t for t in threading.enumerate() if t.name.startswith("loader-worker")]
        if not left or time.monotonic() > deadline:
            break
        left[0].join(0.1)
    assert left == []


def consume(iterator, bad, batch_size):
    """The whole epoch: each batch in its place, or the exception of its first bad sample."""
    for start in range(0, SIZE, batch_size):
        expected = [*range(start, min(start + batch_size, SIZE))]
        failing = [i for i in expected if i in bad]
        try:
            batch = next(iterator)
        except Odd as error:
            assert error.args == (failing[0],)
        else:
            assert not failing
            assert batch.flatten().tolist() == expected
    with pytest.raises(StopIteration):
        next(iterator)


def test_many_loaders_from_many_threads():
    def work(number, deadline):
        rng = random.Random(number)
        while time.monotonic() < deadline:
            dataset = Rows(rng.random(), failing=0.05, slow=0.05)
            batch_size = rng.randint(1, 9)
            dl = DataLoader(
                dataset,
                batch_size=batch_size,
                num_workers=rng.randint(1, 4),
                prefetch_factor=rng.randint(1, 3),
                persistent_workers=rng.random() < 0.5,
                worker_method="thread",
            )
            for _ in range(rng.randint(1, 3)):
                consume(iter(dl), dataset.bad, batch_size)

    in_threads(6, work)


def test_iterators_left_at_random_points_by_any_thread_in_a_gc_storm():
    lock = threading.Lock()
    abandoned = []

    def work(number, deadline):
        rng = random.Random(number)
        while time.monotonic() < deadline:
            if rng.random() < 0.3:
                dl = DataLoader(Share(), batch_size=4, num_workers=2, worker_method="thread")
            else:
                dl = DataLoader(
                    Rows(rng.random(), slow=0.1),
                    batch_size=4,
                    num_workers=rng.randint(1, 3),
                    worker_method="thread",
                    persistent_workers=rng.random() < 0.3,
                )
            iterator = iter(dl)
            for _ in range(rng.randint(0, 5)):
                next(iterator)
            way = rng.randrange(5)
            if way == 0:
                iterator.close()
            elif way == 1:
                cycle = [iterator, dl]
                cycle.append(cycle)
                del cycle
            elif way == 2:
                dl.dataset.iterator = iterator  # a cycle through what the workers use
            elif way == 3:
                with lock:
                    abandoned.append(iterator)
                    rng.shuffle(abandoned)
                    dropped = abandoned.pop()
                del dropped
            del iterator, dl

    with collecting_all_the_time():
        in_threads(4, work)
    abandoned.clear()


def test_one_iterator_shared_dropped_and_closed_by_others():
    def work(number, deadline):
        rng = random.Random(number)
        while time.monotonic() < deadline:
            dl = DataLoader(
                Rows(rng.random(), slow=0.2), batch_size=3, num_workers=2, worker_method="thread"
            )
            iterator = iter(dl)
            seen = [[], [], []]

            def take(mine):
                with contextlib.suppress(RuntimeError):  # was shut down
                    mine.extend(batch.flatten().tolist() for batch in iterator)

            threads = [threading.Thread(target=take, args=(mine,)) for mine in seen]
            for thread in threads:
                thread.start()
            close = rng.random() < 0.5
            if close:
                time.sleep(rng.random() * 0.005)
                iterator.close()
            for thread in threads:
                thread.join()
            batches = sorted(sum(seen, []))
            everything = [[i, i + 1, i + 2] for i in range(0, SIZE, 3)]
            if close:
                assert all(batch in everything for batch in batches)
                assert len(batches) == len({batch[0] for batch in batches})
            else:
                assert batches == everything

    in_threads(2, work)


def test_persistent_epochs_left_early_with_failing_and_unordered_batches():
    def work(number, deadline):
        rng = random.Random(number)
        dataset = Rows(number, failing=0.03, slow=0.1)
        dl = DataLoader(
            dataset,
            batch_size=2,
            num_workers=3,
            worker_method="thread",
            persistent_workers=True,
            in_order=number % 2 == 0,
            collate_fn=lambda samples: default_collate(samples).flatten().tolist(),
        )
        good = [[i, i + 1] for i in range(0, SIZE, 2) if not {i, i + 1} & dataset.bad]
        while time.monotonic() < deadline:
            leave_after = rng.choice([0, 1, 5, None])
            iterator, seen = iter(dl), []
            while leave_after is None or len(seen) < leave_after:
                try:
                    seen.append(next(iterator))
                except Odd:
                    continue
                except StopIteration:
                    break
            if leave_after is None:
                assert sorted(seen) == good
            if number % 2 == 0:
                assert seen == good[: len(seen)]

    in_threads(4, work)


def test_worker_info_and_intra_op_threads_are_nobody_elses():
    before = torch.get_num_threads()

    class Info(Rows):
        def __getitem__(self, index):
            info = get_worker_info()
            assert info.dataset is self
            assert torch.get_num_threads() == 1
            return index

    def work(number, deadline):
        while time.monotonic() < deadline:
            workers = number + 1
            dl = DataLoader(Info(0), batch_size=5, num_workers=workers, worker_method="thread")
            assert torch.cat(list(dl)).tolist() == [*range(SIZE)]
            assert get_worker_info() is None

    try:
        torch.set_num_threads(2)
        torch.get_num_threads()
        in_threads(4, work)
        found = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert (torch.get_num_threads(), found) == (2, [2])
    finally:
        torch.set_num_threads(before)


def test_forks_while_iterators_come_and_go():
    """Children of any moment make iterators on the loaders that are in use here, and end."""
    shared = DataLoader(Rows(0), batch_size=4, num_workers=2, worker_method="thread")
    ended = []

    def load(number, deadline):
        rng = random.Random(number)
        while time.monotonic() < deadline:
            iterator = iter(shared)
            for _ in range(rng.randint(0, 6)):
                next(iterator)
            del iterator

    def fork(deadline):
        while time.monotonic() < deadline or not ended:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    iterator = iter(shared)
                    if [next(iterator).flatten().tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]:
                        status = 0
                finally:
                    os._exit(status)
            ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def work(number, deadline):
        fork(deadline) if number == 0 else load(number, deadline)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads
        in_threads(3, work)
    assert ended and set(ended) == {0}
