"""results.json: where a run's files go, and writing them so that nothing finished is lost.

The schema is bench/results.schema.json; SCHEMA_VERSION is raised when a reader of the old
form would misread the new one. Files appear by a rename of a complete, synchronised copy, so
that a full disk or a kill leaves the previous state of the file, never half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from datetime import datetime
from pathlib import Path

SCHEMA_VERSION = 2
SCHEMA_FILE = Path(__file__).with_name("results.schema.json")


class ResultsError(Exception):
    """Results cannot be written or read; the message says what is left and what to do."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; raises OSError with the old file untouched."""
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # The rename itself is on disk once the directory is.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Results:
    """One run's directory below the output root. Owned by the controller's thread.

    The directory is made with the first file, so that a run without a finished round leaves none.
    """

    def __init__(self, root: Path):
        """Check that `root` can be written; raises ResultsError."""
        self.root = root
        self.directory: Path | None = None
        self._made_root = not root.exists()
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(prefix=".probe-", dir=root) as probe:
                probe.write(b"x" * 4096)
        except OSError as error:
            raise ResultsError(f"cannot write results to {root}: {error.strerror or error}; "
                               "name another directory with --out DIR") from error

    def write(self, name: str, content: bytes) -> Path:
        """Write a file of the run; raises ResultsError."""
        try:
            if self.directory is None:
                self.directory = self._make_directory()
            path = self.directory / name
            write_atomically(path, content)
        except OSError as error:
            where = self.directory or self.root
            kept = sorted(p.name for p in self.directory.iterdir() if not p.name.startswith(".")) \
                if self.directory else []
            state = f"intact there: {', '.join(kept)}" if kept else "nothing of this run was saved"
            if self.directory and not kept:
                with contextlib.suppress(OSError):
                    self.directory.rmdir()
            raise ResultsError(f"cannot write {name} to {where}: {error.strerror or error} ({state}; earlier "
                               "results are untouched). Make room or name another directory with --out DIR, "
                               "then run again.") from error
        return path

    def _make_directory(self) -> Path:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        for attempt in range(1, 100):
            path = self.root / (stamp if attempt == 1 else f"{stamp}-{attempt}")
            try:
                path.mkdir()
                return path
            except FileExistsError:  # another run of the same second
                continue
        raise FileExistsError(f"{self.root} has a hundred runs of this second")

    def save(self, document: dict) -> Path:
        """Write results.json; raises ResultsError."""
        return self.write("results.json", (json.dumps(document, indent=1) + "\n").encode())

    def publish(self) -> None:
        """Point <root>/latest at this run; raises ResultsError."""
        link = self.root / "latest"
        temporary = self.root / f".latest-{os.getpid()}"
        try:
            if link.exists() and not link.is_symlink():
                raise FileExistsError(0, "it exists and is not a symbolic link")
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(self.directory.name)
            temporary.rename(link)
        except OSError as error:
            raise ResultsError(f"results are in {self.directory}, but {link} cannot be set: "
                               f"{error.strerror or error}") from error

    def discard_empty_root(self) -> None:
        """Remove the output root if this run made it and left nothing in it."""
        if self._made_root and self.directory is None:
            with contextlib.suppress(OSError):
                self.root.rmdir()


def load(path: Path) -> dict:
    """Read and validate a results.json; raises ResultsError."""
    import fastjsonschema

    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ResultsError(f"{path} is not JSON: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise ResultsError(f"{path} has schema version {version}; this bench reads {SCHEMA_VERSION}")
    try:
        fastjsonschema.compile(json.loads(SCHEMA_FILE.read_text()))(document)
    except fastjsonschema.JsonSchemaException as error:
        raise ResultsError(f"{path} is not a results.json: {error.message}") from error
    return document
