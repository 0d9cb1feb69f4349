"""Fixtures for the loader's tests."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["thread", "process"])
def worker_method(request) -> str:
    return request.param


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("loader-worker")]


@pytest.fixture(name="loader_threads")
def loader_threads_fixture() -> Callable[[], list[threading.Thread]]:
    """The worker threads that exist at the moment of the call."""
    return loader_threads


@pytest.fixture(autouse=True)
def no_worker_thread_left():
    """Whatever a test does, its worker threads are gone afterwards."""
    yield
    # More than one collection, since a worker refers to the dataset (and through it,
    # maybe, to the iterator) until it has finished the sample in hand.
    deadline = time.monotonic() + 10
    while loader_threads() and time.monotonic() < deadline:
        gc.collect()
        for thread in loader_threads():
            thread.join(0.1)
    assert loader_threads() == []


@pytest.fixture
def start_python(tmp_path):
    """Starts a program in a fresh interpreter, in this one's GIL mode, as a user would:
    ``start_python(source, stdin=False) -> subprocess.Popen``. Killed after the test if it
    still runs."""
    started = []

    def start(source: str, stdin: bool = False) -> subprocess.Popen:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        process = subprocess.Popen(
            [sys.executable, str(script)],
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
