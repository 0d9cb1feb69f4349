"""`./twins` as a user runs it, as a real process on this machine."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from native.build import NEEDED_GB, TWINS
from tests.checkout import CHECKOUT
from tests.programs import completed, copy_checkout, programs_to_end

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ft-twins"


def _from_source(variables):
    """Return the variable that keeps the interpreters of a new cache from being downloaded."""
    return {"PYTHON_FROM": "source"} if "XDG_CACHE_HOME" in variables else {}


@pytest.fixture
def twins(shell_environment):
    """Run `./twins ARGUMENT ...` to its end, which has
    to have the exit status *status* if that is given.
    """

    def run(*arguments, status=None, **variables):
        environment = {**shell_environment, **_from_source(variables), **variables}
        return completed([CHECKOUT / "twins", *arguments], status, env=environment)

    return run


@pytest.fixture
def output_of(twins):
    return lambda twin, code: twins("exec", twin, "python", "-c", code, status=0).stdout.strip()


@pytest.fixture
def start_twins(shell_environment):
    """Start `./twins ARGUMENT ...` and return the process, which is ended after the test."""
    with programs_to_end() as start:
        yield lambda *arguments, **variables: start(
            [CHECKOUT / "twins", *arguments],
            env={**shell_environment, **_from_source(variables), **variables},
            stderr=subprocess.STDOUT,
        )


@pytest.fixture
def cache():
    """The cache of the twins that run these tests; skips where they were made by other means."""
    if not (CACHE / "environments").is_dir():
        pytest.skip(f"no twins built by ./twins in {CACHE}")
    return CACHE


@pytest.fixture
def new_cache(cache):
    """A cache (for XDG_CACHE_HOME) without interpreters and environments. It has the source and the
    CUDA libraries of the real cache, so that a build starts with the compiler."""
    base = Path(tempfile.mkdtemp(prefix="ft-twins-test-", dir=cache.parent))
    directory = base / "ft-twins"
    directory.mkdir()
    for shared in ("source", "cuda", "uv"):
        (directory / shared).symlink_to(cache / shared)
    yield base
    shutil.rmtree(base)


@pytest.fixture
def build_cache(new_cache):
    """A new cache with enough disk space for a build; skips if the disk has less."""
    needed = len(TWINS) * (NEEDED_GB["environment"] + NEEDED_GB["interpreter"])
    free = shutil.disk_usage(new_cache).free / 1e9
    if free < needed:
        pytest.skip(
            f"a build wants {needed:.0f} GB of disk, and {free:.1f} GB are free in "
            f"{new_cache.parent}"
        )
    return new_cache


FEW = ("markdown-it-py", "mdurl", "numpy", "packaging", "psutil", "pygments", "rich")
"""What ./twins and ftrun need, and a package with extension modules."""


@pytest.fixture
def small_copy(tmp_path):
    """A copy of the checkout that locks few packages besides the CUDA libraries,
    so that little is installed.
    """
    copy = copy_checkout(tmp_path / "copy")
    lock = copy / "docker" / "requirements.lock"
    entries = re.findall(r"^[a-z0-9].*\n(?: .*\n)*", lock.read_text(), re.M)
    kept = [
        entry for entry in entries if entry.startswith((*(f"{name}==" for name in FEW), "nvidia-"))
    ]
    assert (
        len([entry for entry in kept if not entry.startswith("nvidia-")])
        == len(FEW)
        < len(entries) / 2
    )
    lock.write_text("".join(kept))
    return copy
