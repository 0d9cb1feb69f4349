"""Power failures: what a cache does to its files is recorded, and replayed up to any moment, as a
disk may keep it.

Kept are a file's name and content as of the last time that they were synced. Of what came after,
the disk may have any part: each 4 KiB of each write, each new length of a file, and of the changes
to the directory those up to some moment.
"""

import functools
import os
import random
import threading
from collections import defaultdict

import pytest

from ftloader.cache import GrowingCache, segment
from tests.unit.loader.cache.sources import Numbered, check, keys_of, until

PAGE = 4096
DIRECTORY = -1
BUDGET = 1 << 20


class Recorder:
    """Recorder of every change of the files of *directory*, in order. Files have numbers, since
    inodes are reused.

    ``_lock`` guards all of it, and is held while the change is made.
    """

    def __init__(self, directory, monkeypatch):
        self.directory, self.operations = str(directory), []
        self._numbers = {}  # by inode
        self._lock = threading.RLock()
        # (The power does not fail in this test, so nothing is really synced, which takes long.)
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, lambda fd: None)
        for name in ("pwrite", "ftruncate", "posix_fallocate", "fdatasync", "fsync"):
            monkeypatch.setattr(
                os, name, functools.partial(self._on_descriptor, getattr(os, name), name)
            )
        for name in ("unlink", "replace", "rename"):
            monkeypatch.setattr(
                os, name, functools.partial(self._on_paths, getattr(os, name), name)
            )
        monkeypatch.setattr(os, "open", functools.partial(self._open, os.open))

    def _open(self, real, path, flags, *mode):
        with self._lock:
            new = flags & os.O_CREAT and not os.path.lexists(path)
            fd = real(path, flags, *mode)
            if new and os.path.dirname(path) == self.directory:
                self._numbers[os.fstat(fd).st_ino] = len(self.operations)
                self.operations.append(("create", len(self.operations), os.path.basename(path)))
            return fd

    def _on_descriptor(self, real, kind, fd, *arguments):
        with self._lock:
            result = real(fd, *arguments)
            number = self._numbers.get(os.fstat(fd).st_ino, DIRECTORY)
            if kind == "pwrite":
                arguments = bytes(arguments[0])[:result], arguments[1]
            self.operations.append((kind, number, *arguments))
            return result

    def _on_paths(self, real, kind, *paths):
        with self._lock:
            real(*paths)
            if os.path.dirname(paths[0]) == self.directory:
                self.operations.append((kind, *map(os.path.basename, paths)))


class Disk:
    """A possible disk after the first *count* of the *operations*. *chance* picks the unsynced
    parts that it has.
    """

    def __init__(self, operations, count, chance):
        self._durable = defaultdict(bytearray)  # by the file's number
        unsynced = defaultdict(list)
        names, self._names = [], {}
        for operation in operations[:count]:
            kind, *rest = operation
            if kind in ("create", "unlink", "replace", "rename"):
                names.append(operation)
            elif rest[0] == DIRECTORY:
                self._apply_names(names)
                names = []
            elif kind in ("fsync", "fdatasync"):
                for each in unsynced.pop(rest[0], []):
                    self._apply(self._durable[rest[0]], each)
            else:
                unsynced[rest[0]].append(operation)
        self._apply_names(names[: chance.randint(0, len(names))])
        for number, changes in unsynced.items():
            for change in changes:
                for part in self._parts(change):
                    if chance.random() < 0.5:
                        self._apply(self._durable[number], part)

    def _apply_names(self, changes):
        for kind, *rest in changes:
            if kind == "create":
                self._names[rest[1]] = rest[0]
            elif kind == "unlink":
                self._names.pop(rest[0], None)
            else:
                self._names[rest[1]] = self._names.pop(rest[0])

    @staticmethod
    def _parts(change):
        if change[0] != "pwrite":
            return [change]
        kind, number, data, offset = change
        cuts = [0, *range(PAGE - offset % PAGE, len(data), PAGE), len(data)]
        return [(kind, number, data[a:b], offset + a) for a, b in zip(cuts, cuts[1:])]

    @staticmethod
    def _apply(content, change):
        kind, _, *rest = change
        if kind == "pwrite":
            data, offset = rest
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
        elif kind == "ftruncate":
            del content[rest[0] :]
            content.extend(bytes(rest[0] - len(content)))
        elif kind == "posix_fallocate":
            content.extend(bytes(max(0, sum(rest) - len(content))))

    def write(self, directory):
        for name, number in self._names.items():
            (directory / name).write_bytes(self._durable[number])


def recorded(tmp_path, monkeypatch, format):
    """Return the operations of a cache that fills, evicts, ends, and is opened again."""
    directory = tmp_path / "recorded"
    with monkeypatch.context() as patching:
        recorder = Recorder(directory, patching)
        for life in range(2):
            source = Numbered(None, size=1500)
            source.keys = lambda life=life: (
                f"sample {number}" for number in range(400 * life, 10**9)
            )
            with GrowingCache(
                source, directory, max_bytes=BUDGET, fetchers=1, format=format
            ) as cache:
                for epoch in range(3):
                    until(cache, lambda _: cache._writer.store.full)
                    cache.set_epoch(epoch)
    return recorder.operations


def kept_for_certain(operations, count):
    """Return the segments that, with their directory,
    were synced and not removed in the first *count* operations.
    """
    names, synced, certain = {}, set(), set()
    for kind, *rest in operations[:count]:
        if kind == "create":
            names[rest[0]] = rest[1]
        elif kind in ("fsync", "fdatasync") and rest[0] == DIRECTORY:
            certain |= synced
        elif kind in ("fsync", "fdatasync"):
            synced.add(names[rest[0]])
        elif kind == "unlink":  # of one of a segment's files
            gone = {rest[0], rest[0].partition(".")[0] + segment.SUFFIX}
            synced -= gone
            certain -= gone
    return {name for name in certain if name.endswith(segment.SUFFIX)}


LONG = [pytest.mark.long(reason="2,000 power failures"), pytest.mark.timeout(1800)]


@pytest.mark.parametrize("format", ["segment", "tfrecord"])
@pytest.mark.parametrize(("times", "seed"), [(10, 0), pytest.param(1000, 1, marks=LONG)])
@pytest.mark.slow
def test_power_failures(tmp_path, monkeypatch, format, times, seed):
    operations = recorded(tmp_path, monkeypatch, format)
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, lambda fd: None)
    kinds = {operation[0] for operation in operations}
    assert {
        "create",
        "pwrite",
        "posix_fallocate",
        "ftruncate",
        "fdatasync",
        "fsync",
        "unlink",
        "replace",
    } <= kinds
    chance = random.Random(seed)
    # of every segment, as it was sealed the first time that it was found with all its samples
    samples = {}
    certain_ones = lost_ones = 0
    for number in range(times):
        count = chance.randint(0, len(operations))
        directory = tmp_path / f"replayed{number}"
        directory.mkdir()
        Disk(operations, count, chance).write(directory)
        certain = kept_for_certain(operations, count)
        there = segment.names_in(str(directory))
        assert certain <= set(there)
        for name in certain:  # complete, and it says so
            samples[name] = segment.load(str(directory), name).keys
        source = Numbered(0)
        with GrowingCache(
            source, directory, max_bytes=BUDGET, min_samples=0, format=format, pin=1
        ) as cache:
            cache.set_epoch(0)
            check(cache)
            found = set(keys_of(cache))
            assert len(found) == len(cache)
        for name in certain:
            assert found.issuperset(samples[name])
        certain_ones += len(certain)
        lost_ones += len(there) - len(cache.state_dict()["segments"])
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
    assert certain_ones > 5 * times and lost_ones  # some were lost, and most were not
