"""Program that runs the tests of this folder with the libraries that the twins lack.

    ./twins exec gil python tests/libraries/run.py [LIBRARY ...]

Each library, named at the head of its file (PEP 723), is installed into a temporary folder, whose packages come
before the twin's.
"""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from ftrun.inline_metadata import dependencies
from ftrun.interruption import Interruption
from ftrun.overlay import OverlayError, install
from ftrun.project import normalise

HERE = Path(__file__).parent


def run(file: Path, work: Path, cache: Path, interruption: Interruption) -> int:
    """Run one file; return pytest's exit status, or 1 if the library cannot be installed."""
    wanted = dependencies(file.read_text())
    library = file.stem.removeprefix("with_")
    installed = {normalise(each.name): each.version for each in importlib.metadata.distributions()}
    try:
        # By the name "site-packages" dill, for one, tells an installed module from the user's.
        folder = work / library / "site-packages"
        pins = install(folder, sys.executable, wanted, installed, cache, interruption, **WITHOUT_WHEELS)
    except OverlayError as error:
        print(f"\n== {library}: cannot be installed: {error}", flush=True)
        return 1
    print(f"\n== {library}: {' '.join(pins) or 'in the twin'}", flush=True)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE), "-k", file.stem]
    return subprocess.run(command, cwd=HERE.parents[1], env={**os.environ, "PYTHONPATH": paths}).returncode


# What has no wheels for free-threaded builds: PyYAML builds without a compiler, and without hf-xet there are
# only no downloads.
WITHOUT_WHEELS = {"build": ["pyyaml"], "never": ["hf-xet"]} if sysconfig.get_config_var("Py_GIL_DISABLED") else {}


if __name__ == "__main__":
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ft-twins"
    with Interruption() as interruption, tempfile.TemporaryDirectory() as work:
        files = [HERE / f"with_{name}.py" for name in sys.argv[1:]] or sorted(HERE.glob("with_*.py"))
        sys.exit(max(run(file, Path(work), cache, interruption) for file in files))
