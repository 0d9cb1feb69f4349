"""Segments with changed bytes, whose checksums do not fit or were made to fit:
only documented errors.
"""

import errno
import functools
import os
import random
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from ftloader.cache import CacheError, CorruptSampleError, record, segment
from ftloader.cache.formats import FORMATS
from tests.unit.loader.cache import test_segment
from tests.unit.loader.cache.sources import Numbered, check, check_whole, content
from tests.unit.loader.cache.test_store import on_disk

CASES = 40
NUMBERS = [0, 1, 5, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
WRITTEN = {
    name: functools.partial(test_segment.written, format=format) for name, format in FORMATS.items()
}


def changed(data, chance):
    """Return *data* with bytes, numbers or its length changed at random places."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data.rstrip(b"\0")) or len(data))
        what = chance.randrange(5)
        if what == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            data[at // 4 * 4 : at // 4 * 4 + 8] = struct.pack("<Q", chance.choice(NUMBERS))
        elif what == 2:
            data[at : at + 16] = chance.randbytes(16)
        elif what == 3:  # a page that was lost
            page = slice(at // 4096 * 4096, at // 4096 * 4096 + 4096)
            data[page] = bytes(len(data[page]))
        elif at > 40:
            del data[at:]
    return data


def lying(data, chance):
    """Return a sealed segment, synced or not, whose sizes,
    rows or keys are changed and have fitting checksums.
    """
    magic, _, _, begin, count, _ = record.TRAILER.unpack(data[-record.TRAILER.size :])
    index = bytearray(data[begin : -record.TRAILER.size])
    what, body = chance.randrange(4), data[:begin]
    if what == 0:
        begin = chance.choice(NUMBERS)
    elif what == 1:
        count = chance.choice(NUMBERS)
    for _ in range(chance.choice([1, 2, 4]) if what > 1 else 0):
        if chance.random() < 0.5:
            at = chance.randrange(count) * record.ROW.itemsize + chance.choice([0, 8])
            index[at : at + 8] = struct.pack("<Q", chance.choice(NUMBERS))
        else:
            index[chance.randrange(len(index))] = chance.randrange(256)
    crc = zlib.crc32(index)
    own = zlib.crc32(repr((crc, begin, count)).encode())
    return body + index + record.TRAILER.pack(magic, crc, own, begin, count, chance.randrange(2))


def samples(step, directory, name):
    """Yield the samples that can be read from the segment after *step*."""
    try:
        one = step(directory, name)
    except CacheError:
        return
    for row, key in enumerate(one.keys if one is not None else ()):
        try:
            assert one.nbytes(row) <= 2 << 20
            array = np.empty(one.nbytes(row), np.uint8)
            one.read_into(row, array)
            yield key, array.tobytes()
        except CorruptSampleError:
            pass
        try:
            yield key, one.read(row)
        except CorruptSampleError:
            pass


@pytest.mark.parametrize("change", [changed, lying])
@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.slow(cases=2)
def test_no_error_but_those_that_are_documented(tmp_path, format, change):
    chance, read = random.Random(format), 0
    for seal in (True, False) if change is changed else (True,):
        whole, directory = tmp_path / f"whole{seal}", tmp_path / "changed"
        whole.mkdir()
        name = WRITTEN[format](whole, seal=seal).name
        segment.sync(str(whole), name)
        for _ in range(CASES):
            shutil.copytree(whole, directory)
            victim = (
                chance.choice(list(directory.iterdir())) if change is changed else directory / name
            )
            victim.write_bytes(change(victim.read_bytes(), chance))
            for step in (segment.load, segment.recover, segment.load):
                for key, data in samples(step, str(directory), name):
                    assert change is not changed or data == content(key, len(data))
                    read += 1
            shutil.rmtree(directory)
    assert read > CASES


@pytest.mark.parametrize("format", WRITTEN)
def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch, format):
    """The file is truncated to any length right after its size was read."""
    (tmp_path / "whole").mkdir()
    name, fstat = WRITTEN[format](tmp_path / "whole", count=5).name, os.fstat
    for step in (segment.load, segment.recover):
        for length in range(0, 300, 7):
            shutil.copytree(tmp_path / "whole", tmp_path / "shrunk")

            def status(fd, path=tmp_path / "shrunk" / name, length=length):
                found = fstat(fd)
                os.truncate(path, length)
                return found

            with monkeypatch.context() as patching:
                patching.setattr(os, "fstat", status)
                for key, data in samples(step, str(tmp_path / "shrunk"), name):
                    assert data == content(key, len(data))
            shutil.rmtree(tmp_path / "shrunk")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_giant_with_holes_is_not_read(opened, ready, sealed):
    """A sample, or rows, of 1 TiB exceed the budget, so the segment cannot be kept."""
    source = Numbered(3)
    directory, _ = filled(opened, source)
    path = directory / f"0000000001-0123abcd{segment.SUFFIX}"
    with open(path, "wb") as file:
        file.write(record.head(1))
        file.truncate((1 << 40) + 4096)
        if sealed:
            parts = zlib.crc32(b""), 16, 1
            file.seek(0, os.SEEK_END)
            file.write(
                record.TRAILER.pack(
                    b"ftsealed", parts[0], zlib.crc32(repr(parts).encode()), 16, 1, 1
                )
            )
    cache = ready(source, min_samples=3)
    check(cache)
    assert not path.exists() and len(cache) == 3 and source.reads == []


HEADS = {
    "random": random.Random(1).randbytes(64),
    "zeros": bytes(64),
    "another program's": b"\x89PNG\r\n\x1a\n",
    "another format": None,
}


def overwrite(path, format, head):
    """Write one of HEADS to the start of the segment at *path*."""
    new = HEADS[head] or record.head(3 - FORMATS[format].version)
    data = new + path.read_bytes()[len(new) :]
    path.write_bytes(data)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def filled(opened, source, **arguments):
    """Fill a cache with all of *source*. Return its directory and segments."""
    with opened(source, min_samples=source.count, **arguments) as cache:
        cache.set_epoch(0)
    source.reads.clear()
    return Path(cache._directory), segment.names_in(cache._directory)


def check_what_is_lost(opened, source, keys, **arguments):
    """Check that a cache that is opened again fetches the samples *keys*, and no others."""
    cache = opened(source, min_samples=source.count, **arguments)
    check_whole(cache, source, 0)
    assert on_disk(cache._directory) <= cache.statistics().bytes_used <= 4 << 20
    cache.close()
    assert sorted(source.reads) == sorted(keys)
    source.reads.clear()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("format", WRITTEN)
def test_an_overwritten_head_loses_one_segment(opened, format, head):
    source = Numbered(60, size=10_000)
    directory, names = filled(opened, source, format=format)
    lost = names[len(names) // 2]
    keys = segment.load(str(directory), lost).keys
    assert 0 < len(keys) < 30
    overwrite(directory / lost, format, head)
    for each in keys, ():
        check_what_is_lost(opened, source, each, format=format)
    assert lost not in segment.names_in(str(directory))


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_segment_that_the_disk_cannot_read(opened, monkeypatch, where):
    source, pread = Numbered(60, size=10_000), os.pread
    directory, names = filled(opened, source)
    status, keys = os.stat(directory / names[0]), segment.load(str(directory), names[0]).keys

    def read(fd, length, offset):
        if os.fstat(fd).st_ino == status.st_ino and (
            offset < 4096 if where == "begin" else offset > 4096
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, length, offset)

    with monkeypatch.context() as patching, open(directory / names[0]):
        # open: the inode is not used again
        patching.setattr(os, "pread", read)
        check_what_is_lost(opened, source, keys)


OTHERS = {
    "version 9": record.HEAD.pack(b"ftcache\n", 9),
    "another program": b"of another program" * 10,
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("number", [0, 1, 10**9])
def test_a_file_of_another_version_or_program_is_refused_and_not_touched(opened, other, number):
    """Also the files next to it are left alone, of which some are ours."""
    directory, _ = filled(opened, Numbered(60, size=10_000))
    (directory / f"{number:010d}-0123abcd{segment.SUFFIX}").write_bytes(OTHERS[other])
    (directory / f"{2:010d}-0123abcd{segment.SUFFIX}").write_bytes(bytes(100))
    before = {
        name: data for name, data in files(directory).items() if not name.startswith("ftcache.")
    }
    with pytest.raises(
        CacheError, match=f"of {other}; this is version 1 or 2. Take another directory"
    ):
        opened(Numbered(60))
    assert before.items() <= files(directory).items()


@pytest.mark.parametrize("format", WRITTEN)
def test_a_head_that_a_power_failure_lost(tmp_path, format):
    name = WRITTEN[format](tmp_path).name
    with open(tmp_path / name, "r+b") as file:
        file.write(bytes(record.HEAD.size))
    assert segment.recover(str(tmp_path), name) is None
