"""The loader: what users do to iterators, from several threads."""

import threading

import numpy as np
import torch

from ftloader import DataLoader
from tests.stress.engine import Scenario

SIZE = 24


class Rows:
    """``self[i]`` is i, many times."""

    def __init__(self, size=SIZE, width=16):
        self.size, self.width = size, width

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        return torch.full((self.width,), float(index))


def indices(batch):
    """Return the indices in *batch*, and check that each row is whole."""
    assert (batch == batch[:, :1]).all()
    return batch[:, 0].int().tolist()


def threaded(dataset, **options):
    return DataLoader(
        dataset, **{"batch_size": 4, "num_workers": 2, "worker_method": "thread", **options}
    )


class ConcurrentIterators(Scenario):
    """All threads iterate one loader, each with its own iterator."""

    def __init__(self, rng):
        self.loader = threaded(
            Rows(), num_workers=rng.randint(1, 3), prefetch_factor=rng.randint(1, 3)
        )

    def step(self, thread, rng):
        assert sum(map(indices, self.loader), []) == list(range(SIZE))


class Odd(Exception):
    """Raised by a callback of `OddCallbacks`."""


class OddCallbacks(Rows):
    """Dataset, sampler and callbacks of a loader. The one called *where* raises Odd at sample *bad*."""

    def __init__(self, where, bad):
        super().__init__()
        self.where, self.bad = where, bad

    def __getitem__(self, index):
        if self.where in ("dataset", "on_error") and index == self.bad:
            raise Odd(index)
        return super().__getitem__(index)

    def sampler(self):
        for index in range(SIZE):
            if index == self.bad:
                raise Odd(index)
            yield index

    def collate(self, samples):
        if self.where == "collate" and self.bad in [int(sample[0]) for sample in samples]:
            raise Odd(self.bad)
        return torch.stack(samples)

    def init(self, worker):
        if self.where == "init" and worker == 0:
            raise Odd(worker)

    def on_error(self, error, index):
        raise Odd(index) from error

    def loader(self):
        return threaded(
            self,
            sampler=self.sampler() if self.where == "sampler" else range(SIZE),
            collate_fn=self.collate,
            worker_init_fn=self.init,
            on_error=self.on_error if self.where == "on_error" else "raise",
        )


class ExceptionsInCallbacks(Scenario):
    """Each callback of the loader raises once, somewhere; it arrives, and nothing is stuck."""

    def step(self, thread, rng):
        where = rng.choice(["dataset", "collate", "sampler", "init", "on_error", "length"])
        callbacks = OddCallbacks(where, rng.randrange(SIZE))
        seen, raised = [], False
        try:
            for batch in callbacks.loader():
                seen += indices(batch)
        except Odd:
            raised = True
        assert raised == (where != "length"), where
        assert seen == list(range(len(seen)))


class ResizingDatasets(Scenario):
    """A dataset shrinks and grows while it is loaded:
    samples are whole or an IndexError, never a hang.
    """

    def __init__(self, rng):
        self.dataset = Rows(200)
        self.loader = threaded(self.dataset, prefetch_factor=1)

    def step(self, thread, rng):
        if thread == 0:
            for _ in range(10):
                self.dataset.size = rng.choice([5, 50, 200])
            return
        seen = []
        try:
            for batch in self.loader:
                seen += indices(batch)
        except IndexError as error:
            assert error.args[0] >= 5
        assert seen == list(range(len(seen)))


class SharedGenerators(Scenario):
    """One torch.Generator for the loaders of all threads: every epoch is a permutation still."""

    def __init__(self, rng):
        self.generator = torch.Generator().manual_seed(rng.randrange(2**32))

    def step(self, thread, rng):
        loader = threaded(Rows(), shuffle=True, generator=self.generator)
        assert sorted(sum(map(indices, loader), [])) == list(range(SIZE))


class BuffersUnderFire(Scenario):
    """Batches, views and arrays of them are held for a while,
    over epochs; none is ever written again.
    """

    def __init__(self, rng):
        self.loader = threaded(Rows(width=3000), batch_size=4)
        self.held, self.lock = [], threading.Lock()

    def step(self, thread, rng):
        for batch in self.loader:
            first = indices(batch)[0]
            form = rng.choice(
                [
                    lambda b: b,
                    lambda b: b[1:],
                    lambda b: b.numpy(),
                    lambda b: np.asarray(b)[::2],
                    None,
                ]
            )
            if form is not None:
                with self.lock:
                    self.held.append((first, batch.shape[0], form, form(batch)))
                    dropped = (
                        self.held.pop(rng.randrange(len(self.held))) if len(self.held) > 6 else None
                    )
                del dropped
            del batch

    def check(self):
        for first, count, form, data in self.held:
            expected = form(
                torch.arange(first, first + count).float()[:, None].expand(count, 3000).contiguous()
            )
            assert np.array_equal(np.asarray(data), np.asarray(expected))


class StatesWhileRunning(Scenario):
    """state_dict() is asked for between batches while other iterators of other loaders run."""

    def step(self, thread, rng):
        stop = rng.randint(1, 5)
        first = threaded(Rows())
        iterator = iter(first)
        for _ in range(stop):
            next(iterator)
        second = threaded(Rows(), num_workers=rng.randint(1, 3))
        second.load_state_dict(first.state_dict())
        assert sum(map(indices, second), []) == list(range(4 * stop, SIZE))
