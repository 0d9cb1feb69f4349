"""Samples in TFRecord files; TensorFlow's own reader is in tests/libraries/with_tensorflow.py."""

import os
import sys

import numpy as np
import pytest

from ftloader.cache import CacheError, CorruptSampleError, GrowingCache, tfrecord
from ftloader.cache.formats import TFRECORD
from ftloader.cache.store import Store
from tests.unit.loader.cache.sources import Numbered, check, content
from tests.unit.loader.cache.test_segment import written


def test_without_the_library_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    monkeypatch.setattr(tfrecord, "_crc32c", None)
    with pytest.raises(CacheError, match="pip install crc32c"):
        GrowingCache(Numbered(3), tmp_path / "cache", 4 << 20, format="tfrecord")
    assert not (tmp_path / "cache").exists()
    with GrowingCache(Numbered(3), tmp_path / "cache", 4 << 20, min_samples=3) as cache:
        # without it, as ever
        cache.set_epoch(0)
        assert cache.files() == []


def test_an_unknown_format(tmp_path):
    with pytest.raises(ValueError, match="format must be one of segment, tfrecord"):
        GrowingCache(Numbered(3), tmp_path, 4 << 20, format="zip")


class TestFiles:
    def test_a_record_is_what_the_definition_says(self, tmp_path):
        assert tfrecord.crc32c(b"123456789") == 0xE3069283
        # The mask, worked out by hand: (crc >> 15 | crc << 17) + 0xa282ead8, modulo 2 ** 32.
        assert tfrecord.footer(0xE3069283) == ((0x2507C60D + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(
            4, "little"
        )
        path = tmp_path / "one"
        path.write_bytes(tfrecord.header(9) + b"123456789" + tfrecord.footer(0xE3069283))
        assert list(tfrecord.records(path)) == [b"123456789"]

    def test_no_changed_bit_of_a_file_is_read(self, tmp_path):
        whole = b"".join(
            tfrecord.header(len(data)) + data + tfrecord.footer(tfrecord.crc32c(data))
            for data in (b"", b"abc", b"de")
        )
        path = tmp_path / "records"
        path.write_bytes(whole)
        assert list(tfrecord.records(path)) == [b"", b"abc", b"de"]
        for bit in range(len(whole) * 8):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            with pytest.raises(CorruptSampleError, match="records: .* damaged"):
                list(tfrecord.records(path))
        for length in set(range(len(whole))) - {16, 35}:  # cut, but not between two records
            path.write_bytes(whole[:length])
            if length:
                with pytest.raises(CorruptSampleError, match=r"damaged|in the middle of a record"):
                    list(tfrecord.records(path))

    def test_a_damaged_record_is_not_read(self, tmp_path):
        sealed = written(tmp_path, format=TFRECORD)
        rows = [sealed.rows["offset"][2].item() + at for at in (-12, -1, 0, 700, 703)]
        whole = open(sealed.data_path, "rb").read()
        for at in rows:  # the length, its checksum, the data, the data's checksum
            data = bytearray(whole)
            data[at] ^= 1
            open(sealed.data_path, "wb").write(data)
            with pytest.raises(CorruptSampleError, match="key 2 .*damaged"):
                sealed.read(2)
            with pytest.raises(CorruptSampleError, match="damaged"):
                sealed.read_into(2, np.empty(700, np.uint8))
            assert sealed.read(3) == content(sealed.keys[3], 5000)


class TestCache:
    def test_a_directory_has_both_formats(self, opened, tmp_path):
        with opened(Numbered(20), min_samples=20) as cache:
            cache.set_epoch(0)
        source = Numbered(40)
        with opened(source, min_samples=40, format="tfrecord") as cache:
            cache.set_epoch(0)
            check(cache)
            assert (
                len(source.reads) == 20
                and sum(len(list(tfrecord.records(p))) for p in cache.files()) == 20
            )

    def test_strays_are_removed(self, tmp_path):
        sealed = written(tmp_path, format=TFRECORD)
        (tmp_path / "0000000009-0123abcd.tfrecord").write_bytes(b"left")
        os.rename(sealed.data_path, tmp_path / "0000000008-0123abcd.tfrecord")
        store = Store(str(tmp_path), 4 << 20, TFRECORD)
        assert store.contents()[0] == 0 and os.listdir(tmp_path).count("ftcache.turn") == 1
        store.close()
        assert not [
            name for name in os.listdir(tmp_path) if name.endswith((".tfrecord", ".segment"))
        ]
