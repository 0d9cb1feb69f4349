"""A directory as one compressed stream, cut into parts, each with its checksum."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from native.errors import TwinsError

CONTENTS = "contents.tar.xz"
"""The stream's name; its parts are this and `.000`, `.001`, ..."""
SUMS = "SHA256SUMS"
_CHUNK = 1 << 20


def bytes_of(text: str) -> int:
    """ "60M" as a number of bytes: K, M and G are powers of 1024.

    Raises:
        ValueError: it is not a size, or less than 1 MiB.
    """
    match = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(match[1]) * 1024 ** " KMG".index(match[2].upper() or " ") if match else 0
    if size < 1 << 20:
        raise ValueError(f"{text!r} is not a size of at least 1M, such as 60M or 2G")
    return size


def share_equal_files(directory: Path) -> int:
    """Hard-links files of equal content and mode under `directory`, so that the archive holds them once.

    Returns the number of bytes saved.
    """
    by_size: dict[tuple, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            if status.st_size:
                by_size.setdefault((status.st_size, status.st_mode), []).append(path)
    saved = 0
    for (size, _), paths in by_size.items():
        first: dict[str, Path] = {}
        for path in paths if len(paths) > 1 else []:
            original = first.setdefault(sha256(path), path)
            if original is not path and not original.samefile(path):
                path.unlink()
                os.link(original, path)
                saved += size
    return saved


def sha256(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def write(
    directory: Path, out: Path, part_bytes: int | None, started: Callable[[subprocess.Popen], None]
) -> list[Path]:
    """Packs `directory` into `out`: the stream, whole or in parts, and the checksums of all files in `out`.

    Args:
        started: called with each process that is started, so that an interruption can end it.

    Raises:
        TwinsError: tar or xz failed, or is not there.
    """
    try:
        tar = subprocess.Popen(
            ["tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-C", str(directory), "-cf", "-", "."],
            stdout=subprocess.PIPE,
        )
        started(tar)
        # Most of it is machine code: higher levels take several times as long and save little.
        xz = subprocess.Popen(
            ["xz", "--threads=0", "--stdout"],
            stdin=tar.stdout,
            stdout=subprocess.PIPE,
            env={"XZ_OPT": "-1", **os.environ},
        )
        started(xz)
    except FileNotFoundError as error:
        raise TwinsError(f"{error.filename} is needed: sudo apt-get install -y tar xz-utils", 3) from error
    assert tar.stdout
    tar.stdout.close()  # only xz holds it now, so that tar notices when xz ends
    parts = _cut(xz.stdout, out, part_bytes)
    if xz.wait() or tar.wait():
        raise TwinsError(f"packing failed (tar {tar.wait()}, xz {xz.wait()}); is the disk full?")
    files = sorted(path for path in out.iterdir() if path.name != SUMS)
    (out / SUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files))
    return parts


def _cut(stream, out: Path, part_bytes: int | None) -> list[Path]:
    parts: list[Path] = []
    chunk = stream.read(_CHUNK)
    while chunk:
        parts.append(out / (f"{CONTENTS}.{len(parts):03d}" if part_bytes else CONTENTS))
        room = part_bytes
        with open(parts[-1], "wb") as file:
            while chunk and (room is None or room > 0):
                piece = chunk if room is None else chunk[:room]
                file.write(piece)
                room = None if room is None else room - len(piece)
                chunk = chunk[len(piece) :] or stream.read(_CHUNK)
    return parts
