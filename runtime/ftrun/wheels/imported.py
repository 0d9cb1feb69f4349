"""Import of required packages, each in a process of its own.
Packages that this twin lacks are installed first.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from ftrun import imports, overlay
from ftrun.environment import packages
from ftrun.imports import ImportResult
from ftrun.interruption import Interruption
from ftrun.project import normalise

_SECONDS = 120.0  # for the imports of one package


def imported(
    requirement: Requirement, cache: Path, interruption: Interruption
) -> Iterator[ImportResult]:
    """Import a required package and the packages that it needs and this twin lacks;
    yield a verdict for each.

    *cache* is the folder for uv and its cache. Raises ``Interrupted``,
    or ``OverlayError`` if installing fails.
    """
    with tempfile.TemporaryDirectory(prefix="ft-imports-") as work:
        folder = Path(work) / "packages"
        added = overlay.install(
            folder, sys.executable, [str(requirement)], packages(), cache, interruption
        )
        names = {normalise(requirement.name)}
        for pin in added:
            names.add(normalise(pin.partition("==")[0]))
        for name in sorted(names):
            interruption.check()
            distributions = importlib.metadata.distributions(name=name, path=[str(folder)])
            try:
                distribution = next(iter(distributions), None) or importlib.metadata.distribution(
                    name
                )
            except importlib.metadata.PackageNotFoundError:  # its marker excludes this interpreter
                continue
            package = (name, distribution.version, *imports.modules_of(distribution))
            try:
                yield from imports.judge_modules([package], _SECONDS, [str(folder)])
            except subprocess.TimeoutExpired:
                yield ImportResult(
                    name, distribution.version, errors=[f"its import took over {_SECONDS:.0f} s"]
                )
