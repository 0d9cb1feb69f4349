"""Scientific samples in files, as detectors write them: 16-bit values that no compressor makes smaller.

Generated once into the cache of ftbench.data.images. Shards hold samples of any size one after the other, without
a header; a record is a pickle of one sample with what was found in it.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from ftbench.data import images

MIB = 1024 * 1024
# Few enough for any page cache: where the cache is warm, what is measured is not the disk.
SHARDS, SHARD_BYTES = 4, 64 * MIB
# One record: 4 MiB of values, and a list of (row, column, intensity) of the peaks in it.
RECORDS, RECORD_SHAPE, PEAKS = 24, (2048, 1024), 2000
SEED = 20261122
# 4 MiB each, as preprocessed data is kept.
ARRAY_SHAPE, ARRAY_SEED = (1024, 1024), 20261121
VERSION = 1


def default_arrays(progress: images.Progress, count: int = RECORDS) -> list[Path]:
    """The generated files of ARRAY_SHAPE float32 values, row after row without a header; as `default_shards`."""
    rows, columns = ARRAY_SHAPE

    def write(path: Path, index: int) -> None:
        values = np.random.default_rng([ARRAY_SEED, index]).standard_normal(ARRAY_SHAPE, dtype=np.float32)
        path.write_bytes(values.tobytes())

    name, size = f"arrays-v{VERSION}-{rows}x{columns}-float32-{count}", rows * columns * 4
    return images.cached(name, "bin", count, count * size, write, progress)


def _values(index: int, size: int) -> bytes:
    return np.random.default_rng([SEED, index]).bytes(size)


def default_shards(progress: images.Progress, count: int = SHARDS, size: int = SHARD_BYTES) -> list[Path]:
    """The generated shards, `count` files of `size` random bytes; made now if the cache has none.

    Raises ImageError if the cache cannot be written.
    """

    def write(path: Path, index: int) -> None:
        path.write_bytes(_values(index, size))

    return images.cached(f"shards-v{VERSION}-{size}-{count}", "bin", count, count * size, write, progress)


def default_records(progress: images.Progress, count: int = RECORDS) -> list[Path]:
    """The generated records, `count` pickles of {"number", "image", "peaks"}; made now if the cache has none.

    The image is an int16 array of RECORD_SHAPE, the peaks a list of PEAKS tuples (row, column, intensity).
    Raises ImageError if the cache cannot be written.
    """
    rows, columns = RECORD_SHAPE

    def write(path: Path, index: int) -> None:
        image = np.frombuffer(_values(1000 + index, rows * columns * 2), np.int16).reshape(RECORD_SHAPE)
        random = np.random.default_rng([SEED, index, PEAKS])
        peaks = [
            (float(row), float(column), float(intensity))
            for row, column, intensity in zip(
                random.uniform(0, rows, PEAKS),
                random.uniform(0, columns, PEAKS),
                random.exponential(1000.0, PEAKS),
                strict=True,
            )
        ]
        path.write_bytes(pickle.dumps({"number": index, "image": image, "peaks": peaks}, protocol=5))

    size = rows * columns * 2 + 50_000
    return images.cached(
        f"records-v{VERSION}-{rows}x{columns}-int16-{count}", "pickle", count, count * size, write, progress
    )
