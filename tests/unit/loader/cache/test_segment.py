"""The files of the cache: reads return what was written, whatever happened to the files."""

import errno
import os
import pickle
import random
import shutil
import zlib

import numpy as np
import pytest

from ftloader.cache import CacheError, CorruptSampleError, record, segment, tfrecord
from ftloader.cache.segment import SegmentWriter
from tests.unit.loader.cache.sources import content
from tests.unit.loader.cache.test_store import on_disk

SIZES = [0, 1, 700, 5000, 65537]
each_version = pytest.mark.parametrize("version", record.FORMATS.values(), ids=record.FORMATS)


def written(directory, count=20, missing=None, seal=True, version=1):
    """Write a segment of *count* samples. Those in *missing* are begun only: by default the last one without *seal*."""
    writer = SegmentWriter(str(directory), 3, 1 << 20, version)
    missing = {count - 1} if missing is None and not seal else missing or ()
    for number in range(count):
        key = f"key {number} \udcff"
        data = content(key, SIZES[number % len(SIZES)])
        row = writer.begin(record.encoded(key), len(data), record.checksum(version, data))
        if number not in missing:
            writer.write(row, memoryview(data))
            writer.complete(row, key)
    if seal:
        return writer.seal()
    writer.close()
    return writer


def intact(one):
    """Return all samples, after checking each."""
    samples = {}
    for row, key in enumerate(one.keys):
        data = one.read(row)
        assert data == content(key, len(data)) and len(data) == one.nbytes(row)
        array = np.empty(len(data), np.uint8)
        one.read_into(row, [array])
        assert array.tobytes() == data
        samples[key] = data
    if one.version == record.TFRECORD:
        assert list(tfrecord.records(one.data_path)) == list(samples.values())
    return samples


@each_version
@pytest.mark.parametrize("missing", [(), {0, 4, 5, 19}])
def test_a_segment_is_read_as_it_was_written(tmp_path, version, missing):
    sealed = written(tmp_path, missing=missing, version=version)
    assert len(intact(sealed)) == 20 - len(missing)
    loaded = segment.load(str(tmp_path), sealed.name)
    assert intact(loaded) == intact(sealed) == intact(pickle.loads(pickle.dumps(sealed)))
    assert loaded.number == 3 and loaded.size == sealed.size == on_disk(tmp_path)
    assert (loaded.times == sealed.times).all()


def test_a_segment_never_takes_more_than_it_began_with(tmp_path):
    size = 32768
    writer = SegmentWriter(str(tmp_path), 0, size)
    count = 0
    while writer.fits(b"k" * 50, 100):
        assert segment.disk_usage(os.stat(tmp_path / writer.name)) == size
        row = writer.begin(b"k" * 50, 100, zlib.crc32(bytes(100)))
        writer.write(row, memoryview(bytes(100)))
        writer.complete(row, "k" * 50)
        count += 1
    sealed = writer.seal()
    assert len(sealed) == count > 100 and sealed.size <= size and os.stat(sealed.path).st_size > size - 400


@each_version
def test_what_a_crash_left_is_found(tmp_path, version):
    writer = written(tmp_path, missing={7, 19}, seal=False, version=version)
    with pytest.raises(CacheError, match="not complete"):
        segment.load(str(tmp_path), writer.name)
    recovered = segment.recover(str(tmp_path), writer.name)
    assert len(intact(recovered)) == 18  # not those whose headers alone were written
    assert intact(segment.load(str(tmp_path), writer.name)) == intact(recovered)


def test_nothing_is_left_of_an_empty_segment(tmp_path):
    writer = SegmentWriter(str(tmp_path), 0, 1 << 16)
    assert writer.seal() is None
    (tmp_path / f"0000000007-0123abcd{segment.SUFFIX}").write_bytes(b"")
    assert segment.recover(str(tmp_path), f"0000000007-0123abcd{segment.SUFFIX}") is None
    assert segment.names_in(str(tmp_path)) == []


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize(("version", "which"), [(1, "segment"), (2, "segment"), (2, "tfrecord")])
def test_damage_never_gives_another_sample(tmp_path, seal, version, which):
    """Pages are cut, overwritten and lost at random places, as after a power failure."""
    (tmp_path / "whole").mkdir()
    name = written(tmp_path / "whole", seal=seal, version=version).name
    victim = name.removesuffix("segment") + which
    whole = (tmp_path / "whole" / victim).read_bytes()
    chance = random.Random(1)
    kept = []
    for number in range(60):
        directory = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", directory)
        data = bytearray(whole)
        at = chance.randrange(16, len(whole.rstrip(b"\0")))
        if number % 3 == 0:
            del data[at:]
        elif number % 3 == 1:
            page = slice(at // 4096 * 4096, at // 4096 * 4096 + 4096)
            data[page] = bytes(len(data[page]))
        else:
            data[at] ^= 1 << chance.randrange(8)
        (directory / victim).write_bytes(data)
        recovered = segment.recover(str(directory), name)
        samples = {} if recovered is None else intact(recovered)
        kept.append(len(samples))
        if recovered is not None:
            assert intact(segment.load(str(directory), name)) == samples
    assert min(kept) < (8 if version == 1 else 12) and max(kept) >= 18


def test_a_damaged_sample_is_not_read(tmp_path):
    sealed = written(tmp_path)
    segment.sync(str(tmp_path), sealed.name)
    with open(sealed.path, "r+b") as file:
        file.seek(200)  # in the third sample: two are empty or of one byte
        file.write(b"\0\1\2")
    loaded = segment.recover(str(tmp_path), sealed.name)  # synced, so not looked at
    with pytest.raises(CorruptSampleError, match="key 2 .*checksum differs"):
        loaded.read(2)
    with pytest.raises(CorruptSampleError, match="checksum differs"):
        loaded.read_into(2, [np.empty(700, np.uint8)])
    assert loaded.read(3) == content(loaded.keys[3], 5000)
    os.truncate(sealed.path, 1000)
    with pytest.raises(CorruptSampleError, match="shorter than it should be"):
        loaded.read_into(3, [np.empty(5000, np.uint8)])
    os.unlink(sealed.path)
    with pytest.raises(CorruptSampleError, match="No such file"):
        loaded.read(3)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_process_that_can_open_no_more_files_has_no_damaged_sample(tmp_path, monkeypatch, code):
    sealed = written(tmp_path)

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patching:
        patching.setattr(os, "open", refuse)
        for read in (lambda: sealed.read(2), lambda: sealed.read_into(2, [np.empty(700, np.uint8)])):
            with pytest.raises(OSError, match=os.strerror(code)):
                read()
    assert sealed.read(2) == content(sealed.keys[2], 700)


def test_a_segment_that_was_not_synced_is_looked_at(tmp_path):
    sealed = written(tmp_path)
    with open(sealed.path, "r+b") as file:
        file.seek(200)
        file.write(b"\0\1\2")
    assert len(intact(segment.recover(str(tmp_path), sealed.name))) == 19


def test_a_segment_of_another_version_is_left_alone(tmp_path):
    sealed = written(tmp_path)
    data = bytearray((tmp_path / sealed.name).read_bytes())
    data[8] = 9
    (tmp_path / sealed.name).write_bytes(data)
    for use in (segment.load, segment.recover):
        with pytest.raises(CacheError, match="of version 9; this is version 1"):
            use(str(tmp_path), sealed.name)
    assert (tmp_path / sealed.name).read_bytes() == data
    (tmp_path / sealed.name).write_bytes(b"something else altogether")
    with pytest.raises(CacheError, match="of another program"):
        segment.recover(str(tmp_path), sealed.name)


def test_copies_of_a_segment_are_read_too(tmp_path):
    sealed = written(tmp_path)
    (tmp_path / "copy").mkdir()
    shutil.copy(sealed.path, tmp_path / "copy")
    assert intact(segment.load(str(tmp_path / "copy"), sealed.name)) == intact(sealed)
