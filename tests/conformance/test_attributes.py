"""The loader as an object: its length, attributes, copies and subclasses are those of torch's."""

import copy
import pickle
import warnings

import pytest
import torch
import torch.utils.data

from ftloader import DataLoader
from tests.datasets import Rows, Stream

# Length


class Sized(Stream):
    def __init__(self, says, gives):
        super().__init__(gives)
        self.says = says

    def __len__(self):
        return self.says


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": b, "drop_last": d} for b in (1, 2, 3) for d in (False, True)]
    + [{"batch_size": None}],
    ids=str,
)
def test_len_of_iterable_style(arguments, light_workers):
    ours = DataLoader(Sized(10, 10), **arguments, **light_workers)
    assert len(ours) == len(torch.utils.data.DataLoader(Sized(10, 10), **arguments))


@pytest.mark.parametrize(
    ("says", "fewer"), [(3, {}), (8, {}), (9, {}), (100, {}), (8, {"num_workers": 1})]
)
def test_warnings_about_a_wrong_len_are_torchs(says, fewer, workers):
    found = []
    for cls, more in ((DataLoader, workers | fewer), (torch.utils.data.DataLoader, {})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dl = cls(Sized(says, 9), batch_size=None, **more)
            assert len(dl) == says
            assert sorted(dl) == [*range(9)]
        about = [w for w in caught if "Length of IterableDataset" in str(w.message)]
        if cls is DataLoader:
            assert {(w.filename, w.category) for w in about} <= {(__file__, UserWarning)}
        texts = [str(w.message) for w in about]
        found.append(
            [text.partition(" was reported to be ")[2].partition(". ")[0] for text in texts]
        )
    assert found[0] == found[1]
    assert len(found[0]) == max(0, 9 - says)


def test_no_len(workers):
    dl = DataLoader(Stream(), **workers)
    with pytest.raises(TypeError, match="Stream"):
        len(dl)


# Attributes, copies


ATTRIBUTES = (
    "dataset num_workers prefetch_factor pin_memory pin_memory_device timeout worker_init_fn "
    "in_order batch_size drop_last generator persistent_workers multiprocessing_context collate_fn "
    "_dataset_kind _auto_collation _index_sampler _iterator _is_pickled"
).split()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[1]]},
        {"num_workers": 2},
        {
            "num_workers": 2,
            "prefetch_factor": 4,
            "persistent_workers": True,
            "timeout": 3,
            "in_order": False,
        },
        {"pin_memory": True, "pin_memory_device": "", "collate_fn": list, "worker_init_fn": print},
    ],
    ids=str,
)
def test_attributes_are_torchs(arguments):
    rows = Rows()
    ours, torchs = DataLoader(rows, **arguments), torch.utils.data.DataLoader(rows, **arguments)
    for name in ATTRIBUTES:
        if hasattr(torchs, name) and name != "_index_sampler":
            assert getattr(ours, name) == getattr(torchs, name), name
    assert type(ours.sampler) is type(torchs.sampler)
    assert type(ours.batch_sampler) is type(torchs.batch_sampler)
    assert set(vars(torchs)) <= set(vars(ours))


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda dl: pickle.loads(pickle.dumps(dl))]
)
def test_copies(duplicate, when, light_workers):
    dl = DataLoader(Rows(), batch_size=6, **light_workers)
    iterator = iter(dl)
    if when != "before":
        next(iterator)
    if when == "after":
        list(iterator)
    twin = duplicate(dl)
    assert twin.worker_method == dl.worker_method
    assert torch.cat(list(twin)).tolist() == torch.cat(list(dl)).tolist() == [*range(20)]


def test_subclass_with_its_own_arguments(light_workers):
    """Lightning and PyTorch Geometric have such subclasses."""

    class Own(DataLoader):
        def __init__(self, dataset, extra, **arguments):
            self.extra = extra
            arguments.pop("collate_fn", None)
            super().__init__(dataset, collate_fn=self.collate, **arguments)

        def collate(self, samples):
            return torch.tensor(samples) * self.extra

    dl = Own(Rows(4), 10, batch_size=2, **light_workers)
    assert [batch.tolist() for batch in dl] == [[0, 10], [20, 30]]
