"""Programs that tests run to their end, and copies of the checkout that some of them work in."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import CHECKOUT


def completed(command: Any, status: int | None = None, **options: Any) -> subprocess.CompletedProcess:
    """Run a program with an empty standard input, and return its output as text, unless *options* say otherwise.

    Args:
        status: the exit status that it has to have; None for any.
    """
    if "input" not in options:
        options = {"stdin": subprocess.DEVNULL, **options}
    if not {"stdout", "stderr"} & options.keys():
        options["capture_output"] = True
    done = subprocess.run(command, **{"text": True, **options})
    assert status in (None, done.returncode), f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout's files, without those that git ignores; skip the test if git does not tell them."""
    listed = completed(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT)
    if listed.returncode:
        pytest.skip("this is no clone: git does not say which files belong to it")
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():  # one that was deleted is listed still
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # A link stays one; else Docker would not find the layers that were built from the checkout.
            shutil.copy(CHECKOUT / name, folder / name, follow_symlinks=False)
    return folder


def make_environment(folder: Path, python: str, packages: str, variables: dict[str, str] | None = None) -> Path:
    """Make a virtual environment that sees a twin's installed *packages*, but not the twin's path to the checkout.

    So no gigabytes are installed again. Returns its site-packages.
    """
    completed([python, "-m", "venv", folder], check=True, env=variables)
    asked = [folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(completed(asked, check=True, env=variables).stdout.strip())
    folders = [packages, *(Path(packages) / "cuda-libraries.pth").read_text().split()]
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")
    return site
