"""Fixtures for the cache's tests."""

import subprocess
import threading

import pytest

from ftloader.cache import GrowingCache, fetchers


@pytest.fixture(autouse=True)
def _no_fetcher_left():
    yield
    assert [thread for thread in threading.enumerate() if thread.name.startswith("cache-fetcher")] == []


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(fetchers, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(fetchers, "LONGEST_PAUSE", 0.01)


@pytest.fixture
def opened(tmp_path):
    """``opened(source, **arguments)``: a cache of 4 MiB, closed after the test."""
    caches = []

    def make(source, directory="", **arguments):
        arguments = {"max_bytes": 4 << 20, "fetchers": 2} | arguments
        caches.append(GrowingCache(source, tmp_path / (directory or "cache"), **arguments))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


@pytest.fixture
def disk(tmp_path):
    """``disk(size)``: a directory on a file system that has so many bytes."""
    mounted = []

    def mount(size):
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
