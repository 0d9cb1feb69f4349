"""Storms: many loaders in many threads, each going on by itself with everything checked.

Where the scenarios of loaders.py line their threads up for each thing they do, a round here is a
while of many things at once.
"""

import contextlib
import gc
import os
import random
import signal
import threading
import time
import warnings

import torch
from torch.utils.data import default_collate, get_worker_info

from ftloader.workers import exit as program_exit
from tests.datasets import Stream
from tests.stress.engine import Scenario
from tests.stress.scenarios.loaders import threaded
from tests.worker_threads import until_collected, worker_threads

SIZE = 60
JOINING = 60.0
"""Seconds for worker threads to end, on whatever machine."""


class Odd(Exception):
    """Exception that a sample raises."""


class Rows:
    """``self[i] == i``, at times after a moment, at times an exception instead."""

    def __init__(self, seed, failing=0.0, slow=0.0):
        draw = random.Random(seed)
        self.bad = {i for i in range(SIZE) if draw.random() < failing}
        self.slow = {i for i in range(SIZE) if draw.random() < slow}

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        if index in self.slow:
            time.sleep(0.0005)
        if index in self.bad:
            raise Odd(index)
        return torch.tensor([index])


class _Storm(Scenario):
    """Base of storms. Warnings of late workers are failures,
    and so are worker threads that are left.
    """

    @classmethod
    def set_up(cls):
        # For good: the process is the scenario's own.
        program_exit.JOIN_LIMIT = JOINING
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", "This DataLoader will create")

    def check(self):
        assert until_collected(seconds=JOINING), worker_threads()


def consume(iterator, bad, batch_size):
    """Check an epoch: each batch in its place, or the exception of its first bad sample."""
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
    assert next(iterator, None) is None


class ManyLoaders(_Storm):
    """Threads make loaders of all kinds and go through their epochs, bad samples and all."""

    threads = 6

    def step(self, thread, rng):
        for _ in range(4):
            dataset = Rows(rng.random(), failing=0.05, slow=0.05)
            batch_size = rng.randint(1, 9)
            loader = threaded(
                dataset,
                batch_size=batch_size,
                num_workers=rng.randint(1, 4),
                prefetch_factor=rng.randint(1, 3),
                persistent_workers=rng.random() < 0.5,
            )
            for _ in range(rng.randint(1, 3)):
                consume(iter(loader), dataset.bad, batch_size)


class IteratorsLeftWhileCollecting(_Storm):
    """Iterators are left at any point, by any thread, in cycles,
    while garbage is collected all the time.
    """

    @classmethod
    def set_up(cls):
        super().set_up()
        gc.set_threshold(1)

    def __init__(self, rng):
        self.lock = threading.Lock()
        self.left = []

    def step(self, thread, rng):
        for _ in range(10):
            if rng.random() < 0.3:
                loader = threaded(
                    Stream(SIZE, lambda i: torch.tensor([i])), batch_size=4, num_workers=2
                )
            else:
                loader = threaded(
                    Rows(rng.random(), slow=0.1),
                    batch_size=4,
                    num_workers=rng.randint(1, 3),
                    persistent_workers=rng.random() < 0.3,
                )
            iterator = iter(loader)
            for _ in range(rng.randint(0, 5)):
                next(iterator)
            way = rng.randrange(5)
            if way == 0:
                iterator.close()
            elif way == 1:
                cycle = [iterator, loader]
                cycle.append(cycle)
                del cycle
            elif way == 2:
                loader.dataset.iterator = iterator  # a cycle through what the workers use
            elif way == 3:
                with self.lock:
                    self.left.append(iterator)
                    rng.shuffle(self.left)
                    dropped = self.left.pop()
                del dropped
            del iterator, loader

    def check(self):
        self.left.clear()
        super().check()


class OneIteratorClosedByOthers(_Storm):
    """Three threads take from one iterator, which a fourth may close: each batch comes once."""

    threads = 2

    def step(self, thread, rng):
        for _ in range(4):
            persistent = rng.random() < 0.3
            loader = threaded(
                Rows(rng.random(), slow=0.2),
                batch_size=3,
                num_workers=2,
                persistent_workers=persistent,
            )
            iterator = iter(loader)
            seen, errors = [[], [], []], []

            def take(mine):
                try:
                    with contextlib.suppress(RuntimeError):  # was shut down
                        mine.extend(batch.flatten().tolist() for batch in iterator)
                except Exception as error:
                    errors.append(error)

            takers = [threading.Thread(target=take, args=(mine,)) for mine in seen]
            for taker in takers:
                taker.start()
            close = rng.random() < 0.5
            if close:
                time.sleep(rng.random() * 0.005)
                iterator.close()
            for taker in takers:
                taker.join()
            assert errors == []
            batches = sorted(sum(seen, []))
            everything = [[i, i + 1, i + 2] for i in range(0, SIZE, 3)]
            if close:
                assert all(batch in everything for batch in batches)
                assert len(batches) == len({batch[0] for batch in batches})
            else:
                assert batches == everything


class PersistentEpochsLeftEarly(_Storm):
    """Epochs of persistent workers are left early, with bad samples,
    in order and in whatever order.
    """

    def step(self, thread, rng):
        in_order = thread % 2 == 0
        dataset = Rows(rng.random(), failing=0.03, slow=0.1)
        loader = threaded(
            dataset,
            batch_size=2,
            num_workers=3,
            persistent_workers=True,
            in_order=in_order,
            collate_fn=lambda samples: default_collate(samples).flatten().tolist(),
        )
        good = [[i, i + 1] for i in range(0, SIZE, 2) if not {i, i + 1} & dataset.bad]
        for _ in range(10):
            leave_after = rng.choice([0, 1, 5, None])
            iterator, seen = iter(loader), []
            while leave_after is None or len(seen) < leave_after:
                try:
                    seen.append(next(iterator))
                except Odd:
                    continue
                except StopIteration:
                    break
            if leave_after is None:
                assert sorted(seen) == good
            if in_order:
                assert seen == good[: len(seen)]


class WorkerInfoIsTheWorkersAlone(_Storm):
    """get_worker_info() and torch.set_num_threads(1) of workers are seen by no other thread."""

    class Info(Rows):
        def __getitem__(self, index):
            info = get_worker_info()
            assert info.dataset is self
            assert torch.get_num_threads() == 1
            return index

    @classmethod
    def set_up(cls):
        super().set_up()
        torch.set_num_threads(2)
        assert torch.get_num_threads() == 2  # which torch settles at the first look

    def step(self, thread, rng):
        for _ in range(5):
            loader = threaded(self.Info(0), batch_size=5, num_workers=thread + 1)
            assert torch.cat(list(loader)).tolist() == [*range(SIZE)]
            assert get_worker_info() is None

    def check(self):
        super().check()
        found = []
        later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert found == [2]


class ForksWhileIterating(_Storm):
    """Children of any moment make iterators on the loader that is in use here, and end.

    One child of thousands waits for good for a lock that another thread held when it was forked: in
    the free-threaded build, GIL off or on, one of the interpreter's own (making a weak reference;
    in 3.13t a thread's first ``dict.get()`` of a dictionary that another has made, which waits for
    a lock it holds itself and is handed it at a moment in which a fork may come), no failure of the
    loader. With the GIL build it was seen once, and what the child waited for is unknown; POSIX
    promises the child of a threaded process little more than exec (fork(3p)). So a child that does
    not end is let go, but two of five are a failure, and what a child loads has to be right.
    """

    threads = 3
    known = (
        "a fork next to other threads can leave a lock of CPython's or of a C library "
        "taken in the child"
    )
    children = 5
    child_seconds = 20

    @classmethod
    def set_up(cls):
        super().set_up()
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork() in a process with threads
        cls.shared = threaded(Rows(0), batch_size=4, num_workers=2)

    def __init__(self, rng):
        self.forked = threading.Event()

    def step(self, thread, rng):
        if thread == 0:
            try:
                statuses = [self._fork() for _ in range(self.children)]
                assert (
                    set(statuses) <= {0, -signal.SIGALRM} and statuses.count(-signal.SIGALRM) <= 1
                ), statuses
            finally:
                self.forked.set()
            return
        while not self.forked.is_set():
            iterator = iter(self.shared)
            for _ in range(rng.randint(0, 6)):
                next(iterator)
            del iterator

    def _fork(self):
        """Return the exit status of a child that loads the first two batches."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(self.child_seconds)  # which ends it
                iterator = iter(self.shared)
                if [next(iterator).flatten().tolist() for _ in range(2)] == [
                    [0, 1, 2, 3],
                    [4, 5, 6, 7],
                ]:
                    status = 0
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
