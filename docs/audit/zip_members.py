"""Images in a zip archive: one ZipFile for all threads, under a lock, and one for each.

./twins audit docs/audit/zip_members.py:shared
./twins audit docs/audit/zip_members.py:locked
./twins audit docs/audit/zip_members.py:per_thread
"""

import io
import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

IMAGES = 64


def archive() -> Path:
    path = Path(tempfile.mkdtemp(prefix="audit-")) / "images.zip"
    with zipfile.ZipFile(path, "w") as file:
        for i in range(IMAGES):
            encoded = io.BytesIO()
            Image.fromarray(np.full((32, 32, 3), i, np.uint8)).save(encoded, "PNG")
            file.writestr(f"{i}.png", encoded.getvalue())
    return path


def pixels(file: zipfile.ZipFile, index: int) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(file.read(f"{index}.png"))))


class Shared:
    """One ZipFile, read by all threads at once."""

    def __init__(self, path: Path):
        self.file = zipfile.ZipFile(path)

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        return pixels(self.file, index)


class Locked(Shared):
    """The same with a lock around the read, and none around the decoding, which takes the time."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.lock = threading.Lock()

    def __getitem__(self, index):
        with self.lock:
            encoded = self.file.read(f"{index}.png")
        return np.asarray(Image.open(io.BytesIO(encoded)))


class PerThread(Shared):
    """A ZipFile for each thread."""

    def __init__(self, path: Path):
        self.path = path
        self.local = threading.local()

    def __getitem__(self, index):
        if not hasattr(self.local, "file"):
            self.local.file = zipfile.ZipFile(self.path)
        return pixels(self.local.file, index)


def shared():
    return Shared(archive())


def locked():
    return Locked(archive())


def per_thread():
    return PerThread(archive())
