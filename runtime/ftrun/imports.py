"""Imports of all packages in a lock file, to find those that turn the GIL on.

A free-threaded interpreter turns its GIL back on, with a RuntimeWarning, when an extension module
that does not declare itself safe is imported (PEP 703). A child process imports one package after
the other and reports on each. If a package turns the GIL on or crashes the child, another child
imports the remaining packages. The child imports a distribution's top-level packages and modules,
then its extension modules, since ``import PIL`` alone loads none.
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
from collections.abc import Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import Distribution, PackagePath
from pathlib import Path
from typing import TYPE_CHECKING

from ftrun import gil
from ftrun.configurations import child_environment, command, gil_enabled
from ftrun.errors import LockError
from ftrun.project import ROOT, normalise

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Parts = tuple[str, ...]
"""Parts of a path or of a dotted name."""
Modules = tuple[str, str, list[str], list[str]]
"""(name, version, modules, extension modules) of a package."""

DEFAULT_LOCK = ROOT / "docker" / "requirements.lock"


@dataclass
class ImportResult:
    """Result of importing one package: its errors, its warnings,
    and the state of the GIL afterwards.
    """

    name: str
    installed: str
    """The installed version."""
    modules: int = 0
    extensions: int = 0
    gil_enabled_after_import: bool = False
    turned_on_at: str = ""
    """Module and line whose import turned the GIL on: ``msgpack,
    line 12: from ._cmsgpack import Packer``.
    """
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)

    @property
    def turned_gil_on(self) -> bool:
        """True if the GIL was on after the import,
        or a warning said that the import turns it on.
        """
        return self.gil_enabled_after_import or any(
            "global interpreter lock" in line.lower() for line in self.warnings
        )


def read_lock(path: Path) -> dict[str, str]:
    """Return the versions that a lock file pins, by normalised name. Omit lines whose marker
    excludes this Python.

    Raises LockError, which names the line, if a line is not ``name==version [; marker]``.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        text = path.read_text()
    except OSError as error:
        raise LockError(f"cannot read the lock file {path}: {error.strerror}") from error
    pinned = {}
    for line in _requirement_lines(text):
        try:
            requirement = Requirement(line.rstrip("\\").strip())
            version = _pinned_version(requirement)
        except (InvalidRequirement, ValueError) as error:
            raise LockError(f"{path}: not a pinned requirement: {line!r}") from error
        if requirement.marker is None or requirement.marker.evaluate():
            pinned[normalise(requirement.name)] = version
    return pinned


def is_without_cuda(installed: dict[str, str]) -> bool:
    """True if the torch of these packages is built for CPUs alone, as with CUDA=no."""
    return installed.get("torch", "").endswith("+cpu")


def without_cuda(pinned: dict[str, str]) -> dict[str, str]:
    """Return the versions for an environment that docker/install-packages made with CUDA=no, from
    those of `read_lock`.
    """
    kept = {
        name: version
        for name, version in pinned.items()
        if not name.startswith(("nvidia-", "cuda-"))
    }
    for name in kept.keys() & {"torch", "torchvision"}:
        kept[name] += "+cpu"
    return kept


def _requirement_lines(text: str) -> Iterator[str]:
    """Yield the lines that begin with a requirement. Continuation lines,
    which hold the hashes, are indented.
    """
    for line in text.splitlines():
        if line.strip() and line[0] not in " #-":
            yield line


def _pinned_version(requirement: Requirement) -> str:
    """Return the version that a requirement pins; raises ValueError if it pins none or several."""
    (version,) = (limit.version for limit in requirement.specifier if limit.operator == "==")
    return version


def modules_of(distribution: Distribution) -> tuple[list[str], list[str]]:
    """Return two lists of an installed package's modules, by dotted name:
    top-level ones, and extension modules.
    """
    files = [file for file in distribution.files or [] if _is_importable(file)]
    packages = {file.parent.parts for file in files if file.name == "__init__.py"}
    top, extensions = set(), set()
    for file in files:
        if "tests" not in file.parts:
            extensions.add(_extension_name(file))
            top.add(_top_level_name(file, packages))
    return _public(top - {""}), sorted(extensions - {""})


def _public(names: set[str]) -> list[str]:
    """Return the names that do not begin with an underscore; if there are none, all."""
    public = {name for name in names if not name.startswith("_")}
    return sorted(public or names)


def _is_importable(file: PackagePath) -> bool:
    """True if the file's folders, of which `..` is none, have names of packages."""
    return all(part.isidentifier() for part in file.parts[:-1])


def _top_level_name(file: PackagePath, packages: set[Parts]) -> str:
    """Return the dotted name of the top-level package or module that a file makes;
    "" for other files.
    """
    package = file.parent.parts
    if file.name == "__init__.py":
        return "" if _is_inside(package, packages) else ".".join(package)
    if not package and file.suffix == ".py":
        return file.stem
    return ""


def _is_inside(package: Parts, packages: set[Parts]) -> bool:
    return any(package[:depth] in packages for depth in range(1, len(package)))


def _extension_name(file: PackagePath) -> str:
    """Return the dotted name of an extension module; "" for other files."""
    # The interpreter's own tag and the stable ABI; a plain .so is a library, not a module.
    for ending in (f".{sysconfig.get_config_var('SOABI')}.so", ".abi3.so"):
        if file.name.endswith(ending):
            name = file.name.removesuffix(ending)
            return ".".join((*file.parent.parts, name))
    return ""


def judge(names: Iterable[str]) -> Iterator[ImportResult]:
    """Import the installed packages called *names* in child processes;
    yield a verdict for each package.

    Raises importlib.metadata.PackageNotFoundError if a package is not installed.
    """
    packages = []
    for name in names:
        distribution = importlib.metadata.distribution(name)
        packages.append((name, distribution.version, *modules_of(distribution)))
    return judge_modules(packages)


def judge_modules(
    waiting: list[Modules], timeout: float | None = None, folders: Iterable[str] = ()
) -> Iterator[ImportResult]:
    """Import the modules of packages in child processes; yield a verdict for each package.

    `waiting`: the packages. `folders` are added to PYTHONPATH.
    Raises subprocess.TimeoutExpired if all children together take longer than *timeout* seconds.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while waiting:
        child = _Importer(folders, deadline)
        number = 0
        with contextlib.closing(child.verdicts(waiting)) as verdicts:
            for verdict in verdicts:
                number += 1
                yield verdict
        if child.overdue.is_set():
            raise subprocess.TimeoutExpired(child.process.args, timeout or 0.0)
        waiting = waiting[number:]
        status = child.process.returncode
        if waiting and (status or not number):  # an import may end the interpreter with any status
            name, version, *_ = waiting.pop(0)
            yield ImportResult(
                name, version, errors=[f"importing it ended the interpreter (status {status})"]
            )


class _Importer:
    """Child process that imports packages until one turns the GIL on or crashes the child."""

    def __init__(self, folders: Iterable[str], deadline: float | None) -> None:
        self.process = subprocess.Popen(
            command(sys.executable, "ftrun.imports"),
            # Without PYTHON_GIL, which would keep an import from turning the GIL on.
            env=child_environment(paths=folders),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.overdue = threading.Event()
        """Set once the child was killed because of the deadline."""
        left = threading.TIMEOUT_MAX
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
        self._timer = threading.Timer(left, self._kill)
        self._timer.daemon = True

    def _kill(self) -> None:
        self.overdue.set()
        self.process.kill()

    def verdicts(self, packages: list[Modules]) -> Generator[ImportResult]:
        """Import the packages; yield a verdict for each of the first of them.
        Wait for the child's end.
        """
        self._timer.start()
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin and stdout
        try:
            with contextlib.suppress(BrokenPipeError), stdin:
                json.dump(packages, stdin)
            with stdout:
                for line in stdout:
                    yield ImportResult(**json.loads(line))
            self.process.wait()
        finally:
            self._timer.cancel()
            self.process.kill()
            self.process.wait()


def _import_one(name: str) -> tuple[str | None, list[str]]:
    """Import a module; return (error or None, lines that the import wrote to stderr,
    from Python or from C).
    """
    # In memory, since there may be no writable folder here.
    with open(os.memfd_create("stderr"), "w+b") as captured:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(captured.fileno(), 2)
        error = None
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as problem:
            message = f"{name}: {type(problem).__name__}: {problem}"
            error = message.splitlines()[0]
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
        captured.seek(0)
        return error, captured.read().decode(errors="replace").splitlines()


def _import_all(modules: Iterable[str], verdict: ImportResult) -> list[str]:
    """Import modules, and add what that wrote to stderr to the verdict's warnings;
    return the errors.
    """
    errors = []
    for module in modules:
        error, lines = _import_one(module)
        verdict.warnings += lines
        if error:
            errors.append(error)
    return errors


def _child() -> None:
    """Import the packages that stdin lists (JSON); after each, write its verdict to stdout as a
    line of JSON.
    """
    # Modules may print. Their output goes to stderr, and only the answers go to the real stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    enabled_at_start = gil_enabled()
    with gil.noticing() as turned_on:
        for name, version, modules, extensions in json.load(sys.stdin):
            verdict = ImportResult(name, version, len(modules), len(extensions))
            verdict.errors += _import_all(modules, verdict)
            # A private extension may need hardware, or something that only its own package sets up.
            # If it cannot be loaded, that says nothing about the GIL.
            verdict.not_judged += _import_all(extensions, verdict)
            for _, importer, file, number in turned_on:
                if importer != __name__:
                    verdict.turned_on_at = (
                        f"{importer}, line {number}: {linecache.getline(file, number).strip()}"
                    )
            verdict.gil_enabled_after_import = gil_enabled()
            answers.write(json.dumps(asdict(verdict)) + "\n")
            if verdict.gil_enabled_after_import and not enabled_at_start:
                break
    answers.close()
    # Not sys.exit(): tearing down torch takes long, and an exit handler that fails would look like
    # a failed import.
    os._exit(0)


if __name__ == "__main__":
    _child()
