"""The generated images cost what photographs cost: bits per pixel and decoding time within 20%.

Real photographs come from Debian packages of desktop backgrounds. They are taken from where the
packages are installed, else fetched with apt (no root needed) into the cache; where neither
works, the tests are skipped and say so.
"""

from __future__ import annotations

import io
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from ftbench.data import images, synthesis

SIZE = (synthesis.WIDTH, synthesis.HEIGHT)
# (package, folder below /usr/share/backgrounds, pattern): photographs, not drawings.
SOURCES = [("mate-backgrounds", "mate/nature", "*.jpg")]
FEWEST = 8
TOLERANCE = 0.20


def folder_of(package: str, folder: str) -> Path:
    """The folder of a package's photographs, fetched if need be."""
    installed = Path("/usr/share/backgrounds", folder)
    if installed.is_dir():
        return installed
    cache = images.cache_directory().parent / "photographs" / package
    unpacked = cache / "usr/share/backgrounds" / folder
    if unpacked.is_dir():
        return unpacked
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip(f"no photographs: {package} is not installed, and there is no apt to fetch it with")
    cache.parent.mkdir(parents=True, exist_ok=True)
    work = cache.with_name(f"{package}.unfinished")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        got = subprocess.run(
            ["apt-get", "download", "-q", package], cwd=work, text=True, capture_output=True, timeout=120
        )
        archives = list(work.glob("*.deb"))
        if not archives:
            pytest.skip(f"no photographs: apt-get download {package} failed: {got.stderr.strip()[:200]}")
        subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(work)], check=True, timeout=120)
        archives[0].unlink()
        if not cache.exists():
            work.rename(cache)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return unpacked


def encode(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **synthesis.JPEG_SETTINGS)
    return buffer.getvalue()


def decode_seconds(files: list[bytes]) -> float:
    """CPU seconds per image, decoded in this thread alone."""
    begin = time.thread_time()
    for content in files:
        Image.open(io.BytesIO(content)).convert("RGB")
    return (time.thread_time() - begin) / len(files)


@pytest.fixture(scope="module", params=SOURCES, ids=[s[0] for s in SOURCES])
def photographs(request) -> list[bytes]:
    """Photographs cut and resized to the scenario's size, with its JPEG settings."""
    package, folder, pattern = request.param
    paths = sorted(folder_of(package, folder).glob(pattern))
    assert len(paths) >= FEWEST, f"{package} has only {len(paths)} photographs"
    result = []
    for path in paths:
        with Image.open(path) as image:
            result.append(encode(ImageOps.fit(image.convert("RGB"), SIZE, Image.Resampling.LANCZOS)))
    return result


@pytest.fixture(scope="module")
def generated() -> list[bytes]:
    """The first of the images that a run generates."""
    return [encode(synthesis.photograph(images.SEED + n)) for n in range(24)]


@pytest.mark.timeout(240)
def test_bits_per_pixel(photographs, generated):
    def bits(files):
        return statistics.mean(map(len, files)) * 8 / (SIZE[0] * SIZE[1])

    assert bits(generated) / bits(photographs) == pytest.approx(1, abs=TOLERANCE)


@pytest.mark.timeout(240)
def test_decoding_time(photographs, generated):
    # Interleaved, and the ratio taken within each turn: what disturbs one disturbs the other. This
    # is a property of the images, not of the machine's speed.
    turns = [decode_seconds(generated) / decode_seconds(photographs) for _ in range(15)]
    assert statistics.median(turns) == pytest.approx(1, abs=TOLERANCE)


def test_images_differ_in_size_as_photographs_do(photographs, generated):
    def spread(files):
        return statistics.stdev(map(len, files)) / statistics.mean(map(len, files))

    assert spread(generated) > spread(photographs) / 2
