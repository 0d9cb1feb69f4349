"""Datasets with a state; iterable-style ones of every kind.

The kinds differ in what a state from the end of a pass means.
A sample names its pass, worker and place."""

import threading

from torch.utils.data import IterableDataset, get_worker_info

from tests.datasets import Rows

SIZES = (10, 3)
"""Samples of each of two workers. With batches of 2 the second ends early,
in a batch that is not full.
"""


def sample(epoch, worker_id, i):
    return 1000 * epoch + 100 * worker_id + i


def share():
    """Return this worker's number and its number of samples; all samples without workers."""
    info = get_worker_info()
    return (0, sum(SIZES)) if info is None else (info.id, SIZES[info.id])


class Documented(IterableDataset):
    """Stream as in torchdata's tests: its generator's end resets the position
    and counts the pass.
    """

    def __init__(self):
        self.i = self.epoch = 0
        self.resume = None

    def __iter__(self):
        worker_id, size = share()
        self.i, self.resume = self.resume or 0, None
        for i in range(self.i, size):
            self.i += 1
            yield sample(self.epoch, worker_id, i)
        self.i = 0
        self.epoch += 1

    def state_dict(self):
        return {"i": self.i, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.resume, self.epoch = state["i"], state["epoch"]


class CountsAtBegin(Documented):
    """Stream that keeps its position at the end, and counts a pass where it begins."""

    def __iter__(self):
        worker_id, size = share()
        if self.resume is None:
            self.i = 0
            self.epoch += 1
        else:
            self.i, self.resume = self.resume, None
        for i in range(self.i, size):
            self.i += 1
            yield sample(self.epoch, worker_id, i)


class ItsOwnIterator(IterableDataset):
    """Stream that is its own iterator, and starts over after its end."""

    def __init__(self):
        self.i = self.epoch = 0

    def __iter__(self):
        self.worker_id, self.size = share()
        return self

    def __next__(self):
        if self.i == self.size:
            self.i = 0
            self.epoch += 1
            raise StopIteration
        self.i += 1
        return sample(self.epoch, self.worker_id, self.i - 1)

    def state_dict(self):
        return {"i": self.i, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.i, self.epoch = state["i"], state["epoch"]


class Stream(ItsOwnIterator):
    """Stream that never starts over: each pass is a further piece."""

    def __next__(self):
        self.i += 1
        epoch, place = divmod(self.i, self.size + 1)
        if place == 0:
            raise StopIteration
        return sample(epoch, self.worker_id, place - 1)


class Iterator:
    def __init__(self, epoch):
        self.epoch, self.i = epoch, 0
        self.worker_id, self.size = share()

    def __iter__(self):
        return self

    def __next__(self):
        if self.i == self.size:
            raise StopIteration
        self.i += 1
        return self.give()

    def give(self):
        return sample(self.epoch, self.worker_id, self.i - 1)

    def state_dict(self):
        return {"i": self.i}

    def load_state_dict(self, state):
        self.i = state["i"]


class WithIterator(IterableDataset):
    """Stream that counts passes, while its iterator knows the position."""

    def __init__(self):
        self.epoch = 0

    def __iter__(self):
        self.epoch += 1
        return Iterator(self.epoch)

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"] - 1  # iter() comes next


class OnlyIterator(IterableDataset):
    """Stream without a state, whose iterator has one: all passes are the same."""

    def __iter__(self):
        return Iterator(0)


# Not an attribute of the dataset, since locks cannot be pickled.
COUNTING = threading.Lock()


class Counting(Rows):
    """Map-style dataset that counts its samples."""

    loaded = 0

    def __getitem__(self, index):
        with COUNTING:
            self.loaded += 1
            return index, self.loaded

    def state_dict(self):
        return {"loaded": self.loaded}

    def load_state_dict(self, state):
        self.loaded = state["loaded"]


KINDS = [Documented, CountsAtBegin, ItsOwnIterator, Stream, WithIterator, OnlyIterator]
