"""The files of the cache: reads return what was written, whatever happened to the files."""

import errno
import os
import pickle
import shutil

import numpy as np
import pytest

from ftloader.cache import CacheError, CorruptSampleError, formats, record, segment, tfrecord
from ftloader.cache.segment import SegmentWriter
from ftloader.cache.store import Store
from tests.unit.loader.cache.sources import content
from tests.unit.loader.cache.test_store import on_disk

SIZES = [0, 1, 700, 5000, 65537]
each_format = pytest.mark.parametrize("format", formats.FORMATS.values(), ids=formats.FORMATS)


def written(directory, count=20, missing=None, seal=True, format=formats.FORMATS["segment"]):
    """Write a segment of *count* samples. Those in *missing* are begun only: by default the last
    one without *seal*.
    """
    writer = SegmentWriter(str(directory), 3, 1 << 20, format)
    missing = {count - 1} if missing is None and not seal else missing or ()
    for number in range(count):
        key = f"key {number} \udcff"
        data = content(key, SIZES[number % len(SIZES)])
        row = writer.begin(record.encoded(key), len(data), format.checksum(data))
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
        one.read_into(row, array)
        assert array.tobytes() == data
        samples[key] = data
    if one.format is formats.TFRECORD:
        assert list(tfrecord.records(one.data_path)) == list(samples.values())
    return samples


@each_format
@pytest.mark.parametrize("missing", [(), {0, 4, 5, 19}])
def test_a_segment_is_read_as_it_was_written(tmp_path, format, missing):
    sealed = written(tmp_path, missing=missing, format=format)
    assert len(intact(sealed)) == 20 - len(missing)
    loaded = segment.load(str(tmp_path), sealed.name)
    assert intact(loaded) == intact(sealed) == intact(pickle.loads(pickle.dumps(sealed)))
    assert loaded.number == 3 and loaded.size == sealed.size == on_disk(tmp_path)
    assert (loaded.rows == sealed.rows).all()


@each_format
@pytest.mark.parametrize(
    ("key", "length"), [(b"k" * 50, 100), (b"k", 30000), (b"k" * 5000, 1), (b"k", 10**6)]
)
def test_a_segment_never_takes_more_than_it_began_with(tmp_path, format, key, length):
    size = max(32768, -(-format.size_for(key, length) // 4096) * 4096)
    writer = SegmentWriter(str(tmp_path), 0, size, format)
    assert writer.fits(key, length)
    while writer.fits(key, length):
        assert on_disk(tmp_path) == size
        row = writer.begin(key, length, format.checksum(bytes(length)))
        writer.write(row, memoryview(bytes(length)))
        writer.complete(row, key.decode())
    assert writer.seal().size == on_disk(tmp_path) <= size
    if format is not formats.TFRECORD:  # whose two files seldom fill up together
        assert (
            size - sum(file.stat().st_size for file in tmp_path.iterdir())
            < 2 * len(key) + length + 200
        )


@each_format
def test_an_unsealed_segment_is_not_kept(tmp_path, format):
    writer = written(tmp_path, missing={7, 19}, seal=False, format=format)
    with pytest.raises(CacheError, match="not complete"):
        segment.load(str(tmp_path), writer.name)
    assert segment.recover(str(tmp_path), writer.name) is None


def test_nothing_is_left_of_an_empty_segment(tmp_path):
    writer = SegmentWriter(str(tmp_path), 0, 1 << 16)
    assert writer.seal() is None
    (tmp_path / f"0000000007-0123abcd{segment.SUFFIX}").write_bytes(b"")
    assert segment.recover(str(tmp_path), f"0000000007-0123abcd{segment.SUFFIX}") is None
    Store(str(tmp_path), 4 << 20).close()
    assert segment.names_in(str(tmp_path)) == []


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
        loaded.read_into(2, np.empty(700, np.uint8))
    assert loaded.read(3) == content(loaded.keys[3], 5000)
    os.truncate(sealed.path, 1000)
    with pytest.raises(CorruptSampleError, match="shorter than it should be"):
        loaded.read_into(3, np.empty(5000, np.uint8))
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
        for read in (lambda: sealed.read(2), lambda: sealed.read_into(2, np.empty(700, np.uint8))):
            with pytest.raises(OSError, match=os.strerror(code)):
                read()
    assert sealed.read(2) == content(sealed.keys[2], 700)


def test_a_segment_that_was_not_synced_is_looked_at(tmp_path):
    sealed = written(tmp_path)
    assert intact(segment.recover(str(tmp_path), sealed.name)) == intact(sealed)
    with open(sealed.path, "r+b") as file:
        file.seek(200)
        file.write(b"\0\1\2")
    assert segment.recover(str(tmp_path), sealed.name) is None


def test_copies_of_a_segment_are_read_too(tmp_path):
    sealed = written(tmp_path)
    (tmp_path / "copy").mkdir()
    shutil.copy(sealed.path, tmp_path / "copy")
    assert intact(segment.load(str(tmp_path / "copy"), sealed.name)) == intact(sealed)
