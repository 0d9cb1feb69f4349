"""Arguments that the constructor accepts and refuses, and the worker method that they choose."""

import inspect
import multiprocessing
import os
import pickle
import re
import sys
import warnings

import pytest
import torch
import torch.utils.data

import ftloader
from ftloader import DataLoader, cache, datasets, decode
from ftloader.compat.patch import REPLACED
from ftloader.iterators.processes import ProcessDataLoaderIter
from ftloader.iterators.serial import SerialDataLoaderIter
from ftloader.iterators.threads import ThreadDataLoaderIter

ROWS = torch.arange(12)


def test_is_a_torch_dataloader_with_all_its_arguments():
    assert issubclass(DataLoader, torch.utils.data.DataLoader)
    ours = inspect.signature(DataLoader).parameters
    torchs = inspect.signature(torch.utils.data.DataLoader).parameters
    assert list(ours)[: len(torchs)] == list(torchs)
    assert {"worker_method", "on_error", "snapshot_every_n_steps"} <= set(ours) - set(torchs)
    assert all(ours[name] == torchs[name] for name in torchs)


def test_version_and_names():
    assert re.fullmatch(r"\d+\.\d+\.\d+", ftloader.__version__)
    assert ftloader.get_worker_info is torch.utils.data.get_worker_info
    for module in (ftloader, cache, datasets, decode):
        assert module.__all__ and all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("bad", ["threads", "", None, 1])
def test_unknown_worker_method_names_the_choices(bad):
    with pytest.raises(ValueError, match="'auto', 'thread', 'process'"):
        DataLoader(ROWS, worker_method=bad)


def test_worker_method_is_checked_when_set_later():
    dl = DataLoader(ROWS)
    with pytest.raises(ValueError, match="worker_method"):
        dl.worker_method = "fiber"
    assert dl.worker_method == "auto"


@pytest.mark.parametrize("context", ["fork", multiprocessing.get_context("spawn")])
def test_multiprocessing_context_with_threads_is_an_error(context):
    with pytest.raises(ValueError, match="multiprocessing_context"):
        DataLoader(ROWS, num_workers=1, worker_method="thread", multiprocessing_context=context)
    dl = DataLoader(ROWS, num_workers=1, worker_method="thread")
    with pytest.raises(ValueError, match="multiprocessing_context"):
        dl.multiprocessing_context = context
    dl = DataLoader(ROWS, num_workers=1, multiprocessing_context=context)
    with pytest.raises(ValueError, match="multiprocessing_context"):
        dl.worker_method = "thread"


THREADS, PROCESSES, SERIAL = ThreadDataLoaderIter, ProcessDataLoaderIter, SerialDataLoaderIter
ON, OFF = (PROCESSES, "processes: the GIL is on"), (THREADS, "threads: the GIL is off")


@pytest.mark.parametrize(
    ("gil", "arguments", "taken", "why"),
    [
        (None, {}, *(ON if sys._is_gil_enabled() else OFF)),
        (True, {}, *ON),
        (False, {}, *OFF),
        (
            False,
            {"multiprocessing_context": "fork"},
            PROCESSES,
            "processes: multiprocessing_context is given",
        ),
        (True, {"worker_method": "thread"}, THREADS, None),
        (False, {"worker_method": "process"}, PROCESSES, None),
        (False, {"num_workers": 0}, SERIAL, None),
        (False, {"num_workers": 0, "worker_method": "thread"}, SERIAL, None),
    ],
)
def test_auto_follows_the_gil_and_the_context_and_says_so(
    gil, arguments, taken, why, monkeypatch, caplog
):
    if gil is not None:
        monkeypatch.setattr("sys._is_gil_enabled", lambda: gil)
    with caplog.at_level("INFO", "ftloader"):
        iterator = iter(DataLoader(ROWS, **{"num_workers": 1} | arguments))
    assert type(iterator) is taken
    assert torch.equal(torch.cat(list(iterator)), ROWS)
    assert caplog.messages == ([f"worker_method='auto' takes {why}"] if why else [])


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [(0, ValueError, "prefetch_factor must be at least 1"), (1.5, TypeError, "float")],
)
def test_a_prefetch_factor_that_is_no_number_of_batches_is_an_error_with_threads(bad, error, words):
    dl = DataLoader(ROWS, num_workers=1, prefetch_factor=bad, worker_method="thread")
    with pytest.raises(error, match=words):
        iter(dl)


def test_guarded_attributes_stay_guarded():
    dl = DataLoader(ROWS, worker_method="thread", num_workers=1)
    for name in ("batch_size", "sampler", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match="should not be set after"):
            setattr(dl, name, getattr(dl, name))


def test_too_many_workers_are_announced_as_threads():
    many = os.process_cpu_count() + 1
    # torch's words: people filter warnings by them.
    words = (
        f"This DataLoader will create {many} worker threads in total. Our suggested max "
        f"number .* excessive worker"
    )
    with pytest.warns(UserWarning, match=f"^{words} creation might get") as caught:
        DataLoader(ROWS, num_workers=many, worker_method="thread")
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match=f"{many} worker processes in total") as caught:
        DataLoader(ROWS, num_workers=many, worker_method="process")
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(ROWS, num_workers=1, worker_method="thread")


def test_an_iterator_cannot_be_pickled():
    with iter(DataLoader(ROWS, num_workers=1, worker_method="thread")) as iterator:
        with pytest.raises(NotImplementedError):
            pickle.dumps(iterator)


IMPORTS = """
    import sys
    import types
    import torch.utils.data.graph_settings

    def code_of(value):
        return value.__code__ if type(value) is types.FunctionType else None

    def attributes_of_torch():
        attributes = {}
        for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"]:
            for name, value in list(vars(module).items()):
                place = f"{module.__name__}.{name}"
                if not issubclass(type(value), types.ModuleType):
                    attributes[place] = value, code_of(value)
                if issubclass(type(value), type):
                    for member, inner in list(vars(value).items()):
                        attributes[f"{place}.{member}"] = inner, code_of(inner)
        return attributes

    gil, modules, before = sys._is_gil_enabled(), set(sys.modules), attributes_of_torch()
    import ftloader
    assert sys._is_gil_enabled() == gil
    new = {name for name in set(sys.modules) - modules if name.partition(".")[0] == "torch"}
    assert not new, f"import these at the start of this program: {new}"
    for place, (value, code) in attributes_of_torch().items():
        earlier_value, earlier_code = before.get(place, (None, None))
        if value is not earlier_value:
            print(place)
        elif code is not earlier_code:  # the function has several places
            print(f"{value.__module__}.{value.__qualname__}")
"""


@pytest.mark.slow
def test_importing_leaves_the_gil_alone_and_replaces_in_torch_what_is_listed(run_with_torch):
    status, printed, errors = run_with_torch(IMPORTS)
    assert (status, errors) == (0, "")
    assert sorted(set(printed.split())) == sorted(REPLACED)
