"""Blocked runs, which ended before any threads could race: detection, reasons and remedies."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import Kind, Stopper
from ftsafety.repro.script import Script, shell_path

# Distributions whose modules have another name.
DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}


def settled(runs: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return *runs* with the outcomes of blocked runs set to Kind.BLOCKED.

    The runs of a configuration are blocked if all of them ended for the same reason before threads could race. If the
    reason is a missing file, which a thread may have deleted, all configurations must have it.
    """
    stoppers = {config: _common(each) for config, each in runs.items() if any(o.kind.judged for o in each.outcomes)}
    alike = len(set(stoppers.values())) == 1
    result = {}
    for config, each in runs.items():
        stopper = stoppers.get(config)
        if stopper is not None and (stopper.cause != "file" or alike):
            outcomes = [replace(o, kind=Kind.BLOCKED) if o.kind.judged else o for o in each.outcomes]
            each = replace(each, outcomes=outcomes)
        result[config] = each
    return result


def _common(runs: Runs) -> Stopper | None:
    found = {outcome.stopper for outcome in runs.outcomes if outcome.kind.judged}
    return found.pop() if len(found) == 1 else None


def stopped(runs: Mapping[str, Runs]) -> dict[Stopper, list[str]]:
    """Return the reasons of blocked runs, each with its configurations."""
    found: dict[Stopper, list[str]] = {}
    for config, each in runs.items():
        blocked = next((outcome.stopper for outcome in each.outcomes if outcome.kind is Kind.BLOCKED), None)
        if blocked is not None:
            found.setdefault(blocked, []).append(config)
    return found


def reason(stopper: Stopper) -> str:
    """Return in words why the script was blocked."""
    about = stopper.about
    return {
        "module": f"the twins do not have the package of `import {about}`",
        "file": f"there is no file {about}",
        "syntax": f"the interpreter does not know this syntax: {about}",
        "relative": "it imports from its own package, so it must be run as a module of it",
        "stdin": "it asks for input, and standard input is empty",
        "arguments": f"it wants arguments{f' ({about})' if about else ''}",
        "gil": f"its own test ends it: {about}",
        "version": f"its own test ends it: {about}",
        "tests": "pytest found no test in it",
    }.get(stopper.cause, about)


def remedy(stopper: Stopper, script: Script, command: str, running: list[str]) -> str:
    """Return a shell command that avoids the blockage, or "".

    Args:
        command: the command that ran the script.
        running: the configurations that were not blocked.
    """
    cause, about = stopper
    if cause == "module":
        return f"{command} --package {shlex.quote(DISTRIBUTIONS.get(about, about))}"
    if cause == "file" and about.startswith("/"):
        name = shlex.quote(PurePosixPath(about).name)
        return f"{command} --with {name}   # once the script opens {name} without a folder"
    if cause == "file":
        folder = str(PurePosixPath(script.path).parent) if script.path else "."
        top = PurePosixPath(about).parts[0]
        return f"{command} --with {shell_path(top if folder == '.' else f'{folder}/{top}')}"
    if cause in ("syntax", "version"):
        return f"PYTHON_SERIES=3.14 {command}"
    if cause == "relative":
        path = PurePosixPath(script.path or script.name)
        package = path.parent.name or "PACKAGE"
        return f"./twins repro {shell_path(str(path.parent.parent))} -m {package}.{path.stem}"
    if cause == "stdin":
        return f"{command} --stdin FILE"
    if cause == "arguments":
        return f"{command} --arg A"
    if cause == "gil" and running:
        return f"{command} --configs {','.join(running)}"
    return ""
