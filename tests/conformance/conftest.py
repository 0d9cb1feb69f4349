"""Fixtures of the conformance tests: kinds of workers, and comparison with torch's own loader."""

import collections.abc

import numpy as np
import pytest
import torch
import torch.utils.data

from ftloader import DataLoader
from ftloader.iterators.auto import Chosen
from ftloader.workers import exit as program_exit
from tests.outcomes import outcomes

# A machine that stands still for some seconds is no failure.
program_exit.JOIN_LIMIT = 60.0

PROCESSES = pytest.mark.thread_unsafe(
    reason="forks, which must not happen while other threads run tests"
)
SERIAL = {"num_workers": 0}
THREADS = {"num_workers": 2, "worker_method": "thread"}
AUTO = {"num_workers": Chosen(2), "worker_method": "thread"}  # "auto" with two CPUs
COPIES = THREADS | {"copy_dataset": True}
PROCESS = {"num_workers": 2, "worker_method": "process"}


@pytest.fixture(
    params=[
        pytest.param(SERIAL, id="serial"),
        pytest.param(THREADS, id="thread"),
        pytest.param(AUTO, id="auto"),
        pytest.param(COPIES, id="copies"),
        pytest.param(PROCESS, id="process", marks=PROCESSES),
    ]
)
def workers(request) -> dict:
    """Return arguments of DataLoader: no workers, worker threads, threads by "auto", threads with
    a copy of the dataset each, worker processes in turn.
    """
    return dict(request.param)


@pytest.fixture(
    params=[
        pytest.param(SERIAL, id="serial"),
        pytest.param(THREADS, id="thread"),
        pytest.param(AUTO, id="auto"),
    ]
)
def light_workers(request) -> dict:
    """As ``workers`` without processes, for tests with many cases."""
    return dict(request.param)


@pytest.fixture(
    params=[
        pytest.param(THREADS, id="thread"),
        pytest.param(COPIES, id="copies"),
        pytest.param(PROCESS, id="process", marks=PROCESSES),
    ]
)
def real_workers(request) -> dict:
    """As ``workers``, with at least one worker."""
    return dict(request.param)


@pytest.fixture(autouse=True)
def _no_worker_thread_left(no_worker_thread_left):
    """Use the fixture of tests/conftest.py for every conformance test."""


@pytest.fixture(autouse=True, scope="module")
def _restless_tuner(restless_tuner):
    """Use the fixture of tests/conftest.py for every test here."""


@pytest.fixture(autouse=True, scope="module")
def _small_arrays_have_slots(small_arrays_have_slots):
    """Use the fixture of tests/conftest.py for every test here."""


def assert_same(ours, torchs, where="batch"):
    """Check that both are equal in type, structure, dtype,
    layout, strides and every visible bit.
    """
    assert type(ours) is type(torchs), f"{where}: {type(ours)} is not {type(torchs)}"
    if isinstance(torchs, torch.Tensor) and torchs.is_nested:
        assert_same(ours.unbind(), torchs.unbind(), where)
    elif isinstance(torchs, torch.Tensor):
        assert (ours.dtype, ours.shape, ours.layout) == (
            torchs.dtype,
            torchs.shape,
            torchs.layout,
        ), where
        assert ours.requires_grad == torchs.requires_grad, where
        assert ours.is_leaf == torchs.is_leaf, where
        if hasattr(torchs, "has_names") and torchs.has_names():  # not in newer torch
            assert ours.names == torchs.names, where
            ours, torchs = ours.rename(None), torchs.rename(None)  # which can be compared
        if torchs.layout is torch.strided:
            assert ours.stride() == torchs.stride(), where
        torch.testing.assert_close(
            ours, torchs, rtol=0, atol=0, equal_nan=True, msg=lambda text: f"{where}: {text}"
        )
    elif isinstance(torchs, np.ndarray):
        assert (ours.dtype, ours.shape) == (torchs.dtype, torchs.shape), where
        assert np.array_equal(ours, torchs), where
    elif isinstance(torchs, collections.abc.Mapping):
        assert list(ours) == list(torchs), where
        for key in torchs:
            assert_same(ours[key], torchs[key], f"{where}[{key!r}]")
    elif isinstance(torchs, collections.abc.Sequence) and not isinstance(
        torchs, (str, bytes, bytearray)
    ):
        assert len(ours) == len(torchs), where
        for number, (a, b) in enumerate(zip(ours, torchs, strict=True)):
            assert_same(a, b, f"{where}[{number}]")
    else:
        assert ours == torchs or (ours != ours and torchs != torchs), (
            f"{where}: {ours!r} is not {torchs!r}"
        )


def assert_same_outcomes(ours: list, torchs: list):
    """Check that all batches are the same, and all errors the same in type and message.

    Worker processes put the worker's traceback around the message, as torch's own do.
    """
    kinds = [type(o).__name__ if isinstance(o, Exception) else "batch" for o in ours]
    assert kinds == [type(o).__name__ if isinstance(o, Exception) else "batch" for o in torchs]
    for number, (a, b) in enumerate(zip(ours, torchs, strict=True)):
        if isinstance(b, Exception):
            assert str(b) in str(a), f"outcome {number}"
        else:
            assert_same(a, b, f"batch {number}")


@pytest.fixture(name="assert_same", scope="session")
def assert_same_fixture():
    return assert_same


@pytest.fixture(name="outcomes", scope="session")
def outcomes_fixture():
    return outcomes


@pytest.fixture(scope="session")
def assert_like_torch():
    """Return ``assert_like_torch(dataset, workers, **arguments)``, which compares an epoch with
    torch's serial loader.

    *dataset* may be a function that makes one."""

    def check(dataset, workers, **arguments):
        make = dataset if callable(dataset) else lambda: dataset
        torchs = outcomes(torch.utils.data.DataLoader(make(), **arguments))
        ours = outcomes(DataLoader(make(), **workers, **arguments))
        assert_same_outcomes(ours, torchs)
        return ours

    return check
