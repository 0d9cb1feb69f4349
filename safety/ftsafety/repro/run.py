"""One run of a script in one configuration, in a scratch folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ftrun import process_tree
from ftrun.configurations import CONFIGURATIONS, child_environment
from ftrun.loop import Watch
from ftsafety.repro import runner
from ftsafety.repro.classify import classify, printable
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.request import Request
from ftsafety.repro.script import Script
from ftsafety.repro.watch import Ended, watch

# The caller's variables that a script sees: those a Python needs to run, and nothing secret.
PASSED_ON = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
PASSED_ON_PREFIXES = ("LC_", "OMP_", "MKL_", "OPENBLAS_", "NVIDIA_")
# A script that lists files is observed by an audit hook. Others are not: it takes time, and moves
# what is allocated.
LISTS = re.compile(rb"\b(?:[ir]?glob|listdir|scandir|iterdir|walk)\b")
# The folders that users other than root can write to
# in a container whose root file system is read-only.
SHARED = ("/tmp", "/dev/shm", "/dev/mqueue")
OBJECTS = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")
SECONDS = 45.0
# `kill -9 -1` reaches all processes of the user at once, except itself,
# so no process can escape it by forking.
DELETE = 'kill -9 -1; chmod -R u+rwX "$@"; find "$@" -mindepth 1 -delete; ipcrm --all'


def environment(
    python: str, request: Request, scratch: Path, overlay: str | None = None
) -> dict[str, str]:
    """Return a run's environment variables. The folder *overlay*
    (see `run`) goes onto PYTHONPATH.
    """
    kept = {name: value for name, value in os.environ.items() if _is_passed_on(name)}
    variables = child_environment(None, kept)
    # A script that starts "python3" gets the Python that runs it, not that of the driver.
    variables["PATH"] = _joined(os.path.dirname(python), kept.get("PATH", os.defpath))
    forced = _python_gil(request)
    if forced is not None:
        variables["PYTHON_GIL"] = forced
    if overlay:
        variables["PYTHONPATH"] = _joined(overlay, variables.get("PYTHONPATH", ""))
    home = str(scratch / "home")
    temporary = str(scratch / "tmp")
    return {
        **variables,
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "TMPDIR": temporary,
        "REPRO_THREADS": str(request.threads),
        # A crash loses no output in a buffer, and no packages from the user's home are imported.
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Tests run without plugins that happen to be installed in a twin.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def _python_gil(request: Request) -> str | None:
    """Return the value of PYTHON_GIL in a run; None if the variable is not set."""
    # In ft it is left alone at first, so that an import that turns the GIL on is seen.
    if request.config == "ft" and not request.force_off:
        return None
    return CONFIGURATIONS[request.config].python_gil


def run(
    python: str,
    request: Request,
    descriptors: Watch,
    user: int | None = None,
    overlay: str | None = None,
) -> Outcome:
    """Run a script once with *python*; remove the run's processes and scratch folder;
    return the outcome.

    Args:
        descriptors: file descriptors to watch, with a callback each; a callback that returns True
            ends the run.
        user: the user id that the script runs under; nothing else in this container may use it. All
            files of this user are deleted afterwards. Without a user id, files outside of the
            scratch folder remain.
        overlay: a folder of packages that Python finds before the twin's own packages.

    Raises:
        ftrun.errors.Stopped: a callback of *descriptors* ended the run.
        OSError: files or processes of *user* remain.
    """
    scratch = Path(tempfile.mkdtemp(prefix="ft-repro-")).resolve()  # as stacks name it
    try:
        _make_folders(scratch, user)
        try:
            _write_files(scratch, request.script)
            ended = _watched(python, request, scratch, descriptors, user, overlay)
        except OSError as error:
            return Outcome(Kind.ERROR, printable(f"the run could not be made: {error}".encode()))
        # The script's folder comes first, since the scratch folder contains it.
        hidden = [str(scratch / "script"), str(scratch)]
        if overlay:
            hidden.append(overlay)
        return classify(ended, hidden)
    finally:
        if user is None:
            _remove(scratch)
        else:
            clear(user, scratch)


def _make_folders(scratch: Path, user: int | None) -> None:
    """Make the folders in the scratch folder that are the script's."""
    if user is not None:
        scratch.chmod(0o755)
    for name in ("script", "home", "tmp"):
        folder = scratch / name
        folder.mkdir()
        # for the script's user; others do not get into the scratch folder
        folder.chmod(0o777)


def _write_files(scratch: Path, script: Script) -> None:
    """Write the script, the files beside it and its standard input into the scratch folder."""
    _write(scratch / "script", [*script.files, (script.name, script.source)])
    (scratch / "stdin").write_bytes(script.stdin)


def _watched(
    python: str,
    request: Request,
    scratch: Path,
    descriptors: Watch,
    user: int | None,
    overlay: str | None,
) -> Ended:
    """Start the runner in the scratch folder, and watch the run to its end."""
    script = request.script
    home = scratch / "script"
    limits = request.limits
    specification = {
        "folder": str(home),
        "script": str(home / script.name),
        "how": script.how,
        "module": script.module,
        "arguments": script.arguments,
        "lists": _lists(script),
        "limits": {"RLIMIT_FSIZE": limits.disk // 2, "RLIMIT_CORE": 0},
    }

    def command(status: int, stacks: int) -> list[str]:
        pipes = {"status": status, "stacks": stacks}
        return [python, "-P", runner.__file__, json.dumps({**pipes, **specification})]

    variables = environment(python, request, scratch, overlay)
    with open(scratch / "stdin", "rb") as stdin:
        return watch(command, variables, home, scratch, limits, stdin, descriptors, user)


def _lists(script: Script) -> bool:
    """Return True if the script, or a file beside it, may list files."""
    if LISTS.search(script.source):
        return True
    return any(name.endswith(".py") and LISTS.search(content) for name, content in script.files)


def _is_passed_on(name: str) -> bool:
    return name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)


def _joined(*folders: str) -> str:
    """Return folders as a search path, without empty ones."""
    return os.pathsep.join(filter(None, folders))


def _write(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into *folder*. The files, and the folders made for them,
    are read-only for the script.
    """
    parents: set[Path] = set()
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
        parents.update(parent for parent in path.parents if folder in parent.parents)
    for parent in parents:
        parent.chmod(0o555)


def _remove(directory: Path) -> None:
    """Delete a folder, even if the script has removed write permissions in it."""

    def allow(function, path, _error) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if not os.path.islink(path):
                os.chmod(path, 0o700, follow_symlinks=False)
            function(path)

    shutil.rmtree(directory, onexc=allow)
    shutil.rmtree(directory, ignore_errors=True)


def clear(user: int, scratch: Path) -> None:
    """Kill the processes of `user`; delete the scratch folder, the user's System V IPC objects and
    files in SHARED.

    This process cannot access the user's folders, so a helper process under the user's id deletes
    them. Raises OSError if something remains.
    """
    try:
        subprocess.run(
            ["sh", "-c", DELETE, "sh", *SHARED],
            user=user,
            group=user,
            extra_groups=[],
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,  # the checks below say if it worked
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"what the script has left was not deleted within {SECONDS:.0f} s") from error
    _remove(scratch)
    left = next(_left(user), None)
    if left:
        raise OSError(f"the script has left what cannot be deleted: {left}")


def _left(user: int) -> Iterator[str]:
    """Yield the files, System V IPC objects and processes that were not removed."""
    for folder in SHARED:
        for name in os.listdir(folder):
            yield f"{folder}/{name}"
    yield from filter(_entries, OBJECTS)
    for name in filter(str.isdigit, os.listdir("/proc")):
        if _lives(int(name), user):
            yield f"process {name}"


def _lives(pid: int, user: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(f"/proc/{pid}").st_uid == user and not process_tree.dead(pid)
    return False


def _entries(path: str) -> bool:
    return len(Path(path).read_text().splitlines()) > 1  # the first line is a heading
