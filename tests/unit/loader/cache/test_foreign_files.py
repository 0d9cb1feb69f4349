"""Files in the cache's directory that are not the cache's, or not what the cache wrote."""

import fcntl
import os
import zlib

import pytest

from ftloader.cache import CacheError, CorruptSampleError, segment, sharing
from ftloader.cache.store import Store
from tests.unit.loader.cache.test_store import MIB, add, keys, publish


def test_files_of_others_are_left_alone(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    directory = tmp_path / "data"
    directory.mkdir()
    theirs = ("train-00000.tfrecord", "notes.segment", "writer", "turn")
    for name in theirs:
        (directory / name).write_text(name)
    store = Store(str(directory), 4 * MIB)
    add(store, 1)
    store.close()
    assert tuple((directory / name).read_text() for name in theirs) == theirs
    (directory / "ftcache.writer").unlink()
    (directory / "ftcache.writer").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        Store(str(directory), 4 * MIB)
    assert victim.read_text() == "precious"


def test_pins_of_others_are_left_alone(store):
    for name in ("board.pins", "0123abcd.pins"):
        open(os.path.join(store.directory, name), "w").close()
    ours = os.path.join(store.directory, "0123456789abcdef.pins")  # of a reader that died
    open(ours, "w").close()
    assert sharing.pinned_by_readers(store.directory) == set()
    assert not os.path.exists(ours) and {"board.pins", "0123abcd.pins"} < set(
        os.listdir(store.directory)
    )


def test_pipes_in_the_place_of_small_files_are_not_waited_for(store):
    add(store, 1)
    publish(store)
    store.close()
    for name in ("ftcache.writer", "ftcache.turn"):
        os.unlink(os.path.join(store.directory, name))
        os.mkfifo(os.path.join(store.directory, name))
    assert sharing.published(store.directory) == {}
    with pytest.raises(CacheError, match="nobody writes"):
        sharing.wait_for_epoch(store.directory, 0)


@pytest.mark.parametrize("kind", ["pipe", "not text", "endless"])
def test_pins_that_hold_anything_pin_nothing(store, kind):
    path = os.path.join(store.directory, "0123456789abcdef.pins")
    if kind == "pipe":
        os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    if kind == "not text":
        os.write(fd, b"\xff\xfe one")
    if kind == "endless":
        os.truncate(fd, 1 << 40)
    fcntl.flock(fd, fcntl.LOCK_EX)  # a reader that lives
    assert sharing.pinned_by_readers(store.directory) == (
        {"\ufffd\ufffd", "one"} if kind == "not text" else set()
    )
    os.close(fd)


@pytest.mark.parametrize(
    "text", ["[]", "5", '{"segments": 5}', '{"segments": [[1]]}', "[" * 70_000, "\x89\x00"]
)
def test_a_damaged_snapshot_is_none(store, open_store, text):
    add(store, 1)
    store.close()
    with open(os.path.join(store.directory, "ftcache.writer"), "w") as file:
        file.write(text)
    assert sharing.published(store.directory) == {}
    with open(os.path.join(store.directory, "ftcache.writer"), "a") as file:
        # with the right checksum, too
        file.write(f"\n{zlib.crc32(text.encode())}")
    assert sharing.published(store.directory) == {}
    assert keys(publish(open_store()).segments) == [1]


def test_the_largest_number_of_a_segment(store):
    open(os.path.join(store.directory, f"{10**10 - 1}-0123abcd{segment.SUFFIX}"), "w").close()
    store.close()
    for number in (1, 2):
        again = Store(store.directory, 4 * MIB)
        assert keys(again.newest(4 * MIB)) == list(range(1, number))
        add(again, number)
        again.close()


@pytest.mark.parametrize("sealed", [True, False])
def test_a_link_in_a_segment_s_place_is_not_followed(store, tmp_path, sealed):
    add(store, 1)
    snapshot = publish(store)
    store.close()
    (name,) = segment.names_in(store.directory)
    path, victim = os.path.join(store.directory, name), tmp_path / "victim"
    os.rename(path, victim)
    if not sealed:
        os.truncate(victim, os.stat(victim).st_size - 20)
    before = victim.read_bytes()
    os.symlink(victim, path)
    with pytest.raises(CorruptSampleError, match="symbolic"):
        snapshot.segments[0].read(0)
    with pytest.raises(CacheError, match="symbolic"):
        segment.load(store.directory, name)
    with pytest.raises(OSError, match="symbolic"):
        Store(store.directory, 4 * MIB)
    assert victim.read_bytes() == before


def test_a_pipe_in_a_segment_s_place_is_not_waited_for(store):
    add(store, 1)
    snapshot = publish(store)
    store.close()
    one = snapshot.segments[0]
    os.unlink(one.path)
    os.mkfifo(one.path)
    with pytest.raises(CorruptSampleError, match="shorter than it should be"):
        one.read(0)
    with pytest.raises(CacheError, match="cannot be read"):
        segment.load(store.directory, one.name)
    with pytest.raises(OSError, match=one.name):
        Store(store.directory, 4 * MIB)
    os.unlink(one.path)
    os.mkdir(one.path)
    with pytest.raises(IsADirectoryError, match=one.name):
        Store(store.directory, 4 * MIB)
