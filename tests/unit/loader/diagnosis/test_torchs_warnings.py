"""torch's own warnings about a loader name the line of the program, not one of this package."""

import os
import warnings

import pytest
import torch

from ftloader import DataLoader

WORKERS = pytest.mark.parametrize("method, workers", [("thread", 0), ("thread", 1), ("process", 1)])
no_accelerator = pytest.mark.skipif(
    torch.accelerator.is_available(), reason="there is an accelerator to pin for"
)


def lines(caught, words: str) -> list[tuple[str, type]]:
    return [(w.filename, w.category) for w in caught if words in str(w.message)]


@no_accelerator
@WORKERS
def test_memory_that_cannot_be_pinned(method, workers):
    with pytest.warns(UserWarning) as caught:
        list(DataLoader([1, 2], pin_memory=True, num_workers=workers, worker_method=method))
    assert lines(caught, "no accelerator is found") == [(__file__, UserWarning)]


@WORKERS
def test_a_device_to_pin_for(method, workers):
    with pytest.warns(UserWarning) as caught:
        loader = DataLoader(
            [1],
            pin_memory=True,
            pin_memory_device="cuda",
            num_workers=workers,
            worker_method=method,
        )
        list(loader)
    assert lines(caught, "pin_memory_device is deprecated") == [(__file__, UserWarning)]


class Unsendable:
    """Dataset that cannot be sent to a process."""

    def __len__(self):
        return 1

    def __reduce__(self):
        raise TypeError("stays here")


def test_a_dataset_that_cannot_be_sent():
    loader = DataLoader(
        Unsendable(), num_workers=1, worker_method="process", multiprocessing_context="spawn"
    )
    with pytest.warns(UserWarning) as caught, pytest.raises(TypeError, match="stays here"):
        iter(loader)
    assert lines(caught, "pickle error") == [(__file__, UserWarning)]


def test_torchs_own_loader_warns_where_it_did():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.utils.data.DataLoader([1], num_workers=os.process_cpu_count() + 1)
    assert [w.filename for w in caught] == [torch.utils.data.dataloader.__file__]
