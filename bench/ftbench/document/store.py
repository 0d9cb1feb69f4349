"""Writing the files of a run atomically, and reading results.json.

Each file is written to disk (fsync) under a temporary name, then renamed. So if the disk is full or
the process is killed, the previous version of the file is kept, never half of the new one.
"""

import contextlib
import json
import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from ftbench.document.check import Inconsistent, check_form, check_keys
from ftbench.document.convert import as_json, from_json
from ftbench.document.model import SCHEMA_VERSION, Results
from ftrun import host

# A run of all scenarios has some megabytes. Reading takes ten times the memory.
LARGEST = 256 * 2**20


class ResultsError(Exception):
    """Raised if results cannot be written or read;
    the message says which files are intact and what to do.
    """


class WrongPath(ResultsError):
    """Raised if a path that the user named has no valid results to read,
    or cannot be written to.
    """


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: even if this raises OSError, the file has the old or the new
    content, never a part.
    """
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
    # Synchronise the directory, too: it holds the rename.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class RunDirectory:
    """The directory of one run, in the output root (--out).
    Only the controller's thread uses this object.

    The directory is created with its first file,
    so a run that finishes no round leaves no directory.
    """

    def __init__(self, root: Path):
        """Check that files can be written to the output root; raises WrongPath if not."""
        self.root = root
        self.directory: Path | None = None
        try:
            existing_parent = next(path for path in (root, *root.parents) if os.path.lexists(path))
            with tempfile.NamedTemporaryFile(prefix=".probe-", dir=existing_parent) as probe:
                probe.write(b"x" * 4096)
        except OSError as error:
            raise WrongPath(
                f"cannot write results to {root}: {error.strerror or error}; name another "
                f"directory with --out DIR"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file to the run's directory; raises ResultsError if that fails."""
        try:
            if self.directory is None:
                self.directory = self._make_directory()
            write_atomically(self.directory / name, content)
        except OSError as error:
            kept = self._kept()
            if self.directory and not kept:
                with contextlib.suppress(OSError):
                    self.directory.rmdir()
            raise ResultsError(self._cannot_write(name, error, kept)) from error

    def _kept(self) -> list[str]:
        """Return the names of the files that are in the run's directory."""
        files = self.directory.iterdir() if self.directory else ()
        return sorted(file.name for file in files if not file.name.startswith("."))

    def _cannot_write(self, name: str, error: OSError, kept: list[str]) -> str:
        """Return what went wrong, which files are intact, and what to do."""
        where = self.directory or self.root
        state = f"intact there: {', '.join(kept)}" if kept else "nothing of this run was saved"
        remedy = "Make room or name another directory with --out DIR, then run again."
        if name != "results.json" and "results.json" in kept:  # what was measured is safe
            remedy = f"Make room, then make the report: {host.report(str(where))}"
        return (
            f"cannot write {name} to {where}: {error.strerror or error} ({state}; earlier "
            f"results are untouched). {remedy}"
        )

    def _make_directory(self) -> Path:
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        self.root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 100):
            path = self.root / (stamp if attempt == 1 else f"{stamp}-{attempt}")
            try:
                path.mkdir()
                return path
            except FileExistsError:  # another run of the same second
                continue
        raise FileExistsError(f"{self.root} has a hundred runs of this second")

    def save(self, results: Results) -> None:
        """Check that the results fit the schema, then write results.json;
        raises ResultsError if either fails.
        """
        document = as_json(results)
        try:
            check_form(document)
            # NaN and infinities (ValueError) have no place in JSON.
            content = json.dumps(document, indent=1, allow_nan=False) + "\n"
        except (Inconsistent, ValueError) as error:
            raise ResultsError(
                f"results.json is not written, for {error}. This is a defect of bench or of a "
                "scenario's measurement: please report it; rounds written before are intact"
            ) from error
        self.write("results.json", content.encode())

    def publish(self) -> None:
        """Point the symbolic link <root>/latest to this run's directory;
        raises ResultsError if that fails.
        """
        assert self.directory, "there is nothing to publish before a file is written"
        link = self.root / "latest"
        temporary = self.root / f".latest-{os.getpid()}"
        try:
            if link.exists() and not link.is_symlink():
                raise FileExistsError(0, "it exists and is not a symbolic link")
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(self.directory.name)
            temporary.rename(link)
        except OSError as error:
            raise ResultsError(
                f"results are in {self.directory}, but {link} cannot be set: "
                f"{error.strerror or error}"
            ) from error


def find(path: Path) -> Path:
    """Return *path*; if it is a directory, return its results.json or else its latest/results.json.

    Raises WrongPath if the directory has neither file.
    """
    if not path.is_dir():
        return path
    for file in (path / "results.json", path / "latest" / "results.json"):
        if file.exists():
            return file
    raise WrongPath(f"{path} holds no results.json: name a run's directory, or the file")


def load(path: Path) -> Results:
    """Read and check the results.json at *path* (see `find`);
    raises WrongPath if it is missing or invalid.
    """
    path = find(path)
    document = _read(path)
    version = document.get("schema_version") if isinstance(document, dict) else None
    writer = _writer(document)
    if version != SCHEMA_VERSION:
        remedy = "a results.json of ./twins bench is wanted"
        if isinstance(version, int):
            remedy = f"use the bench that wrote it{writer}, or repeat the run"
        raise WrongPath(
            f"{path} has schema version {version}; this bench reads {SCHEMA_VERSION}: {remedy}"
        )
    try:
        check_form(document)
        results = from_json(Results, document)
        check_keys(results)
    except (Inconsistent, OverflowError) as error:  # an integer that no float holds
        raise WrongPath(
            f"{path} is not a results.json that can be trusted: {error}. Restore the file, use the "
            f"bench that wrote it{writer}, or repeat the run"
        ) from error
    return results


def _read(path: Path) -> Any:
    """Return the JSON document at *path*; raises WrongPath if there is none, or one that no file
    could hold again.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise WrongPath(f"{path} is no file")
    try:
        if path.stat().st_size > LARGEST:
            raise WrongPath(f"{path} is no results.json: it has more than {LARGEST // 2**20} MiB")
        document = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongPath(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    except json.JSONDecodeError as error:
        raise WrongPath(
            f"{path} is not JSON: {error}. If it was cut short, copy it again, or repeat the run"
        ) from error
    except (RecursionError, ValueError) as error:
        # Surrogates; a number of more than 4,300 digits; NaN, 1e999.
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise WrongPath(f"{path} is not a results.json: {why}") from error
    return document


def _writer(document: Any) -> str:
    """Return the commit of the benchmark that wrote the document, as " (commit 0123abc...)"; "" if
    none is recorded.
    """
    with contextlib.suppress(KeyError, TypeError):
        return f" (commit {document['environment']['revision']['commit'][:12]})"
    return ""
