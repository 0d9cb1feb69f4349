"""Segments with changed bytes, whose checksums do not fit or were made to fit: only documented errors."""

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
from tests.unit.loader.cache import test_segment
from tests.unit.loader.cache.sources import Numbered, check, check_whole, content
from tests.unit.loader.cache.test_store import on_disk

CASES = 40
NUMBERS = [0, 1, 5, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
WRITTEN = {name: functools.partial(test_segment.written, version=version) for name, version in record.FORMATS.items()}


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
    """Return a sealed segment, synced or not, whose sizes, rows or keys are changed and have fitting checksums."""
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


def lying_record(data, chance):
    """Return an unsealed segment whose first record has another length or key, with a fitting checksum."""
    _, _, crc, key, length, when = record.RECORD.unpack_from(data, record.HEAD.size)
    begin = record.HEAD.size + record.RECORD.size
    name = bytearray(data[begin : begin + key])
    if chance.random() < 0.5:
        length = chance.choice(NUMBERS)
    else:
        name[chance.randrange(key)] = chance.randrange(256)
    return data[: record.HEAD.size] + record.record_header(bytes(name), length, crc, when) + data[begin + key :]


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
            one.read_into(row, [array])
            yield key, array.tobytes()
        except CorruptSampleError:
            pass
        try:
            yield key, one.read(row)
        except CorruptSampleError:
            pass


@pytest.mark.parametrize("change", [changed, lying, lying_record])
@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.slow(cases=2)
def test_no_error_but_those_that_are_documented(tmp_path, format, change):
    chance, read = random.Random(format), 0
    for seal in (True, False) if change is changed else (change is lying,):
        whole, directory = tmp_path / f"whole{seal}", tmp_path / "changed"
        whole.mkdir()
        name = WRITTEN[format](whole, seal=seal).name
        segment.sync(str(whole), name)
        for _ in range(CASES):
            shutil.copytree(whole, directory)
            victim = chance.choice(list(directory.iterdir())) if change is changed else directory / name
            victim.write_bytes(change(victim.read_bytes(), chance))
            for step in (segment.load, segment.recover, segment.load):
                for key, data in samples(step, str(directory), name):
                    assert change is not changed or data == content(key, len(data))
                    read += 1
            shutil.rmtree(directory)
    assert read > CASES


@pytest.mark.parametrize("format", WRITTEN)
@pytest.mark.parametrize("seal", [True, False])
def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch, format, seal):
    """The file is truncated to any length right after its size was read."""
    (tmp_path / "whole").mkdir()
    name, fstat = WRITTEN[format](tmp_path / "whole", count=5, seal=seal).name, os.fstat
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
        file.write(record.head(1) + record.record_header(b"key", 1 << 40, 0, 0.0))
        file.truncate((1 << 40) + 4096)
        if sealed:
            parts = zlib.crc32(b""), 16, 1
            file.seek(0, os.SEEK_END)
            file.write(record.TRAILER.pack(b"ftsealed", parts[0], zlib.crc32(repr(parts).encode()), 16, 1, 1))
    cache = ready(source, min_samples=3)
    check(cache)
    assert not path.exists() and len(cache) == 3 and source.reads == []


HEADS = {
    "random": random.Random(1).randbytes(64),
    "zeros": bytes(64),
    "another version": record.HEAD.pack(b"ftcache\n", 9),
    "another program": b"\x89PNG\r\n\x1a\n",
    "another format": None,
}


def overwrite(path, format, head):
    """Write one of HEADS to the start of the segment at *path*. Return its bytes."""
    new = HEADS[head] or record.head(3 - record.FORMATS[format])
    data = new + path.read_bytes()[len(new) :]
    path.write_bytes(data)
    return data


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def filled(opened, source, **arguments):
    """Fill a cache with all of *source*. Return its directory and segments."""
    with opened(source, min_samples=source.count, **arguments) as cache:
        cache.set_epoch(0)
    source.reads.clear()
    return Path(cache._directory), segment.names_in(cache._directory)


def check_what_is_lost(opened, source, lost, **arguments):
    """Check that a cache that is opened again names *lost*, and fetches its samples and no others."""
    with pytest.warns(RuntimeWarning) as caught:
        cache = opened(source, min_samples=source.count, **arguments)
    (warning,) = caught
    assert lost in str(warning.message) and str(warning.message).count(segment.SUFFIX) == 1
    assert warning.filename.endswith("conftest.py")  # the caller
    check_whole(cache, source, 0)
    assert on_disk(cache._directory) <= cache.statistics().bytes_used <= 4 << 20
    cache.close()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("format", WRITTEN)
def test_an_overwritten_head_loses_one_segment(opened, format, head):
    source = Numbered(60, size=10_000)
    directory, names = filled(opened, source, format=format)
    lost = names[len(names) // 2]
    keys = segment.load(str(directory), lost).keys
    before = files(directory) | {lost: overwrite(directory / lost, format, head)}
    check_what_is_lost(opened, source, lost, format=format)
    assert sorted(source.reads) == sorted(keys) and 0 < len(keys) < 30
    after = files(directory)
    assert [name for name in before if name.endswith((".segment", ".tfrecord")) and after[name] != before[name]] == []
    source.reads.clear()
    check_what_is_lost(opened, source, lost, format=format)
    assert source.reads == []


@pytest.mark.parametrize("head", [head for head in HEADS if head != "another version"])
@pytest.mark.parametrize("format", WRITTEN)
def test_the_only_segment_has_an_overwritten_head(opened, format, head):
    source = Numbered(2)
    directory, (lost,) = filled(opened, source, format=format)
    overwrite(directory / lost, format, head)
    check_what_is_lost(opened, source, lost, format=format)


@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_segment_that_the_disk_cannot_read(opened, monkeypatch, where):
    source, pread = Numbered(60, size=10_000), os.pread
    directory, names = filled(opened, source)
    status = os.stat(directory / names[0])

    def read(fd, length, offset):
        if os.fstat(fd).st_ino == status.st_ino and (offset < 4096 if where == "begin" else offset > 4096):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, length, offset)

    with monkeypatch.context() as patching:
        patching.setattr(os, "pread", read)
        check_what_is_lost(opened, source, names[0])
    source.reads.clear()
    check_whole(opened(source, min_samples=60), source, 0)  # it can be read again
    assert source.reads == []


def test_a_cache_of_another_version_is_refused_and_not_touched(opened):
    directory, names = filled(opened, Numbered(60, size=10_000))
    for name in names:
        overwrite(directory / name, "segment", "another version")
    before = files(directory)
    with pytest.raises(CacheError, match="of version 9; this is version 1 or 2. Take another directory"):
        opened(Numbered(60))
    assert files(directory) == before


def test_a_directory_of_another_program_is_refused_and_not_touched(opened, tmp_path):
    (tmp_path / "cache").mkdir()
    for number, data in enumerate([b"", b"short", bytes(100), b"of another program" * 10]):
        (tmp_path / "cache" / f"{number:010d}-0123abcd{segment.SUFFIX}").write_bytes(data)
    before = files(tmp_path / "cache")
    with pytest.raises(CacheError, match="of another program.*Take another directory"):
        opened(Numbered(60))
    assert files(tmp_path / "cache") == before


@pytest.mark.parametrize("format", WRITTEN)
def test_a_head_that_was_not_written_before_a_crash(tmp_path, format):
    """Nothing was synced: intact samples are kept, whatever else the disk has kept."""
    name = WRITTEN[format](tmp_path).name
    with open(tmp_path / name, "r+b") as file:
        file.write(bytes(record.HEAD.size))
    recovered = segment.recover(str(tmp_path), name)
    segment.sync(str(tmp_path), name)
    assert len(test_segment.intact(recovered)) == 20
    assert test_segment.intact(segment.recover(str(tmp_path), name)) == test_segment.intact(recovered)
