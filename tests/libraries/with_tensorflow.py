# /// script
# dependencies = ["tensorflow-cpu==2.21.0"]
# ///
"""TensorFlow's reader reads the files of a growing cache, and the cache's reader TensorFlow's."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from torch.utils.data import DataLoader

from ftloader.cache import GrowingCache, tfrecord


class Numbered:
    def keys(self):
        return (f"sample {number}" for number in range(60))

    def read(self, key):
        return (key * int(key.split()[1])).encode()  # the first is empty


def as_bytes(data):
    return data.decode()


def program_tfrecords(folder):
    with GrowingCache(
        Numbered(),
        folder / "cache",
        4e6,
        fetchers=1,
        min_samples=60,
        format="tfrecord",
        decode=as_bytes,
    ) as cache:
        cache.set_epoch(0)
        read = [
            sample for batch in DataLoader(cache, batch_size=7, num_workers=2) for sample in batch
        ]
        import tensorflow as tf  # after the fork of worker processes

        records = tf.data.TFRecordDataset(cache.files(), num_parallel_reads=1)
        assert [record.decode() for record in records.as_numpy_iterator()] == read
        with tf.io.TFRecordWriter(str(folder / "records")) as writer:
            for sample in read:
                writer.write(sample.encode())
        assert [record.decode() for record in tfrecord.records(folder / "records")] == read
        with open(cache.files()[-1], "r+b") as file:
            file.seek(-6, os.SEEK_END)
            file.write(b"#")
        try:
            list(records.as_numpy_iterator())
        except tf.errors.DataLossError:
            return read
        raise AssertionError("TensorFlow did not see the damage")
