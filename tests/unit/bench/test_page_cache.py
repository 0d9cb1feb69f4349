"""Files are dropped from the page cache, and what is left of them is known."""

import os

import pytest

from ftbench.machine import page_cache
from ftbench.machine.page_cache import NotDropped, drop_all, resident


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "probe").write_bytes(os.urandom(1 << 20))
    try:
        drop_all([tmp_path / "probe"])
    except NotDropped as error:
        pytest.skip(str(error))
    return tmp_path


def test_a_file_that_is_read_is_resident_and_one_that_is_dropped_is_not(directory):
    path = directory / "data"
    path.write_bytes(os.urandom(4 << 20))
    assert resident(path) > 0.9
    assert drop_all([path]) <= page_cache.LEFT_OVER
    path.read_bytes()
    assert resident(path) > 0.9


def test_a_file_that_is_in_memory_stays_and_that_is_said(tmp_path, monkeypatch):
    """As on a file system in memory, which ignores the request."""
    path = tmp_path / "data"
    path.write_bytes(b"x" * (1 << 20))
    path.read_bytes()
    monkeypatch.setattr(page_cache, "drop", lambda path: None)
    with pytest.raises(NotDropped, match="stay in the page cache .* FT_BENCH_CACHE"):
        drop_all([path])


def test_empty_and_missing_files(tmp_path):
    (tmp_path / "empty").touch()
    assert resident(tmp_path / "empty") == 0
    with pytest.raises(FileNotFoundError):
        page_cache.drop(tmp_path / "none")


def test_files_of_others_are_dropped_unseen(directory, monkeypatch):
    """The kernel says of them that all is resident, whatever is."""
    path = directory / "data"
    path.write_bytes(b"x" * (1 << 20))
    monkeypatch.setattr(page_cache.os, "access", lambda path, mode: False)
    assert resident(path) is None and drop_all([path]) == 0
