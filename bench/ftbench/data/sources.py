"""The files that scenarios read: generated once into a cache, or supplied by the user.

The controller generates the files and passes their paths to the trials. A shard is a file of
samples of any size, back to back, without a header. A "record" here is a file with a pickled array
and a list of the array's peaks (row, column, intensity). Like the data of scientific detectors, the
random values in shards and arrays cannot be compressed.
"""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ftbench.data import images
from ftbench.document.model import Dataset

MIB = 1024 * 1024
# Small enough to stay in any page cache, so that warm reads never come from the disk.
SHARDS = 4
SHARD_BYTES = 64 * MIB
# One record: an int16 array of 4 MiB, and a list of (row, column, intensity) of the peaks in it.
RECORDS = 24
RECORD_SHAPE = (2048, 1024)
PEAKS = 2000
SEED = 20261122
VERSION = 1


def default_shards(
    progress: images.Progress, count: int = SHARDS, size: int = SHARD_BYTES
) -> list[Path]:
    """Return the paths of the generated shards, `count` files
    of `size` random bytes; raises ImageError.
    """

    def write(path: Path, index: int) -> None:
        path.write_bytes(np.random.default_rng([SEED, index]).bytes(size))

    return images.cached(f"shards-v{VERSION}-{size}-{count}", "bin", count, size, write, progress)


def default_records(progress: images.Progress, count: int = RECORDS) -> list[Path]:
    """Return the paths of the generated records, `count` pickles of {"number",
    "image", "peaks"}; raises ImageError.
    """
    rows, columns = RECORD_SHAPE

    def write(path: Path, index: int) -> None:
        values = np.random.default_rng([SEED, 1000 + index]).bytes(rows * columns * 2)
        image = np.frombuffer(values, np.int16).reshape(RECORD_SHAPE)
        record = {"number": index, "image": image, "peaks": _peaks(index)}
        path.write_bytes(pickle.dumps(record, protocol=5))

    name = f"records-v{VERSION}-{rows}x{columns}-int16-{count}"
    return images.cached(name, "pickle", count, 4 * MIB + 50_000, write, progress)


def _peaks(index: int) -> list[tuple[float, float, float]]:
    """Return the (row, column, intensity) of each peak in a record."""
    rows, columns = RECORD_SHAPE
    random = np.random.default_rng([SEED, index, PEAKS])
    down = random.uniform(0, rows, PEAKS)
    across = random.uniform(0, columns, PEAKS)
    intensities = random.exponential(1000.0, PEAKS)
    peaks = np.stack((down, across, intensities), axis=1)
    return [*map(tuple, peaks.tolist())]


# Functions that make generated files, by the name of the source.
GENERATED: dict[str, Callable[[images.Progress], list[Path]]] = {
    "images": images.default_images,
    "shards": default_shards,
    "records": default_records,
}
# Versions of these functions.
VERSIONS = {"images": images.VERSION, "shards": VERSION, "records": VERSION}


class Sources:
    """The files that a run's scenarios read, generated when the first scenario needs them.
    Used by one thread.
    """

    def __init__(
        self, data: Path | None, step: Callable[[str], images.Progress], warn: Callable[[str], None]
    ):
        self._data = data
        self._step = step
        self._warn = warn
        self._made: dict[str, tuple[list[str], Dataset]] = {}

    def get(self, name: str) -> tuple[list[str], Dataset]:
        """Return (paths, description) of the files of a source; raises ImageError.

        `name` is the name of the source: "images", "shards", "records", or "nothing" for no files.
        """
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> tuple[list[str], Dataset]:
        if name == "nothing":
            return [], Dataset("none", name, None, files=0, resized=0, mean_bytes=0, version=None)
        if name == "images" and self._data:
            directory = self._data.absolute()
            paths = self._own_images(directory)
            version = None
        else:
            paths = GENERATED[name](self._step(f"generating the {name} (once)"))
            directory = paths[0].parent
            version = VERSIONS[name]
        resized = 0
        if name == "images":
            resized = self._resized(paths)
        size = sum(path.stat().st_size for path in paths)
        description = Dataset(
            source="generated" if version else "own",
            kind=name,
            directory=str(directory),
            files=len(paths),
            resized=resized,
            mean_bytes=round(size / len(paths)),
            version=version,
        )
        return [*map(str, paths)], description

    def _own_images(self, directory: Path) -> list[Path]:
        paths, number = images.own_images(directory)
        if number > len(paths):
            self._warn(f"only the first {len(paths)} of {number} images of {self._data} are used")
        return paths

    def _resized(self, paths: list[Path]) -> int:
        """Check that the images can be decoded;
        return the number of those that have another size.
        """
        resized = images.validate(paths, self._step("checking the images"))
        if resized:
            self._warn(
                f"{resized} of {len(paths)} images have another size: they are resized to 640x408 "
                "after decoding, in every candidate alike"
            )
        return resized
