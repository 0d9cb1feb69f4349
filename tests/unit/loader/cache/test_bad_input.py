"""Sources and disks that misbehave: a clear error or a stated policy, and never a wrong sample."""

import errno
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from ftloader.cache import CacheError, GrowingCache, Share, UrlSource
from ftloader.workers import exit as program_exit
from tests.unit.loader.cache.sources import (
    Failing,
    Numbered,
    check,
    check_whole,
    keys_of,
    require,
    until,
)
from tests.unit.loader.cache.test_store import on_disk

pytestmark = [
    pytest.mark.usefixtures("short_pauses"),
    pytest.mark.filterwarnings("ignore:the cache:RuntimeWarning"),
]


def test_a_sample_that_fails_is_tried_again(ready):
    source = Failing(10, lambda key, attempt: OSError("hiccup") if attempt < 3 else None)
    cache = ready(source, min_samples=10)
    check(cache)
    assert len(cache) == 10 and cache.statistics().retried == 20 and cache.statistics().failed == 0


def test_a_sample_that_always_fails_is_left_out_and_told_of_once(opened):
    bad = {"sample 3", "sample 5"}
    source = Failing(10, lambda key, attempt: OSError("lost") if key in bad else None)
    with pytest.warns(RuntimeWarning, match="could not get sample 'sample [35]'.*lost") as caught:
        cache = opened(source, min_samples=8, retries=2)
        until(cache, lambda _: cache._writer.fetchers.idle)
    assert {source.attempts[key] for key in bad} == {3} and cache.statistics().failed == 2
    cache.set_epoch(0)
    assert len([one for one in caught if "could not get" in str(one.message)]) == 1
    assert len(cache) == 8 and not bad & set(keys_of(cache))


def test_warnings_that_are_errors_end_no_fetcher(opened, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = opened(
            Failing(10, lambda key, _: OSError("lost") if key == "sample 0" else None),
            fetchers=1,
            retries=0,
        )
        until(cache, lambda _: cache._writer.fetchers.idle)
        cache.set_epoch(0)
    assert len(cache) == 9 and "RuntimeWarning: the cache" in capsys.readouterr().err


class Gives(Numbered):
    """Source whose samples are all *given*."""

    def __init__(self, count, given):
        super().__init__(count)
        self.given = given

    def read(self, key):
        return self.given


class Half(Failing):
    def keys(self):
        yield from super().keys()
        raise ConnectionError("half a listing")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        # SystemExit: threads that it ends die in silence.
        *(
            (
                Failing(count, lambda *_, error=error: error("no route")),
                f"fetching fails: no route.*{error.__name__}",
            )
            for count in (2, None)
            for error in (OSError, SystemExit)
        ),
        (
            Half(5, lambda *_: ConnectionError("no route")),
            "fetching fails: (no route|half a listing)",
        ),
        *(
            (Gives(3, given), "bytes-like|contiguous")
            for given in (None, "text", 7, [1, 2], memoryview(b"abcd")[::2])
        ),
        (Gives(2, bytes(2 << 20)), "larger than a quarter of the budget"),
    ],
)
def test_a_source_that_gives_nothing_that_can_be_kept(opened, source, error):
    with pytest.raises(CacheError, match=error):
        opened(source, retries=1).set_epoch(0)


@pytest.mark.parametrize("error", [None, PermissionError("not yours"), SystemExit("not yours")])
def test_keys_that_are_no_strings_or_fail(opened, error):
    class Odd(Numbered):
        def keys(self):
            self.reads.append("listing")
            if error is not None:
                raise error
            return range(3)

    # As a sample that cannot be had, also with many fetchers: tried again `retries` times.
    source = Odd(3)
    with pytest.raises(CacheError, match="not yours" if error else "a key must be a string"):
        opened(source, fetchers=200, retries=3).set_epoch(0)
    assert 4 <= len(source.reads) < 200


def test_keys_that_fail_half_way(opened):
    class Cut(Numbered):
        def keys(self):
            self.reads.append("listing")
            yield from super().keys()
            raise PermissionError("the rest is not yours")

    source = Cut(3)
    cache = opened(source, fetchers=100, retries=3, min_samples=4)
    with pytest.raises(
        CacheError, match="3 samples are there.*fetching fails: the rest is not yours"
    ):
        cache.set_epoch(0)
    # Far fewer than failures in a row of 100 fetchers that would tell (200),
    # however late this thread looks.
    assert source.reads.count("listing") < 150
    require(cache, 3)
    cache.set_epoch(0)
    check(cache)


def test_an_object_that_is_no_source(tmp_path, opened):
    with pytest.raises(TypeError, match="keys.. and read"):
        opened(["a", "b"])
    assert not (tmp_path / "cache").exists()


def test_buffers_of_any_kind_are_bytes(ready):
    class Arrays(Numbered):
        def read(self, key):
            return np.frombuffer(super().read(key), np.int32).reshape(2, 125)

    check(ready(Arrays(3)))


@pytest.mark.parametrize("format", ["segment", "tfrecord"])
def test_keys_of_any_kind(opened, format):
    long = "x" * 600_000
    names = ["a\0b", "a\nb", "../../etc/passwd", "/abs", "", ".", "..", "ü\u2028\udcff", "y" * 2000]

    class Odd(Numbered):
        def keys(self):
            return iter([*names, long, *names])

    source = Odd(None)
    with pytest.warns(RuntimeWarning, match="larger than a quarter of the budget") as caught:
        cache = opened(source, max_bytes=2 << 20, min_samples=len(names), format=format)
        until(cache, lambda _: cache._writer.fetchers.idle)
    assert len(str(caught[0].message)) < 1000
    for _ in range(2):
        cache.set_epoch(0)
        check(cache)
        assert sorted(keys_of(cache)) == sorted(names)
        assert sorted(key for key in source.reads if key != long) == sorted(names)
        cache.close()
        # from the disk
        cache = opened(Numbered(0), max_bytes=2 << 20, min_samples=len(names), format=format)


def test_a_full_disk_keeps_what_is_there_and_goes_on_when_it_can(opened, disk):
    directory = disk(2 << 20)
    ballast = directory / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    source = Numbered(60, size=20_000)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache = opened(source, directory / "cache", max_bytes=4 << 20, min_samples=5, fetchers=2)
        until(cache, lambda _: cache._writer.fetchers.failing)
        cache.set_epoch(0)
    check(cache)
    there = len(cache)
    assert 5 <= there < 60
    ballast.unlink()
    until(cache, lambda _: cache._writer.fetchers.complete)
    check_whole(cache, source, 1)
    assert sorted(source.reads) == sorted(source.keys())  # none was fetched twice


def test_a_full_disk_at_the_start_is_an_error(opened, disk):
    directory = disk(1 << 20)
    ballast = directory / "ballast"
    ballast.write_bytes(bytes((1 << 20) - 4 * 4096))
    with pytest.raises(OSError, match="No space left"):
        opened(Numbered(60, size=20_000), directory / "cache", max_bytes=4 << 20)
    os.truncate(ballast, (1 << 20) - 32 * 4096)
    with pytest.raises(CacheError, match="No space left"):
        opened(
            Numbered(60, size=20_000), directory / "cache", max_bytes=4 << 20, min_samples=9
        ).set_epoch(0)


@pytest.mark.parametrize("format", ["segment", "tfrecord"])
@pytest.mark.parametrize(
    ("source", "directory"),
    [
        ("data", "data"),
        ("data", "data/.cache"),
        ("data", "data/a/b"),
        ("cache/data", "cache"),
        ("data", "link/cache"),
    ],
)
@pytest.mark.parametrize("address", ["{}", "file://{}", "simplecache::file://{}"])
def test_a_directory_inside_its_source_is_refused(tmp_path, source, directory, address, format):
    """Report: mosaicml/streaming#988, Lightning-AI/litData#489.
    The cache's own files became samples.
    """
    (tmp_path / source).mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    (tmp_path / source / "sample").write_bytes(b"1")
    whole = UrlSource(address.format(tmp_path / source))
    for each in (whole, Share(whole, 0, 1)):
        with pytest.raises(
            ValueError, match="lie one in the other: .*Take a directory beside the folder: "
        ):
            GrowingCache(each, tmp_path / directory, max_bytes=1 << 20, format=format)
    assert not (tmp_path / directory / "ftcache.writer").exists()


def test_a_source_that_lists_its_caches_files_is_told(tmp_path, opened):
    class Folder:
        def keys(self):
            return sorted(
                str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
            )

        def read(self, key):
            return (tmp_path / key).read_bytes()

    (tmp_path / "a sample").write_bytes(b"1")
    cache = opened(Folder(), "cache", min_samples=2, retries=0)
    with pytest.raises(
        CacheError, match="a file of the cache: take a directory outside the source"
    ):
        cache.set_epoch(0)
    assert cache.statistics().samples <= 1


def test_a_directory_that_cannot_be_written(tmp_path, opened):
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        opened(Numbered(1), tmp_path / "file" / "cache")
    with pytest.raises(OSError):
        opened(Numbered(1), "/proc/none/cache")


@pytest.mark.parametrize(
    "lacking", ["fcntl.flock", "os.replace", "os.posix_fallocate", "os.fdatasync"]
)
def test_a_file_system_that_lacks_a_call(opened, ready, monkeypatch, lacking):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, f"no {lacking} here")

    with monkeypatch.context() as patching:
        patching.setattr(lacking, refuse)
        if lacking != "os.fdatasync":
            with pytest.raises(OSError, match=f"no {lacking} here"):
                opened(Numbered(5))
        else:  # what was not synced is checked by the next writer
            cache = ready(Numbered(5))
            check(cache)
            with pytest.warns(
                RuntimeWarning, match=f"a file onto the disk: OSError: .* no {lacking} here"
            ):
                cache.close()
    check_whole(opened(Numbered(5), min_samples=5), Numbered(5), 0)  # nothing is locked


@pytest.mark.parametrize("format", ["segment", "tfrecord"])
@pytest.mark.parametrize("where", ["set_epoch", "a fetcher"])
def test_a_segment_that_cannot_be_ended_is_fetched_again(opened, ready, monkeypatch, format, where):
    source = Numbered(4 if where == "set_epoch" else 30, size=20_000)
    failed, ftruncate, main = [], os.ftruncate, threading.main_thread()

    def truncate(fd, length):
        if not failed and (threading.current_thread() is main) == (where == "set_epoch"):
            failed.append(os.fstat(fd).st_ino)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return ftruncate(fd, length)

    monkeypatch.setattr(os, "ftruncate", truncate)
    with warnings.catch_warnings(record=True):
        cache = opened(source, max_bytes=16 << 20, min_samples=1, fetchers=1, format=format)
        until(cache, lambda _: cache._writer.fetchers.idle)
    if where == "set_epoch":
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            cache.set_epoch(0)
        assert cache.statistics().samples == 0
    assert failed and cache.statistics().bytes_used >= on_disk(cache._directory)
    require(cache, source.count)
    for _ in range(2):
        check_whole(cache, source, 1)
        assert cache.statistics().bytes_used >= on_disk(cache._directory)
        cache.close()
        cache = opened(source, max_bytes=16 << 20, min_samples=source.count, format=format)


@pytest.mark.parametrize(("action", "told"), [("always", pytest.warns), ("error", pytest.raises)])
def test_a_source_that_never_answers_is_named_and_leaves_no_lock(opened, monkeypatch, action, told):
    monkeypatch.setattr(program_exit, "JOIN_LIMIT", 0.2)
    gate, asked = threading.Event(), threading.Event()

    class Silent(Numbered):
        def read(self, key):
            asked.set()
            return super().read(key)

    cache = opened(Silent(5, gate=gate), fetchers=1)
    try:
        assert asked.wait(60)
        with told(RuntimeWarning, match="cache-fetcher-0 did not end(.|\n)*in read"):
            warnings.simplefilter(action)
            cache.close()
        assert not cache._writer.store._lock.held
    finally:
        gate.set()
        for thread in cache._writer.fetchers.threads:
            thread.join()


def test_a_segment_that_somebody_overwrote_ends_no_fetcher(ready):
    source = Numbered(5)
    cache = ready(source, min_samples=5, fetchers=1)
    for path in Path(cache._directory).glob("*.segment"):
        path.write_bytes(b"of another program" * 10)
    source.count = 7
    with pytest.warns(
        RuntimeWarning, match="a file onto the disk: CacheError: .* of another program"
    ):
        cache.set_epoch(1)
        until(cache, lambda now: now.samples == 7 and cache._writer.fetchers.idle)
