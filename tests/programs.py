"""Programs that tests run to their end or start,
and copies of the checkout that some of them work in.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import CHECKOUT


def completed(
    command: Any, status: int | None = None, **options: Any
) -> subprocess.CompletedProcess:
    """Run a program with an empty standard input, and return its output as text,
    unless *options* say otherwise.

    Args:
        status: the exit status that it has to have; None for any.
    """
    if "input" not in options:
        options = {"stdin": subprocess.DEVNULL, **options}
    if not {"stdout", "stderr"} & options.keys():
        options["capture_output"] = True
    done = subprocess.run(command, **{"text": True, **options})
    assert status in (None, done.returncode), (
        f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done


def end(process: subprocess.Popen, seconds: float) -> None:
    """Close a program's input and wait for its end; kill its process group,
    which it leads, if that takes longer.
    """
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def programs_to_end() -> Iterator[Callable[..., subprocess.Popen]]:
    """Context manager: yield a function that starts a program, whose input is empty and whose
    output is text in pipes unless its options say otherwise. Each program has a session of its own;
    those still running are ended afterwards.
    """
    started = []

    def start(command: Any, **options: Any) -> subprocess.Popen:
        usual = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        started.append(subprocess.Popen(command, **{**usual, "start_new_session": True, **options}))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                end(process, 60)


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout's files, without those that git ignores;
    skip the test if git does not tell them.
    """
    listed = completed(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT
    )
    if listed.returncode:
        pytest.skip("this is no clone: git does not say which files belong to it")
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():  # one that was deleted is listed still
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # A link stays one; else Docker would not find the layers
            # that were built from the checkout.
            shutil.copy(CHECKOUT / name, folder / name, follow_symlinks=False)
    return folder


def make_environment(
    folder: Path, python: str, packages: str, variables: dict[str, str] | None = None
) -> Path:
    """Make a virtual environment that sees a twin's installed *packages*, but not the twin's path
    to the checkout.

    So no gigabytes are installed again. Returns its site-packages.
    """
    completed([python, "-m", "venv", folder], check=True, env=variables)
    asked = [
        folder / "bin" / "python",
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]
    site = Path(completed(asked, check=True, env=variables).stdout.strip())
    folders = [packages, *(Path(packages) / "cuda-libraries.pth").read_text().split()]
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")
    return site
