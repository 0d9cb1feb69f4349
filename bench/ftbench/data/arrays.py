"""Raw arrays in files, as preprocessed data is kept: generated once into the images' cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ftbench.data import images

# 4 MiB a sample, and few enough for any page cache: what is measured is not the disk.
SHAPE = (1024, 1024)
COUNT = 24
SEED = 20261121
VERSION = 1


def default_arrays(progress: images.Progress, count: int = COUNT) -> list[Path]:
    """The generated files of float32 values, row after row without a header, `count` of them.

    Made now if the cache has none. Raises ImageError if the cache cannot be written.
    """

    def write(path: Path, index: int) -> None:
        values = np.random.default_rng([SEED, index]).standard_normal(SHAPE, dtype=np.float32)
        path.write_bytes(values.tobytes())

    name = f"arrays-v{VERSION}-{SHAPE[0]}x{SHAPE[1]}-float32-{count}"
    return images.cached(name, "bin", count, count * SHAPE[0] * SHAPE[1] * 4, write, progress)
