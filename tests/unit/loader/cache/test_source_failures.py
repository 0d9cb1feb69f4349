"""What the user is told when a source fails: the tables of docs/cache.md, a test for each row."""

import dataclasses
import itertools
import os
import re
import shutil
import warnings

import fsspec
import pytest

from ftloader.cache import CacheError, GrowingCache, UrlSource
from tests.unit.loader.cache.sources import Numbered, check, content, keys_of, until
from tests.unit.loader.cache.web_server import serving

pytestmark = pytest.mark.usefixtures("short_pauses")

LISTING = ("/x/", "/x")


@pytest.fixture
def three(server):
    """The server's address, with a.bin, b.bin and deep/c.bin below it."""
    (server.directory / "x" / "deep").mkdir(parents=True)
    for key in ("a.bin", "b.bin", "deep/c.bin"):
        (server.directory / "x" / key).write_bytes(content(key, 500))
    return f"{server.address}/x/"


def set_epoch(cache, epoch):
    """Set the epoch. Return what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache.set_epoch(epoch)
    return [str(one.message) for one in caught if "the cache" in str(one.message)]


def fail_listing(cache):
    """List the source again, and wait until that has failed."""
    failed = cache.statistics().failed_listings
    cache._writer.fetchers.look_again()
    until(cache, lambda now: now.failed_listings > failed)


LISTINGS = {
    **{status: str(status) for status in (401, 403, 429, 500, 503)},
    404: "there is no directory http",
    302: "redirect",
    "cut short": "payload|not enough data|IncompleteRead",
}


@pytest.mark.parametrize("status", LISTINGS)
def test_a_web_server_that_fails_at_the_first_listing(opened, server, three, status):
    server.failing = dict.fromkeys(LISTING, status)
    with pytest.raises(
        CacheError, match=f"(?is)0 samples are there.*fetching fails: .*({LISTINGS[status]})"
    ):
        opened(three, retries=1).set_epoch(0)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x/", "http://no-such-host.invalid/x/"])
def test_a_web_server_that_is_not_there(opened, url):
    with pytest.raises(
        CacheError, match="(?s)0 samples are there.*fetching fails: .*Cannot connect to host"
    ):
        opened(url, retries=1).set_epoch(0)


def test_an_empty_page_is_an_empty_source(opened, server, three):
    server.failing = dict.fromkeys(LISTING, "empty")
    with pytest.raises(CacheError, match="the source has no more"):
        opened(three, retries=1).set_epoch(0)


@pytest.mark.parametrize("status", LISTINGS)
def test_a_web_server_that_fails_at_a_later_listing(opened, server, three, status):
    cache = opened(three, min_samples=3)
    assert set_epoch(cache, 0) == []
    server.failing = dict.fromkeys(LISTING, status)
    fail_listing(cache)
    (told,) = set_epoch(cache, 1)
    assert re.search(
        f"(?is)could not list its source: .*({LISTINGS[status]}).*samples that are there already",
        told,
    )
    fail_listing(cache)
    assert set_epoch(cache, 2) == [] and len(cache) == 3
    check(cache)
    server.failing = {}
    until(cache, lambda _: cache._writer.fetchers.complete)
    assert set_epoch(cache, 3) == [] and cache.statistics().trouble == ""


def test_a_web_server_that_ends_and_comes_back(opened, server, three):
    with serving(server.directory) as first:
        first.closes = True  # else its last connections live on
        port, cache = first.server_port, opened(f"{first.address}/x/", min_samples=3)
        cache.set_epoch(0)
    fail_listing(cache)
    assert "Cannot connect" in "".join(set_epoch(cache, 1))
    with serving(server.directory, port, dict.fromkeys(LISTING, 503)) as server:
        until(cache, lambda now: "503" in now.trouble)
        assert "503" in "".join(set_epoch(cache, 2))  # another reason
        server.failing = {}
        until(cache, lambda now: cache._writer.fetchers.complete)
        assert set_epoch(cache, 3) == []
        server.failing = dict.fromkeys(LISTING, 503)
        fail_listing(cache)
        assert "503" in "".join(set_epoch(cache, 4))
    assert re.search("the source could not be listed [0-9]+ times", str(cache.statistics()))


@pytest.mark.parametrize("status", [404, 503])
def test_a_page_below_that_fails(opened, server, three, status):
    server.failing = dict.fromkeys(("/x/deep/", "/x/deep"), status)
    cache = opened(three, min_samples=2)
    if status == 503:
        until(cache, lambda now: now.samples == 2 and now.failed_listings)
    assert ["503" in one for one in set_epoch(cache, 0)] == ([True] if status == 503 else [])
    assert sorted(keys_of(cache)) == ["a.bin", "b.bin"]
    until(cache, lambda now: cache._writer.fetchers.complete)  # an epoch has all that can be had
    server.failing = {}
    cache._writer.fetchers.look_again()
    until(cache, lambda now: now.samples == 3 and cache._writer.fetchers.complete)
    assert set_epoch(cache, 1) == [] and len(cache) == 3


READS = {
    **{status: f"answers {status}" for status in (401, 403, 404, 429, 500, 503)},
    302: "redirects more than 5 times",
    "cut short": "IncompleteRead",
}


@pytest.mark.parametrize("status", READS)
def test_a_web_server_that_fails_at_a_read(opened, server, three, status):
    server.failing = {"/x/a.bin": status}
    with pytest.warns(RuntimeWarning, match=f"could not get sample 'a.bin': .*{READS[status]}"):
        cache = opened(three, retries=1)
        until(cache, lambda _: cache._writer.fetchers.idle)
    cache.set_epoch(0)
    assert sorted(keys_of(cache)) == ["b.bin", "deep/c.bin"] and cache.statistics().failed == 1


def test_a_directory_that_is_unmounted_and_mounted_again(ready, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}").write_bytes(content(f"{number}", 500))
    cache = ready(str(folder), min_samples=3)
    os.rename(folder, tmp_path / "away")
    fail_listing(cache)
    assert "there is no directory" in "".join(set_epoch(cache, 1))
    check(cache)
    os.rename(tmp_path / "away", folder)
    until(cache, lambda _: cache._writer.fetchers.complete)
    assert set_epoch(cache, 2) == []


@pytest.mark.parametrize("where", ["", "deep"])
def test_a_directory_that_may_not_be_listed(opened, tmp_path, monkeypatch, where):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (tmp_path / "data" / name).write_bytes(content(name, 500))
    scandir, refused = os.scandir, os.path.join(tmp_path, "data", where).rstrip("/")

    def scan(path):  # root may list anything, so modes do not do
        if str(path).rstrip("/") == refused:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    cache = opened(str(tmp_path / "data"), retries=1, max_unlisted=1)
    if not where:
        with pytest.raises(CacheError, match="fetching fails: .*Permission denied"):
            cache.set_epoch(0)
        return
    until(cache, lambda now: now.samples == 1 and now.failed_listings)
    assert "Permission denied" in "".join(set_epoch(cache, 0)) and keys_of(cache) == ["a"]
    until(cache, lambda _: cache._writer.fetchers.complete)
    for epoch in (1, 2, 3):  # the same reason is told once, and does not count for max_unlisted
        assert set_epoch(cache, epoch) == [] and keys_of(cache) == ["a"]


def test_links_in_a_circle_are_no_failure(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"1")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data" / "loop")
    assert "a" in set(UrlSource(str(tmp_path / "data")).keys())


def test_a_directory_of_fsspec_s_memory_that_is_emptied(ready):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/emptied/0", content("0", 300))
    cache = ready("memory://emptied", min_samples=1)
    check(cache)
    memory.rm("/emptied", recursive=True)  # as in a store without directories: empty, not gone
    assert set_epoch(cache, 1) == [] and len(cache) == 1


class Dying(Numbered):
    """Source whose listing raises ``error``, if that is set, after *after* keys."""

    error, after = None, 0

    def keys(self):
        yield from itertools.islice(super().keys(), self.after if self.error else None)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("after", [0, 2])
def test_an_own_source_that_dies(opened, after):
    source = Dying(5)
    cache = opened(source, min_samples=5)
    assert set_epoch(cache, 0) == []
    source.error, source.after = RuntimeError("the database is down"), after
    fail_listing(cache)
    assert "RuntimeError: the database is down" in "".join(set_epoch(cache, 1))
    assert set_epoch(cache, 2) == [] and cache.statistics().failed == 0
    source.error = None
    until(cache, lambda _: cache._writer.fetchers.complete)
    assert set_epoch(cache, 3) == [] and "database" not in cache.statistics().trouble


def test_a_listing_without_an_end_after_one_that_failed(opened):
    """What counts is whether keys come, not whether the listing has ended."""

    class Endless(Dying):
        def keys(self):
            yield from super().keys()
            yield from map(str, itertools.count(5))

    source = Endless(5)
    source.error = OSError("the server starts")
    cache = opened(source, min_samples=1, max_unlisted=1)
    until(cache, lambda now: now.failed_listings)
    source.error = None
    until(cache, lambda now: now.samples)
    for epoch in range(3):
        assert set_epoch(cache, epoch) == []


def test_an_error_after_as_many_epochs_as_are_allowed(ready):
    source = Dying(5)
    cache = ready(source, min_samples=5, max_unlisted=2)
    source.error = OSError("no route")
    fail_listing(cache)
    assert len(set_epoch(cache, 1)) == 1 and set_epoch(cache, 2) == []
    with pytest.raises(
        CacheError, match="not be listed for 3 epochs, and max_unlisted=2: OSError: no route"
    ):
        cache.set_epoch(3)
    check(cache)
    source.error = None
    until(cache, lambda _: cache._writer.fetchers.complete)
    assert set_epoch(cache, 3) == [] and cache.epoch == 3


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("s3//x/y", "s3://x/y"),
        ("s3:/x/y", "s3://x/y"),
        ("http//host/x", "http://host/x"),
        ("file//x", "file://x"),
    ],
)
def test_an_address_that_lacks_a_part(tmp_path, written, meant):
    with pytest.raises(
        ValueError, match=re.escape(f"was '{meant}' meant? Else write './{written}'")
    ):
        GrowingCache(written, tmp_path / "cache", 4 << 20)
    assert not (tmp_path / "cache").exists()


def test_directories_with_such_names_are_sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("s3/x")
    shutil.copy(__file__, "s3/x/a")
    for path in ("s3/x", "./s3//x", f"{tmp_path}//s3/x"):
        assert list(UrlSource(path).keys()) == ["a"]


@pytest.mark.parametrize(
    ("used", "whole", "expected"),
    [
        (400_000, 50e6, "400 kB of 50 MB"),
        (5_100_000, 50e6, "5.1 MB of 50 MB"),
        (0, 50e6, "0 bytes of 50 MB"),
        (131_072, 1 << 20, "131 kB of 1 MB"),
        (1.25e12, 2e12, "1.2 TB of 2 TB"),
        (199e9, 200e9, "199 GB of 200 GB"),
    ],
)
def test_units_suit_the_size(ready, used, whole, expected):
    cache = ready(Numbered(4))
    now = dataclasses.replace(cache.statistics(), bytes_used=int(used), max_bytes=int(whole))
    assert f"; {expected};" in str(now)
