"""Removal of everything that a script leaves in its container: processes, files in memory, System V IPC objects.

The script's user deletes them, since the supervisor has no capability to reach into other users' folders.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from ftrun import process_tree

# The folders that users other than root can write to in a container whose root file system is read-only.
SHARED = ("/tmp", "/dev/shm", "/dev/mqueue")
SECONDS = 45.0
# `kill -1` reaches every process of the user at once but itself, so none can fork away from it.
DELETE = 'kill -9 -1; chmod -R u+rwX "$@"; find "$@" -mindepth 1 -delete; ipcrm --all'


def clear(user: int, scratch: Path) -> None:
    """End all processes of `user`; delete the scratch folder, and everything that they left in SHARED.

    Raises OSError if something is left.
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
    shutil.rmtree(scratch, ignore_errors=True)
    left = [f"{folder}/{name}" for folder in SHARED for name in os.listdir(folder)]
    left += [path for path in ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg") if _entries(path)]
    left += [f"process {pid}" for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _lives(pid, user)]
    if left:
        raise OSError(f"the script has left what cannot be deleted: {left[0]}")


def _lives(pid: int, user: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(f"/proc/{pid}").st_uid == user and not process_tree.dead(pid)
    return False


def _entries(path: str) -> bool:
    return len(Path(path).read_text().splitlines()) > 1  # the first line is a heading
