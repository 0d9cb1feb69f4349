"""Images for scenarios to decode: generated once into a cache, or supplied by the user.

A set of images is generated in a temporary directory, which is then renamed. So an interrupted
generation leaves no set that looks complete. If two processes generate a set at the same time, the
first rename wins.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from ftbench.data import synthesis
from ftrun import cgroup

COUNT = 256
SEED = 20261120
# To be raised whenever the pixels change, so that no cache serves another version's images.
VERSION = 1
LIMIT_OF_OWN = 2048
# The most broken images that an error lists.
MOST_LISTED = 10
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}

Progress = Callable[[int, int], None]
"""Function to call with (done, total) after each image.
It may raise an exception to stop the work.
"""


class ImageError(Exception):
    """Raised if images or generated files cannot be used;
    the message names the files and says what to do.
    """


def cache_directory() -> Path:
    """Return the directory for generated files: $FT_BENCH_CACHE,
    or ft-twins/images in the user's cache directory.
    """
    if chosen := os.environ.get("FT_BENCH_CACHE"):
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path.home() / ".cache"
    return cache / "ft-twins" / "images"


def default_images(progress: Progress, count: int = COUNT) -> list[Path]:
    """Return the paths of the generated JPEGs; generate them first
    if the cache lacks them. Raises ImageError.
    """

    def write(path: Path, index: int) -> None:
        synthesis.photograph(SEED + index).save(path, "JPEG", **synthesis.JPEG_SETTINGS)

    name = f"v{VERSION}-{synthesis.WIDTH}x{synthesis.HEIGHT}-{count}"
    return cached(name, "jpg", count, 100_000, write, progress)


def cached(
    name: str,
    suffix: str,
    count: int,
    size: int,
    write: Callable[[Path, int], None],
    progress: Progress,
) -> list[Path]:
    """Return the paths of the cache's directory `name`: `count` files with the extension `suffix`.

    If the directory is missing, calls write(path, index) to make each file. `size` is the
    approximate size of a file (bytes). Raises ImageError if files cannot be written, or if the
    directory lacks some files.
    """
    finished = cache_directory() / name
    if not finished.is_dir():
        try:
            _generate(finished, suffix, count, write, progress)
        except OSError as error:
            raise ImageError(
                f"cannot generate the files in {finished.parent}: {error.strerror or error}. "
                f"Name a writable directory with enough space ({count * size / 1e6:.0f} MB) in "
                f"FT_BENCH_CACHE."
            ) from error
    paths = sorted(finished.glob(f"*.{suffix}"))
    if len(paths) != count:
        raise ImageError(
            f"{finished} holds {len(paths)} of {count} files: remove it (rm -r {finished}) and "
            f"they are generated again"
        )
    return paths


def _generate(
    finished: Path,
    suffix: str,
    count: int,
    write: Callable[[Path, int], None],
    progress: Progress,
) -> None:
    """Write the files of the directory *finished*; see `cached`. Raises OSError."""
    parent = finished.parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{finished.name}-", dir=parent) as unfinished:

        def make(index: int) -> None:
            write(Path(unfinished, f"{index:04}.{suffix}"), index)

        _in_threads(make, range(count), progress)
        # The cache may be shared, and mkdtemp lets only the owner in.
        os.chmod(unfinished, 0o755)
        try:
            os.rename(unfinished, finished)
        except OSError:
            if not finished.is_dir():
                raise


def _in_threads(work: Callable, items: Sequence, progress: Progress) -> list:
    """Call work(item) for every item in threads; return the results in order.
    An exception stops further calls.
    """
    results = []
    pool = ThreadPoolExecutor(cgroup.usable_cpus())
    try:
        for number, result in enumerate(pool.map(work, items), 1):
            results.append(result)
            progress(number, len(items))
    finally:
        # Drop the items that wait, and wait for the few that run.
        pool.shutdown(cancel_futures=True)
    return results


def own_images(directory: Path) -> tuple[list[Path], int]:
    """Return (paths, number) of the images in `directory` and its subdirectories.

    The paths are sorted, and only the first LIMIT_OF_OWN of them are returned. The number counts
    all images. Raises ImageError if there are no images, or if a directory cannot be read.
    """

    def unreadable(error: OSError) -> None:
        raise ImageError(f"--data: cannot read {error.filename}: {error.strerror}") from error

    paths = []
    for folder, _, files in os.walk(directory, onerror=unreadable, followlinks=False):
        paths += [Path(folder, name) for name in files if Path(name).suffix.lower() in SUFFIXES]
    if not paths:
        suffixes = ", ".join(sorted(SUFFIXES))
        raise ImageError(
            f"--data {directory} holds no images ({suffixes}; sub-directories are searched too)"
        )
    return sorted(paths)[:LIMIT_OF_OWN], len(paths)


def validate(paths: list[Path], progress: Progress) -> int:
    """Decode every image; return how many differ in size from generated ones. Raises ImageError if
    any is broken.
    """

    def check(path: Path) -> bool | str:
        """Return True if the image has to be resized,
        or an error message if it cannot be decoded.
        """
        try:
            with Image.open(path) as image:
                image.convert("RGB")
                return image.size != (synthesis.WIDTH, synthesis.HEIGHT)
        # Decoders may raise anything on hostile bytes.
        # All of it means that the image cannot be used.
        except Exception as error:
            return f"{path}: {error}"

    with warnings.catch_warnings():
        # A very large photograph from the user is slow, not an attack.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        results = _in_threads(check, paths, progress)
    broken = [result for result in results if isinstance(result, str)]
    if broken:
        listed = broken[:MOST_LISTED]
        if len(broken) > MOST_LISTED:
            listed.append(f"and {len(broken) - MOST_LISTED} more")
        listing = "\n  ".join(listed)
        raise ImageError(
            f"{len(broken)} of {len(paths)} images cannot be decoded:\n  {listing}\n"
            "Repair or remove them, then run again."
        )
    return sum(results)
