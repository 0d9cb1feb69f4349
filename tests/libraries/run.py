"""Program that runs the tests of this folder with the libraries that the twins lack.

    ./twins exec gil python tests/libraries/run.py [LIBRARY ...]

Each library, named at the head of its file (PEP 723), is installed into a temporary folder, whose
packages come before the twin's.
"""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from ftrun.errors import OverlayError
from ftrun.inline_metadata import dependencies
from ftrun.interruption import Interruption
from ftrun.overlay import WithoutWheels, install
from ftrun.project import normalise

HERE = Path(__file__).parent


FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
NOT_NEEDED = {"with_timm": ("safetensors",)}
"""Requirements without wheels for free-threaded builds that a file's library imports in a ``try``."""


def without_wheels(file: Path) -> WithoutWheels:
    """Return what has no wheels for this twin: PyYAML builds without a compiler, and without hf-xet
    there are only no downloads.
    """
    if not FREE_THREADED:
        return WithoutWheels()
    return WithoutWheels(build=("pyyaml",), never=("hf-xet", *NOT_NEEDED.get(file.stem, ())))


def install_for(file: Path, folder: Path, cache: Path, interruption: Interruption) -> list[str]:
    """Install what *file* names and the twin lacks into *folder*;
    return its NAME==VERSION. Raises OverlayError.
    """
    installed = {normalise(each.name): each.version for each in importlib.metadata.distributions()}
    wanted = dependencies(file.read_text())
    return install(
        folder,
        sys.executable,
        wanted,
        installed,
        cache,
        interruption,
        without_wheels=without_wheels(file),
    )


def run(file: Path, work: Path, cache: Path, interruption: Interruption) -> int:
    """Run one file; return pytest's exit status, or 1 if the library cannot be installed."""
    library = file.stem.removeprefix("with_")
    # By the name "site-packages" dill, for one, tells an installed module from the user's.
    folder = work / library / "site-packages"
    try:
        pins = install_for(file, folder, cache, interruption)
    except OverlayError as error:
        print(f"\n== {library}: cannot be installed: {error}", flush=True)
        return 1
    print(f"\n== {library}: {' '.join(pins) or 'in the twin'}", flush=True)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(HERE),
        "-k",
        file.stem,
    ]
    return subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, "PYTHONPATH": paths}
    ).returncode


CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ft-twins"


if __name__ == "__main__":
    with Interruption() as interruption, tempfile.TemporaryDirectory() as work:
        files = [HERE / f"with_{name}.py" for name in sys.argv[1:]] or sorted(
            HERE.glob("with_*.py")
        )
        sys.exit(max(run(file, Path(work), CACHE, interruption) for file in files))
