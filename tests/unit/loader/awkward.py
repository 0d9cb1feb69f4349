"""A dataset and a sampler that are awkward to load from, and a loop that goes on after exceptions."""

from torch.utils.data import Dataset


class Failing(Dataset):
    """Raises *error* for one of its samples."""

    def __init__(self, error, size=20, at=7):
        self.error, self.size, self.at = error, size, at

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == self.at:
            self.explode()
        return index

    def explode(self):
        raise self.error


class ReusedList:
    """A batch sampler that yields the same list each time, filled anew."""

    def __iter__(self):
        batch = []
        for start in range(0, 40, 5):
            batch[:] = range(start, start + 5)
            yield batch

    def __len__(self):
        return 8


def drain(iterator):
    """All batches of *iterator* as lists, and the exceptions between them."""
    batches, errors = [], []
    while True:
        try:
            batches.append(next(iterator).tolist())
        except StopIteration:
            return batches, errors
        except BaseException as error:
            errors.append(error)
