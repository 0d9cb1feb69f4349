"""Imports of all packages in a lock file, to find those that turn the GIL on.

A free-threaded interpreter turns its GIL back on, with a RuntimeWarning, when an extension module that does not
declare itself safe is imported (PEP 703). A child process imports one package after the other and reports on each.
If a package turns the GIL on or crashes the child, another child imports the remaining packages. The child imports a
distribution's top-level packages and modules, then its extension modules, since ``import PIL`` alone loads none.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import linecache
import os
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ftrun import gil
from ftrun.configurations import child_environment, command, gil_enabled
from ftrun.project import ROOT, normalise

DEFAULT_LOCK = ROOT / "docker" / "requirements.lock"


class LockError(Exception):
    """The lock file cannot be read, or one of its lines is not a pinned requirement."""


@dataclass
class Verdict:
    """Result of importing one package: its errors, its warnings, and the state of the GIL afterwards."""

    name: str
    installed: str
    """The installed version."""
    modules: int = 0
    extensions: int = 0
    gil_enabled_after_import: bool = False
    turned_on_at: str = ""
    """Module and line whose import turned the GIL on: ``msgpack, line 12: from ._cmsgpack import Packer``."""
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)

    @property
    def turned_gil_on(self) -> bool:
        """True if the GIL was on after the import, or a warning said that the import turns it on."""
        return self.gil_enabled_after_import or any("global interpreter lock" in w.lower() for w in self.warnings)


def read_lock(path: Path) -> dict[str, str]:
    """Return the versions that a lock file pins, by normalised name. Omit lines whose marker excludes this Python.

    Raises LockError, which names the line, if a line is not ``name==version [; marker]``.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        text = path.read_text()
    except OSError as error:
        raise LockError(f"cannot read the lock file {path}: {error.strerror}") from error
    pinned = {}
    for line in text.splitlines():
        # Continuation lines hold the hashes; only the requirement itself starts a line.
        if not line.strip() or line[0] in " #-":
            continue
        try:
            requirement = Requirement(line.rstrip("\\").strip())
            (version,) = [s.version for s in requirement.specifier if s.operator == "=="]
        except (InvalidRequirement, ValueError) as error:
            raise LockError(f"{path}: not a pinned requirement: {line!r}") from error
        if requirement.marker is None or requirement.marker.evaluate():
            pinned[normalise(requirement.name)] = version
    return pinned


def modules_of(distribution: importlib.metadata.Distribution) -> tuple[list[str], list[str]]:
    """Return two lists of an installed package's modules, by dotted name: top-level ones, and extension modules."""
    # The interpreter's own tag and the stable ABI; a plain .so is a library, not a module.
    endings = (f".{sysconfig.get_config_var('SOABI')}.so", ".abi3.so")
    top, extensions = set(), set()
    files = [f for f in distribution.files or [] if f.parts[0] != ".."]
    packages = {f.parent.parts for f in files if f.name == "__init__.py"}
    for file in files:
        parts = file.parts
        if any(not part.isidentifier() for part in parts[:-1]) or "tests" in parts:
            continue
        ending = next((e for e in endings if file.name.endswith(e)), None)
        if ending:
            extensions.add(".".join((*parts[:-1], file.name[: -len(ending)])))
        if file.name == "__init__.py" and not any(parts[:n] in packages for n in range(1, len(parts) - 1)):
            top.add(".".join(parts[:-1]))
        elif len(parts) == 1 and file.suffix == ".py":
            top.add(file.stem)
    public = {name for name in top if not name.startswith("_")}
    return sorted(public or top), sorted(extensions)


def judge(names: Iterable[str]) -> Iterator[Verdict]:
    """Import the installed packages called *names* in child processes; yield a verdict for each package.

    Raises importlib.metadata.PackageNotFoundError if a package is not installed.
    """
    distributions = [(name, importlib.metadata.distribution(name)) for name in names]
    return judge_modules([(name, each.version, *modules_of(each)) for name, each in distributions])


def judge_modules(
    waiting: list[tuple[str, str, list[str], list[str]]], timeout: float | None = None, folders: Iterable[str] = ()
) -> Iterator[Verdict]:
    """Import the modules of packages in child processes; yield a verdict for each package.

    `waiting`: (name, version, modules, extension modules) of each package. `folders` are added to PYTHONPATH.
    Raises subprocess.TimeoutExpired if all children together take longer than *timeout* seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while waiting:
        verdicts = 0
        child = subprocess.Popen(
            command(sys.executable, "ftrun.imports"),
            # Without PYTHON_GIL, which would keep an import from turning the GIL on.
            env=child_environment(paths=folders),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        overdue = threading.Event()
        left = threading.TIMEOUT_MAX if deadline is None else max(0.0, deadline - time.monotonic())
        timer = threading.Timer(left, lambda child=child, overdue=overdue: (overdue.set(), child.kill()))
        timer.daemon = True
        timer.start()
        try:
            assert child.stdin and child.stdout
            with contextlib.suppress(BrokenPipeError), child.stdin:
                json.dump(waiting, child.stdin)
            with child.stdout:
                for line in child.stdout:
                    verdicts += 1
                    yield Verdict(**json.loads(line))
            status = child.wait()
        finally:
            timer.cancel()
            child.kill()
            child.wait()
        if overdue.is_set():
            raise subprocess.TimeoutExpired(child.args, timeout or 0.0)
        waiting = waiting[verdicts:]
        if waiting and (status or not verdicts):  # an import may end the interpreter with any status
            name, version, *_ = waiting.pop(0)
            yield Verdict(name, version, errors=[f"importing it ended the interpreter (status {status})"])


def _import_one(name: str) -> tuple[str | None, list[str]]:
    """Import a module; return (error or None, lines that the import wrote to stderr, from Python or from C)."""
    # In memory, since there may be no writable folder here.
    with open(os.memfd_create("stderr"), "w+b") as captured:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(captured.fileno(), 2)
        error = None
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as problem:
            error = f"{name}: {type(problem).__name__}: {problem}".splitlines()[0]
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
        captured.seek(0)
        return error, captured.read().decode(errors="replace").splitlines()


def _child() -> None:
    """Import the packages that stdin lists (JSON); after each, write its verdict to stdout as a line of JSON."""
    # Modules may print. Their output goes to stderr, and only the answers go to the real stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    enabled_at_start = gil_enabled()
    with gil.noticing() as turned_on:
        for name, version, modules, extensions in json.load(sys.stdin):
            verdict = Verdict(name, version, len(modules), len(extensions))
            # A private extension may need hardware, or something that only its own package sets up. If it cannot be
            # loaded, that says nothing about the GIL.
            for wanted, errors in ((modules, verdict.errors), (extensions, verdict.not_judged)):
                for module in wanted:
                    error, lines = _import_one(module)
                    verdict.warnings += lines
                    errors += [error] if error else []
            for _, importer, file, number in turned_on:
                if importer != __name__:
                    verdict.turned_on_at = f"{importer}, line {number}: {linecache.getline(file, number).strip()}"
            verdict.gil_enabled_after_import = gil_enabled()
            answers.write(json.dumps(asdict(verdict)) + "\n")
            if verdict.gil_enabled_after_import and not enabled_at_start:
                break
    answers.close()
    # Not sys.exit(): tearing down torch takes long, and an exit handler that fails would look like a failed import.
    os._exit(0)


if __name__ == "__main__":
    _child()
