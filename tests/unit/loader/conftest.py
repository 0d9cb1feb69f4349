"""Fixtures for the loader's tests."""

import pytest

from ftloader.workers import exit as program_exit

# A machine that stands still for some seconds is no failure.
# Programs that the tests start have the default.
program_exit.JOIN_LIMIT = 60.0


@pytest.fixture(params=["thread", "process"])
def worker_method(request) -> str:
    return request.param


@pytest.fixture
def gil_is_off(monkeypatch):
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False)


@pytest.fixture(autouse=True)
def _no_worker_thread_left(no_worker_thread_left):
    """Use the fixture of tests/conftest.py for every test here."""


@pytest.fixture(autouse=True, scope="module")
def _small_arrays_have_slots(small_arrays_have_slots):
    """Use the fixture of tests/conftest.py for every test here."""
