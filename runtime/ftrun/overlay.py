"""Installation of packages that a twin lacks, into a temporary folder
that child processes have on `sys.path`.

uv resolves a script's requirements against the twin's packages, so that nothing is installed twice.
Normally only wheels are installed: building a source distribution would run its code and need a
compiler.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ftrun.errors import Interrupted, OverlayError, Stopped, TimedOut
from ftrun.interruption import Interruption
from ftrun.project import ROOT, normalise
from ftrun.supervise import Completed, supervise

if TYPE_CHECKING:
    from packaging.requirements import Requirement

UV_LOCK = ROOT / "docker" / "uv.lock"
INSTALL_SECONDS = 900.0
LONGEST_WORDS = 700  # characters at the end of an error of uv or pip
# The caller's variables that uv and pip see: the sources of packages. Other variables, which may be
# secret, are not.
PASSED_ON = re.compile(
    r"(PATH|HOME|USER|LANG|TMPDIR|NETRC|XDG_CACHE_HOME|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT)|UV_(DEFAULT_INDEX|INDEX|FIND_LINKS|NO_INDEX|CACHE_DIR|OFFLINE))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WithoutWheels:
    """Distributions of which the package index has no wheels."""

    build: tuple[str, ...] = ()
    """Names of those that may be built from source."""
    never: tuple[str, ...] = ()
    """Names of those to leave out even if a package requires them."""


ALL_FROM_WHEELS = WithoutWheels()


def install(
    folder: Path,
    python: str,
    requirements: Iterable[str],
    installed: Mapping[str, str],
    cache: Path,
    interruption: Interruption,
    constraints: Iterable[str] = (),
    without_wheels: WithoutWheels = ALL_FROM_WHEELS,
) -> list[str]:
    """Install, into a new `folder`, the packages that `requirements` need and the twin lacks.

    Returns the installed packages as NAME==VERSION.
    Raises Interrupted, or OverlayError if a requirement is malformed or no wheel fits the twin's
    Python, `python`.

    Args:
        installed: versions of the twin's own packages by normalised name. They are used where
            `requirements` allow it.
        cache: the folder for uv's cache, and for the pinned uv if PATH has no uv.
        constraints: versions (NAME==VERSION) that must be used, such as those that the other twin
            got.
        without_wheels: distributions that are not to be installed from wheels.
    """
    checked = [_checked(requirement) for requirement in requirements]
    uv = find_uv(cache, interruption)
    folder.mkdir(parents=True)
    wheels = ["--only-binary", ":all:", *(f"--no-binary={name}" for name in without_wheels.build)]
    resolver = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", *wheels]
    resolver += ["--no-emit-package", "triton", "--python", python]
    left_out = folder.with_name(folder.name + ".never")
    _write(left_out, [f"{name}; python_version < '3'" for name in without_wheels.never])
    resolver += ["--overrides", str(left_out)]
    requirements_file = folder.with_name(folder.name + ".in")
    _write(requirements_file, checked)
    resolver.append(str(requirements_file))
    choices = _choices(checked, installed, constraints)
    pins = _resolve(resolver, folder, choices, cache, interruption)
    missing = _missing(pins, installed)
    if missing:
        installer = [uv, "pip", "install", "--quiet", "--no-deps", *wheels]
        installer += ["--python", python, "--target", str(folder)]
        done = run([*installer, *missing], cache, interruption)
        if done.returncode:
            raise OverlayError(last_words(done))
    return missing


def _missing(pins: list[str], installed: Mapping[str, str]) -> list[str]:
    """Return those of the *pins* that are not installed in this version."""
    missing = []
    for pin in pins:
        name, _, version = pin.partition("==")
        if installed.get(normalise(name)) != version:
            missing.append(pin)
    return missing


def _choices(
    requirements: Iterable[str], installed: Mapping[str, str], constraints: Iterable[str]
) -> list[dict[str, str]]:
    """Return the sets of pins to try, {name: pin}.

    If the script needs other versions than the twin's, pins are dropped:
    first of the packages that it names.
    """
    fixed = {normalise(pin.partition("==")[0]): pin for pin in constraints}
    twin_pins = {name: f"{name}=={version}" for name, version in installed.items()}
    unnamed = dict(twin_pins)
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        assert name, "a checked requirement begins with a name"
        unnamed.pop(normalise(name[0]), None)
    return [{**twin_pins, **fixed}, {**unnamed, **fixed}, fixed]


def _resolve(
    resolver: list[str],
    folder: Path,
    choices: Iterable[dict[str, str]],
    cache: Path,
    interruption: Interruption,
) -> list[str]:
    """Return the versions (NAME==VERSION) that fit the first
    of the *choices* for which there are any.
    """
    constraints = folder.with_name(folder.name + ".held")
    for pins in choices:
        _write(constraints, pins.values())
        done = run([*resolver, "--constraints", str(constraints)], cache, interruption)
        if done.returncode == 0:
            lines = done.stdout.decode().splitlines()
            return [line.strip() for line in lines if _is_pin(line)]
    raise OverlayError(last_words(done))


def _is_pin(line: str) -> bool:
    return bool(line.strip()) and line[0] not in " #-"


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def has_wheel(
    requirement: str, series: str, free_threaded: bool, cache: Path, interruption: Interruption
) -> bool:
    """True if pip finds a wheel of `requirement` that fits this machine and CPython `series`.

    `free_threaded`: True for the free-threaded build of CPython, False for the build with the GIL.
    """
    abi = f"cp{series.replace('.', '')}"
    if free_threaded:
        abi += "t"
    pip = [
        sys.executable,
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
    ]
    pip += [
        "--only-binary=:all:",
        "--python-version",
        series,
        "--abi",
        abi,
        "--target",
        str(cache / "none"),
    ]
    for platform in ("manylinux_2_28", "manylinux2014", "manylinux_2_17"):
        pip.append(f"--platform={platform}_{os.uname().machine}")
    try:
        return run([*pip, _checked(requirement)], cache, interruption).returncode == 0
    except OverlayError:
        return False


def find_uv(cache: Path, interruption: Interruption) -> str:
    """Return the path of uv. If PATH has no uv, install the pinned version into *cache*."""
    if path := shutil.which("uv"):
        return path
    pin = re.search(r"^uv==\S+", UV_LOCK.read_text(), re.MULTILINE)
    version = pin[0] if pin else "uv"
    directory = cache / "tools" / version
    if not (directory / "bin" / "uv").exists():
        draft = directory.with_name(f".{version}.{os.getpid()}")
        pip = [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
        ]
        done = run([*pip, "--target", str(draft), "-r", str(UV_LOCK)], cache, interruption)
        try:
            if done.returncode:
                raise OverlayError(
                    "uv, which installs extra packages, cannot be installed: " + last_words(done)
                )
            with contextlib.suppress(OSError):  # another run was faster
                draft.rename(directory)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return str(directory / "bin" / "uv")


def run(command: list[str], cache: Path, interruption: Interruption) -> Completed:
    """Run uv or pip to its end. Raises OverlayError if it cannot be run
    or takes too long, or Interrupted.
    """
    watch = {interruption.fileno(): interruption.wanted}
    try:
        return supervise(command, b"", _variables(cache), watch, INSTALL_SECONDS)
    except Stopped:
        raise Interrupted(interruption.signum) from None
    except TimedOut as error:
        raise OverlayError(f"{Path(command[0]).name} {error}") from error
    except OSError as error:
        raise OverlayError(f"{command[0]} cannot be run: {error}") from error


def _variables(cache: Path) -> dict[str, str]:
    """Return the environment variables for uv and pip."""
    variables = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    for switch in (
        "UV_NO_PROGRESS",
        "UV_NO_CONFIG",
        "UV_SYSTEM_CERTS",
        "PIP_DISABLE_PIP_VERSION_CHECK",
    ):
        variables[switch] = "1"
    variables.setdefault("UV_CACHE_DIR", str(cache / "uv"))
    if variables.get("PIP_INDEX_URL"):
        variables.setdefault("UV_DEFAULT_INDEX", variables["PIP_INDEX_URL"])
    return variables


def absent(requirement: str, installed: Mapping[str, str]) -> bool:
    """True if `requirement` is malformed, or not met
    by `installed` (versions by normalised name).
    """
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import Requirement

    try:
        parsed = Requirement(requirement)
        if parsed.marker is not None and not parsed.marker.evaluate():
            return False
        version = installed.get(normalise(parsed.name))
        return version is None or not parsed.specifier.contains(version, prereleases=True)
    # ValueError: InvalidRequirement, InvalidVersion, and a number of more than 4,300 digits.
    except (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return True


def parse(text: str) -> Requirement:
    """Return *text* as a requirement (PEP 508). Raises ValueError,
    which says what is wrong with it.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise ValueError("is no requirement (PEP 508)") from error
    if not str(requirement).isprintable():  # a marker's strings may hold line ends
        raise ValueError("holds characters that no requirement has")
    return requirement


def _checked(text: str) -> str:
    """Return a requirement in a form that uv cannot take as an option; raises OverlayError if
    malformed or a URL.
    """
    try:
        requirement = parse(text)
    except ValueError as error:
        raise OverlayError(f"{text[:200]!r} {error}") from error
    if requirement.url:
        raise OverlayError(
            f"{text[:200]!r} names an address; only wheels of a package index are installed"
        )
    return str(requirement)


def last_words(done: Completed) -> str:
    text = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
    text = " ".join(text.split())
    if len(text) <= LONGEST_WORDS:
        return text
    end = text[-LONGEST_WORDS:].partition(" ")[2]
    return f"... {end}"
