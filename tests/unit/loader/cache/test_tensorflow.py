# /// script
# dependencies = ["crc32c>=2.8", "tensorflow-cpu==2.21.0"]
# ///
"""TensorFlow reads the cache's files, and the cache's reader TensorFlow's: ``tests/libraries/run.py tensorflow``.

It has no wheels for free-threaded interpreters.
"""

import pytest

from ftloader.cache import tfrecord
from tests.unit.loader.cache.sources import Numbered, content, keys_of


@pytest.fixture
def tensorflow():
    pytest.importorskip("crc32c", reason="crc32c is not in the twins")
    return pytest.importorskip("tensorflow", reason="run tests/libraries/run.py tensorflow in the GIL twin")


def test_tensorflow_reads_a_cache(opened, tensorflow):
    cache = opened(Numbered(50), min_samples=50, format="tfrecord")
    cache.set_epoch(0)
    read = [record.numpy() for record in tensorflow.data.TFRecordDataset(cache.files())]
    assert read == [content(key, 1000) for key in keys_of(cache)]


def test_what_tensorflow_writes_is_read(tmp_path, tensorflow):
    samples = [content(str(size), size) for size in (0, 1, 700, 65537)]
    with tensorflow.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        for sample in samples:
            writer.write(sample)
    assert list(tfrecord.records(tmp_path / "records")) == samples
