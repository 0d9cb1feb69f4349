"""The directory of a cache: the budget, eviction, and one writer."""

import contextlib
import itertools
import linecache
import os
import sys
import threading

import pytest

from ftloader.cache import CacheError, sharing
from ftloader.cache import store as store_module
from ftloader.cache.files import disk_usage
from ftloader.cache.formats import FORMATS
from ftloader.cache.store import Snapshot, Store
from tests.unit.loader.cache.sources import content

MIB = 1 << 20


def add(store, *numbers, size=10_000):
    for number in numbers:
        key = f"sample {number}"
        assert store.claim(key)
        assert store.add(key, content(key, size))


def publish(store, most_bytes=2 * MIB, epoch=0):
    snapshot = Snapshot(epoch, store.newest(most_bytes))
    store.publish(snapshot)
    return snapshot


def keys(segments):
    return [int(key.split()[1]) for one in segments for key in one.keys]


def on_disk(directory):
    return sum(disk_usage(entry.stat()) for entry in os.scandir(directory))


def test_samples_come_back_in_their_order(store):
    add(store, *range(50))
    snapshot = publish(store)
    assert keys(snapshot.segments) == list(range(50)) and len(snapshot) == 50
    for index in (0, 17, 49, -1):
        one, row = snapshot.find(index)
        assert one.read(row) == content(one.keys[row], 10_000)
    for index in (50, -51):
        with pytest.raises(IndexError):
            snapshot.find(index)


def test_a_key_is_claimed_once(store):
    assert store.claim("a") and not store.claim("a")
    store.give_up("a")
    assert store.claim("a") and store.add("a", b"1")
    assert not store.claim("a")


def test_the_newest_are_in_a_snapshot_and_the_oldest_are_evicted(store):
    add(store, *range(200))
    first = publish(store, MIB)
    assert keys(first.segments)[-1] == 199 and 80 < len(first) < 105
    # beside the snapshot's 1 MiB there is place for these, and not for the first
    add(store, *range(200, 460))
    assert store.evictions > 0
    second = publish(store, 4 * MIB)
    assert set(keys(first.segments)) < set(keys(second.segments))
    assert 0 not in keys(second.segments) and store.claim("sample 0")
    assert on_disk(store.directory) <= 4 * MIB


def test_who_finds_no_room_waits_for_the_next_snapshot(store):
    added = []

    def fill():
        for number in range(10**6):
            key = f"sample {number}"
            store.claim(key)
            if not store.add(key, content(key, 10_000)):
                return
            added.append(number)

    thread = threading.Thread(target=fill)
    thread.start()
    with store.changed:
        store.changed.wait_for(lambda: store.full)
    there = len(added)
    assert there * 10_000 > 3 * MIB and store.evictions == 0  # nobody has had them yet
    publish(store)
    with store.changed:
        store.changed.wait_for(lambda: store.full)
    assert len(added) > there and store.evictions > 0
    store.stop()
    thread.join()
    assert store.waited > 0 and on_disk(store.directory) <= 4 * MIB


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
@pytest.mark.slow
def test_the_budget_is_kept_by_the_byte(disk, format):
    """The file system is as large as the budget: one byte too many would be an error."""
    directory = disk(2 * MIB)
    store = Store(str(directory), 2 * MIB, format)
    errors = []

    def fill(first):
        try:
            for number in itertools.count(first, 4):
                key = f"sample {number}"
                store.claim(key)
                if not store.add(key, content(key, hash(key) % 30_000)):
                    return
        except BaseException as error:
            with store.changed:
                errors.append(error)
                store.changed.notify_all()

    threads = [threading.Thread(target=fill, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for epoch in range(60):
        with store.changed:
            store.changed.wait_for(lambda: store.full or errors)
        publish(store, MIB, epoch)
    store.stop()
    for thread in threads:
        thread.join()
    store.close()
    assert not errors and store.evictions > 500
    free = os.statvfs(directory)
    assert (free.f_blocks - free.f_bfree) * free.f_frsize <= 2 * MIB


def test_one_writer(store):
    words = (
        rf"process {os.getpid()} writes to the cache(.|\n)*another\s+job needs a directory "
        rf"of its own"
    )
    with pytest.raises(CacheError, match=words):
        Store(store.directory, 4 * MIB)
    store.close()
    Store(store.directory, 4 * MIB).close()


def test_a_disk_that_fails_at_the_end_leaves_no_lock(store, open_store, monkeypatch):
    add(store, 1)

    def refuse(*_):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patching:
        patching.setattr("os.ftruncate", refuse)
        with pytest.raises(OSError, match="the disk is gone"):
            store.close()
    assert open_store().claim("sample 1")  # it is fetched again


def test_ctrl_c_at_any_line_is_no_hindrance_to_closing(tmp_path):
    """Ctrl-C comes at any line that the thread that sets epochs runs,
    but some of compound statements.
    """
    number, ended = 0, False
    while not ended:
        number += 1
        left = number

        def trace(frame, event, _):
            nonlocal left
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).split()
            if event == "line" and line[0] not in ("with", "try:", "finally:", "except"):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace if frame.f_code.co_filename == store_module.__file__ else None

        store = Store(str(tmp_path / f"{number}"), 4 * MIB)
        add(store, 1)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            store.newest(4 * MIB)
            ended = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        store.close()
        again = Store(store.directory, 4 * MIB)
        assert keys(again.newest(4 * MIB)) == [1]
        again.close()
    assert number > 15


def test_closing_waits_for_writes_and_other_closing(store, open_store, monkeypatch):
    """One thread writes to a segment that is full, two close: the lock is held until all has
    reached the disk.
    """
    begun, go_on, synced, sync, pwrite = (
        threading.Event(),
        threading.Event(),
        [],
        os.fdatasync,
        os.pwrite,
    )
    slow = content("sample 0", 20_000)

    def write(fd, data, offset):
        if bytes(data) == slow:
            begun.set()
            assert go_on.wait(60)
        return pwrite(fd, data, offset)

    def synchronise(fd):
        synced.append(store._lock.held)
        if len(synced) == 1:
            second.start()
            second.join(0.2)  # it waits; if a change let it end here, the test would fail
            synced.append(store._lock.held)
        return sync(fd)

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "fdatasync", synchronise)
    writer = threading.Thread(target=add, args=(store, 0), kwargs={"size": 20_000})
    writer.start()
    assert begun.wait(60)
    add(store, 1, 2, 3, size=10_000)
    first, second = (threading.Thread(target=store.close) for _ in range(2))
    first.start()
    with store.changed:
        assert store.changed.wait_for(lambda: store.stopped and store._open is None, 60)
    go_on.set()
    for thread in (writer, first, second):
        thread.join()
    assert all(synced) and len(synced) > 2 and not store._lock.held and not store._unsynced
    assert sorted(keys(publish(open_store()).segments)) == [0, 1, 2, 3]


def test_closing_waits_for_syncing(store, monkeypatch):
    held, sync = [], os.fdatasync

    def synchronise(fd):
        closing.start()
        closing.join(0.2)  # it waits; if a change let it end here, the test would fail
        held.append(store._lock.held)
        return sync(fd)

    monkeypatch.setattr(os, "fdatasync", synchronise)
    closing = threading.Thread(target=store.close)
    add(store, 1)
    publish(store)
    store.sync()
    closing.join()
    assert held == [True] and not store._lock.held


def test_a_signal_handler_may_close_what_is_being_closed(store, monkeypatch):
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: store.close() or sync(fd))
    add(store, 1)
    store.close()
    assert not store._lock.held


def test_a_restart_goes_on_with_what_is_there(store, open_store):
    add(store, *range(100))
    names = publish(store, 4 * MIB).state()["segments"]
    add(store, *range(100, 120))
    store.close()
    again = open_store()
    assert (
        not again.claim("sample 0") and not again.claim("sample 119") and again.claim("sample 120")
    )
    assert keys(again.newest(4 * MIB)) == list(range(120))
    assert [one.name for one in again.named(names)] == names
    assert again.contents()[0] == 120


def test_a_smaller_budget_evicts_at_once(store, open_store):
    add(store, *range(300))
    store.close()
    again = open_store(MIB)
    assert on_disk(store.directory) <= MIB and keys(again.newest(MIB))[-1] == 299
    again.claim("sample 300")
    publish(again, MIB // 2)
    assert again.add("sample 300", bytes(10_000))


def test_a_sample_too_large_for_the_budget_is_refused(store):
    store.claim("a")
    with pytest.raises(CacheError, match="'a' of 2000000 bytes is larger than a quarter"):
        store.add("a", bytes(2_000_000))
    assert store.add("a", bytes(900_000))  # a segment of its own


def fork_and_wait(reading, writing, begun, begins):
    """Fork a child that reports its start, and ends when the parent has looked."""
    child = os.fork()
    if not child:
        os.close(writing)
        os.write(begins, b"1")
        os.read(reading, 1)
        os._exit(0)
    return child


def test_a_forked_child_does_not_share_the_lock(store):
    ends = reading, writing, begun, begins = *os.pipe(), *os.pipe()
    child = fork_and_wait(*ends)
    os.read(begun, 1)
    store.close()
    Store(store.directory, 4 * MIB).close()
    for end in ends:
        os.close(end)
    assert os.waitpid(child, 0)[1] == 0


def test_a_snapshot_that_cannot_be_published_leaves_the_one_before(store, monkeypatch):
    add(store, *range(100))
    publish(store, 4 * MIB)
    with monkeypatch.context() as patching:
        patching.setattr(os, "replace", lambda *_: os.stat("/none"))
        with pytest.raises(FileNotFoundError):
            store.publish(Snapshot(1, []))
    assert store._victim() is None
    store.publish(Snapshot(1, []))
    assert store._victim() is not None


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_a_forked_child_holds_no_room(tmp_path, format):
    """A file that a child has open would keep its room on the disk after its eviction."""
    store = Store(str(tmp_path), 4 * MIB, format)
    add(store, 1)
    assert opened_in(store.directory)
    child = os.fork()
    if not child:
        os._exit(len(opened_in(store.directory)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    add(store, 2)
    assert keys(publish(store).segments) == [1, 2]
    store.close()


def opened_in(directory):
    """Return the files in *directory* that this process has open."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [link for link in links if link.startswith(directory + "/")]


def test_a_child_that_is_forked_while_a_file_is_locked_does_not_share_the_lock(store, monkeypatch):
    """Another thread forks after a file was opened and before a child would know of it."""
    forked, flock = [], sharing.fcntl.flock
    ends = reading, writing, begun, begins = *os.pipe(), *os.pipe()

    def lock(fd, how):
        flock(fd, how)
        thread.start()
        thread.join(0.2)  # it waits; if a change let it end here, the test would fail

    thread = threading.Thread(target=lambda: forked.append(fork_and_wait(*ends)))
    with monkeypatch.context() as patching:
        patching.setattr(sharing.fcntl, "flock", lock)
        pins = sharing.Pins(store.directory)
    thread.join()
    os.read(begun, 1)
    pins.write("x")
    os.close(pins.fd)  # as when this process ends
    pins.fd = -1
    assert sharing.pinned_by_readers(store.directory) == set()
    for end in ends:
        os.close(end)
    os.waitpid(forked[0], 0)


def test_pins_are_made_while_a_writer_looks_for_those_of_dead_readers(store, monkeypatch):
    """A writer comes between the making of the file and its lock. A reader killed there leaves a
    name that it knows.
    """
    flock, names, held = sharing.fcntl.flock, [], []

    def lock(fd, how):
        names.extend(set(os.listdir(store.directory)) - before)
        with monkeypatch.context() as patching:
            patching.setattr(sharing.fcntl, "flock", flock)
            if len(names) == 1:
                sharing.pinned_by_readers(store.directory)  # the writer removes the file
            if len(names) == 2:
                # it is about to remove it
                held.append(sharing.LockedFile(os.path.join(store.directory, names[1])))
        flock(fd, how)

    before = set(os.listdir(store.directory))
    with monkeypatch.context() as patching:
        patching.setattr(sharing.fcntl, "flock", lock)
        pins = sharing.Pins(store.directory)
    pins.write("x")
    held[0].release()
    assert sharing.pinned_by_readers(store.directory) == {"x"}
    assert {os.path.splitext(name)[1] for name in names} == {sharing.PINS}
    pins.release()
    assert set(os.listdir(store.directory)) == before


def test_a_reader_s_pins_are_kept_and_a_dead_reader_s_are_not(store):
    add(store, *range(100))
    names = publish(store, 4 * MIB).state()["segments"]
    pins = sharing.Pins(store.directory)
    pins.write(" ".join(names))
    assert sharing.pinned_by_readers(store.directory) == set(names)
    store.publish(Snapshot(1, []))
    assert store._victim() is None and store._victim(ignore_readers=True) is not None
    os.close(pins.fd)  # as when its process ends
    pins.fd = -1
    assert store._victim() is not None
    assert not [name for name in os.listdir(store.directory) if name.endswith(sharing.PINS)]
