"""Memory of batches, as a process sees it: page faults and resident memory,
next to torch's DataLoader.
"""

import resource
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data

from ftloader import DataLoader
from tests.datasets import Rows


def torchs(*args, **more):
    return torch_data.DataLoader(*args, **more, multiprocessing_context="fork")


def threads(*args, **more):
    return DataLoader(*args, **more, worker_method="thread")


@pytest.mark.parametrize("leaves", [1, 8])
@pytest.mark.slow
def test_the_memory_of_several_large_arrays_is_faulted_in_once(leaves):
    pattern = np.random.default_rng(0).integers(0, 255, (320, 320, 3), np.uint8)
    images = Rows(
        16, lambda index: [pattern + np.uint8(16 * leaf + index) for leaf in range(leaves)]
    )

    def faults(loader_class, epochs):
        """Yield the page faults of each epoch, which has an iterator of its own. New threads may
        get new memory.
        """
        loader = loader_class(images, 4, num_workers=2)
        for _ in range(epochs):
            before = page_faults()
            for batch in loader:
                assert [leaf.shape for leaf in batch] == [(4, 320, 320, 3)] * leaves
                batch = None
            yield page_faults() - before

    (expected,) = faults(torchs, 1)
    assert min(list(faults(threads, 8))[2:]) < expected / 20


def page_faults():
    """Return the page faults of this process and of its children that have ended."""
    return sum(
        resource.getrusage(who).ru_minflt
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="needs Linux's account of a process's memory"
)
@pytest.mark.parametrize("loader_class", [torchs, threads])
@pytest.mark.slow
def test_the_memory_of_shapes_that_do_not_come_any_more_is_given_back(loader_class):
    """The sizes grow and shrink from epoch to epoch, as in progressive resizing."""
    mebibytes = torch.zeros(16, 1 << 20, dtype=torch.uint8)
    rows = Rows(24, lambda index: mebibytes[:side])  # no memory but the batches' is taken
    loader = loader_class(rows, 4, num_workers=1)
    resident = []
    for side in (1, 10, 12, *[1] * 6):
        for batch in loader:
            assert batch.shape == (4, side, 1 << 20)
            batch = None
        resident.append(
            int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
        )
    assert resident[-1] - resident[0] < 64, resident
