"""One writer and the readers of its snapshots: in this process, where locks of files keep them
apart as well, and in another one, which is killed."""

import contextlib
import itertools
import os
import signal
import threading

import pytest

from ftloader import DataLoader
from ftloader.cache import CacheError, CorruptSampleError, GrowingCache, sharing
from ftloader.distributed import DistributedSampler
from tests.unit.loader.cache.sources import Numbered, check, check_whole, content, keys_of, until


@pytest.fixture
def cache(opened):
    # A quarter for each of the writer's and the reader's epochs,
    # which may differ: half is there to evict.
    return opened(Numbered(None, size=20_000), max_bytes=1 << 20, pin=0.25)


@pytest.fixture
def reader(tmp_path, cache):
    with GrowingCache(None, tmp_path / "cache") as reader:
        yield reader


def next_epoch(cache, epoch):
    """Set the epoch when the rest of the budget is full."""
    until(cache, lambda _: cache._writer.store.full)
    cache.set_epoch(epoch)


def pins(directory):
    return [name for name in os.listdir(directory) if name.endswith(".pins")]


@pytest.mark.slow
def test_readers_wait_for_the_writer_s_epochs(cache, reader):
    seen = []

    def read():
        for epoch in range(4):
            reader.set_epoch(epoch)
            check(reader)
            seen.append(keys_of(reader))
            arrived.release()

    arrived = threading.Semaphore(0)
    thread = threading.Thread(target=read)
    thread.start()
    expected = []
    for epoch in range(4):
        next_epoch(cache, epoch)
        expected.append(keys_of(cache))
        assert arrived.acquire(timeout=600)
    thread.join()
    assert seen == expected and len({tuple(keys) for keys in seen}) > 1


def test_what_a_slow_reader_reads_is_not_evicted(cache, reader):
    cache.set_epoch(0)
    reader.set_epoch(0)
    for epoch in range(1, 5):
        next_epoch(cache, epoch)
    until(cache, lambda _: cache._writer.store.evictions)
    check(reader)


def test_a_writer_that_ends_is_told_of(cache, reader):
    timer = threading.Timer(0.1, cache.close)
    timer.start()
    with pytest.raises(CacheError, match="nobody writes to the cache .* so there is no epoch 0"):
        reader.set_epoch(0)
    timer.join()


def test_epochs_that_differ(cache, reader, opened):
    cache.set_epoch(0)
    reader.set_epoch(0, at_most=1)
    assert keys_of(reader) == keys_of(cache)[:1]
    reader.load_state_dict(cache.state_dict())
    assert keys_of(reader) == keys_of(cache)
    assert f"{len(cache)} in this epoch" in str(reader.statistics())
    cache.set_epoch(2)
    with pytest.raises(CacheError, match="at epoch 2 already, not at 1"):
        reader.set_epoch(1)
    cache.close()
    # another run, which has set no epoch yet
    again = opened(Numbered(None, size=20_000), max_bytes=1 << 20)
    timer = threading.Timer(0.1, again.set_epoch, [2])
    timer.start()
    reader.set_epoch(2)  # not the one that the first run left
    timer.join()
    assert keys_of(reader) == keys_of(again)


@pytest.mark.slow
def test_a_reader_that_the_writer_overtakes_is_told_of_that(cache, reader, monkeypatch):
    """The writer sets the next epoch, and evicts segments,
    just before the reader has pinned them.
    """
    next_epoch(cache, 0)
    write = sharing.Pins.write

    def late(pins, text):
        for epoch in 1, 2, 3:
            next_epoch(cache, epoch)
        write(pins, text)

    with (
        monkeypatch.context() as patching,
        pytest.raises(CacheError, match="at epoch 3 already, not at 0"),
    ):
        patching.setattr(sharing.Pins, "write", late)
        reader.set_epoch(0)
    reader.set_epoch(3)
    check(reader)


def test_what_is_being_written_is_no_snapshot(cache, reader, monkeypatch):
    """Neither system call is atomic: a reader can see a part
    of the new snapshot followed by the old one.
    """
    cache.set_epoch(0)
    path, half, pwrite = os.path.join(cache._directory, "ftcache.writer"), [], os.pwrite

    def write(fd, data, offset):
        if os.path.sameopenfile(fd, writer.fileno()):
            for count in range(400):
                pwrite(fd, data[:count], offset)
                half.append(sharing.published(cache._directory))
        return pwrite(fd, data, offset)

    before = sharing.published(cache._directory)
    with open(path) as writer, monkeypatch.context() as patching:
        patching.setattr(os, "pwrite", write)
        next_epoch(cache, 1)
    after = sharing.published(cache._directory)
    assert (
        before["segments"] != after["segments"]
        and [one for one in half if one not in ({}, before, after)] == []
    )
    reader.set_epoch(1)
    assert keys_of(reader) == keys_of(cache)


@pytest.mark.slow
def test_a_rank_that_is_killed_leaves_no_pins(cache, tmp_path):
    cache.set_epoch(0)
    reading, writing = os.pipe()
    rank = os.fork()
    if not rank:
        try:
            signal.alarm(100)  # ends the process
            reader = GrowingCache(None, tmp_path / "cache")
            reader.set_epoch(0)
            check(reader)
            os.write(writing, "\n".join(keys_of(reader)).encode())
            os.close(writing)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading) as file:
        assert file.read().split("\n") == keys_of(cache)
    first = set(keys_of(cache))
    assert len(pins(tmp_path / "cache")) == 1
    os.kill(rank, signal.SIGKILL)
    os.waitpid(rank, 0)
    for epoch in range(1, 4):
        next_epoch(cache, epoch)
    assert (
        not first & set(keys_of(cache))
        and cache._writer.store.evictions
        and not pins(tmp_path / "cache")
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_reader_finds_damaged_is_fetched_again(ready, opened, tmp_path, restarted):
    source = Numbered(5)
    cache = ready(source)
    with GrowingCache(None, tmp_path / "cache") as reader:
        reader.set_epoch(0)
        with open(reader._current.segments[0].path, "r+b") as file:
            file.seek(60)
            file.write(b"\0\0\0\0")
        with pytest.raises(CorruptSampleError):
            check(reader)
    if restarted:
        cache.close()
        cache = opened(source, min_samples=5)
    check_whole(cache, source, 1)
    assert len(source.reads) == 10 and not [
        name for name in os.listdir(cache._directory) if "damaged" in name
    ]


def test_ranks_that_join_in_the_middle_of_an_epoch(cache, tmp_path):
    """A job of one rank goes on with three: the new ones take up the snapshot,
    and their share of the rest.
    """

    def samples(loader, batches=None):
        return [
            bytes(row) for batch in itertools.islice(iter(loader), batches) for row in batch.numpy()
        ]

    def make(dataset, ranks, rank, size):
        sampler = DistributedSampler(dataset, ranks, rank)
        return DataLoader(dataset, size, sampler=sampler, num_workers=2, worker_method="thread")

    next_epoch(cache, 0)
    alone = make(cache, 1, 0, 4)
    given = samples(alone, 2)
    state, snapshot = alone.state_dict(), cache.state_dict()
    for rank in range(3):
        with contextlib.ExitStack() as closing:
            reader = (
                cache
                if rank == 0
                else closing.enter_context(GrowingCache(None, tmp_path / "cache"))
            )
            reader.load_state_dict(snapshot)
            loader = make(reader, 3, rank, 2)
            loader.load_state_dict(state)
            given += samples(loader)
    assert sorted(set(given)) == sorted(content(key, 20_000) for key in keys_of(cache))
    assert len(given) - len(cache) < 3


def test_a_reader_where_no_cache_is(tmp_path):
    with GrowingCache(None, tmp_path) as cache, pytest.raises(CacheError, match="is no cache"):
        cache.set_epoch(0)
