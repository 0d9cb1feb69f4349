"""Fixtures for the cache's tests."""

import contextlib
import threading

import pytest

from ftloader.cache import GrowingCache, fetchers
from ftloader.cache.store import Store
from tests.unit.loader.cache.web_server import serving


@pytest.fixture(autouse=True)
def _no_fetcher_left():
    yield
    assert [
        thread for thread in threading.enumerate() if thread.name.startswith("cache-fetcher")
    ] == []


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(fetchers, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(fetchers, "LONGEST_PAUSE", 0.01)


@pytest.fixture
def opened(tmp_path):
    """Return ``opened(source, **arguments)``, which makes a cache
    of 4 MiB and closes it after the test.
    """
    caches = []

    def make(source, directory="", **arguments):
        arguments = {"max_bytes": 4 << 20, "fetchers": 2} | arguments
        caches.append(GrowingCache(source, tmp_path / (directory or "cache"), **arguments))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


@pytest.fixture
def ready(opened):
    """Return ``ready(source, **arguments)``, which sets epoch 0,
    once all of a source with an end is there.
    """

    def make(source, *directory, **arguments):
        cache = opened(
            source, *directory, **{"min_samples": getattr(source, "count", None) or 1} | arguments
        )
        cache.set_epoch(0)
        return cache

    return make


@pytest.fixture
def server(tmp_path):
    """A web server of the directory "served", which is empty."""
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        yield server


@pytest.fixture
def open_store(tmp_path):
    """Return ``open_store()``, which opens the directory "cache" with 4 MiB,
    and closes it after the test.
    """
    with contextlib.ExitStack() as stores:

        def make(max_bytes=4 << 20):
            store = Store(str(tmp_path / "cache"), max_bytes)
            stores.callback(store.close)
            return store

        yield make


@pytest.fixture
def store(open_store):
    return open_store()
