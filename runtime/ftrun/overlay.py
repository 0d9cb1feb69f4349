"""Packages that the twins lack, installed into a temporary folder that comes first on the path of a run.

uv resolves a script's requirements against the twin's packages, so that nothing is installed twice. Only
wheels are installed: building a source distribution would run its code and need a compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ftrun.child_process import Outcome, Stopped, TimedOut, supervise
from ftrun.interruption import Interrupted, Interruption
from ftrun.project import ROOT, normalise

UV_LOCK = ROOT / "docker" / "uv.lock"
INSTALL_SECONDS = 900.0
# Characters of what uv or pip said last.
LONGEST_WORDS = 700
# What uv and pip see of the caller's variables: where packages come from, and nothing that is secret but for that.
PASSED_ON = re.compile(
    r"(PATH|HOME|USER|LANG|TMPDIR|NETRC|XDG_CACHE_HOME|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT)|UV_(DEFAULT_INDEX|INDEX|FIND_LINKS|NO_INDEX|CACHE_DIR|OFFLINE))",
    re.IGNORECASE,
)


class OverlayError(Exception):
    """The packages cannot be installed for a twin; the message says why."""


class Overlays:
    """Makes overlays, with uv from PATH or the pinned one, which is kept in `cache`. Owned by one thread."""

    def __init__(self, cache: Path, work: Path, interruption: Interruption):
        """
        Args:
            cache: a folder to keep uv and its downloads in.
            work: a folder for the overlays, deleted by the caller.
        """
        self._cache, self._work, self._interruption = cache, work, interruption
        self._uv: Path | None = None
        self._made = 0

    def make(
        self,
        python: str,
        requirements: Iterable[str],
        installed: Mapping[str, str],
        constraints: Iterable[str] = (),
        dependencies: bool = True,
        build: Iterable[str] = (),
        never: Iterable[str] = (),
    ) -> tuple[str, list[str]]:
        """(folder, pins): what `requirements` need beyond `installed`, and the pinned versions of it.

        Args:
            python: the twin's interpreter.
            installed: versions by normalised name; kept where the requirements allow it.
            constraints: pins to prefer, such as those of the other twin.
            dependencies: whether to install the requirements' own dependencies too.
            build: distributions to build from source after all.
            never: distributions to leave out, whoever requires them.

        Raises:
            OverlayError: a requirement is malformed, or no wheels fit this interpreter.
            ftrun.interruption.Interrupted: the user asked to stop.
        """
        checked = [_checked(each) for each in requirements]
        self._made += 1
        directory = self._work / f"overlay-{self._made}"
        directory.mkdir(parents=True)
        wanted, held, left_out = (directory.with_suffix(suffix) for suffix in (".in", ".held", ".never"))
        wanted.write_text("".join(f"{each}\n" for each in checked))
        held.write_text(
            "".join(f"{name}=={version}\n" for name, version in installed.items())
            + "".join(f"{pin}\n" for pin in constraints)
        )
        left_out.write_text("".join(f"{name}; python_version < '3'\n" for name in never))
        wheels = ["--only-binary", ":all:", *(f"--no-binary={name}" for name in build)]
        compile_ = [
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            *wheels,
            "--overrides",
            str(left_out),
            "--no-emit-package",
            "triton",
            "--python",
            python,
            str(wanted),
            *([] if dependencies else ["--no-deps"]),
        ]
        done = self._run(*compile_, "--constraints", str(held)) if dependencies else None
        if done is None or done.returncode:
            # The script wants another version than the twin's, and gets it.
            done = self._run(*compile_)
        if done.returncode:
            raise OverlayError(_last_words(done))
        pins = [line.strip() for line in done.stdout.decode().splitlines() if line.strip() and line[0] not in " #-"]
        missing = [pin for pin in pins if installed.get(normalise(pin.partition("==")[0])) != pin.partition("==")[2]]
        if missing:
            done = self._run(
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                *wheels,
                "--python",
                python,
                "--target",
                str(directory),
                *missing,
            )
            if done.returncode:
                raise OverlayError(_last_words(done))
        return str(directory), missing

    def _run(self, *arguments: str) -> Outcome:
        uv = self._uv = self._uv or self._find_uv()
        return self._supervise([str(uv), *arguments])

    def _supervise(self, command: list[str]) -> Outcome:
        variables = {
            **{name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)},
            "UV_NO_PROGRESS": "1",
            "UV_NO_CONFIG": "1",
            "UV_SYSTEM_CERTS": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        variables.setdefault("UV_CACHE_DIR", str(self._cache / "uv"))
        if variables.get("PIP_INDEX_URL"):
            variables.setdefault("UV_DEFAULT_INDEX", variables["PIP_INDEX_URL"])
        try:
            return supervise(
                command, b"", variables, {self._interruption.fileno(): self._interruption.wanted}, INSTALL_SECONDS
            )
        except Stopped:
            raise Interrupted(self._interruption.signum) from None
        except TimedOut as error:
            raise OverlayError(f"{Path(command[0]).name} {error}") from error
        except OSError as error:
            raise OverlayError(f"{command[0]} cannot be run: {error}") from error

    def _find_uv(self) -> Path:
        found = shutil.which("uv")
        if found:
            return Path(found)
        version = next((line.split()[0] for line in UV_LOCK.read_text().splitlines() if line.startswith("uv==")), "uv")
        directory = self._cache / "tools" / version
        if not (directory / "bin" / "uv").exists():
            draft = directory.with_name(f".{version}.{os.getpid()}")
            done = self._supervise(
                [
                    sys.executable,
                    "-I",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-deps",
                    "--require-hashes",
                    "--target",
                    str(draft),
                    "-r",
                    str(UV_LOCK),
                ]
            )
            if done.returncode:
                shutil.rmtree(draft, ignore_errors=True)
                raise OverlayError("uv, which installs extra packages, cannot be installed: " + _last_words(done))
            try:
                draft.rename(directory)
            except OSError:  # another run was faster
                shutil.rmtree(draft, ignore_errors=True)
        return directory / "bin" / "uv"


def absent(requirement: str, installed: Mapping[str, str]) -> bool:
    """Whether `installed` (versions by normalised name) lacks it, or it cannot be understood."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import Requirement

    try:
        wanted = Requirement(requirement)
        if wanted.marker is not None and not wanted.marker.evaluate():
            return False
        version = installed.get(normalise(wanted.name))
        return version is None or not wanted.specifier.contains(version, prereleases=True)
    # ValueError: InvalidRequirement, InvalidVersion, and a number of more than 4,300 digits.
    except (ValueError, UndefinedComparison, UndefinedEnvironmentName, RecursionError):
        return True


def _checked(requirement: str) -> str:
    """A requirement as `packaging` prints it, which is one line of a requirements file and no option there."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        parsed = Requirement(requirement)
    except (InvalidRequirement, RecursionError) as error:
        raise OverlayError(f"{requirement[:200]!r} is not a requirement (PEP 508)") from error
    if parsed.url:
        raise OverlayError(f"{requirement[:200]!r} names an address; only wheels of a package index are installed")
    # A marker's strings may hold line ends.
    if not str(parsed).isprintable():
        raise OverlayError(f"{requirement[:200]!r} holds characters that no requirement has")
    return str(parsed)


def _last_words(done: Outcome) -> str:
    text = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_WORDS else "... " + text[-LONGEST_WORDS:].partition(" ")[2]
