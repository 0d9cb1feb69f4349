"""Copies of folders that lack some files, mounted over the folders,
for this process alone (mount_namespaces(7)).

The copies are overlays (overlayfs) whose changes are in memory. So no file below them is written,
moved or deleted.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable

NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount")
"""The start of a command that runs a program with mounts of its own.
It needs no root, but user_namespaces(7).
"""


class CopyError(Exception):
    """The system gives a process no mounts of its own; the message says why."""


def _run(command: Iterable[str], folder: str | None = None) -> None:
    words = list(command)
    try:
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError as error:
        raise CopyError(str(error)) from error
    if done.returncode:
        message = done.stderr.strip() or f"{words[0]} failed"
        raise CopyError(message.splitlines()[0])


def check_namespaces() -> None:
    """Raise CopyError if a program cannot be run with mounts of its own."""
    _run([*NAMESPACES, "true"])


class EmptyCopies:
    """Copies of folders, mounted over them. Only for a process that was started by NAMESPACES.
    Owned by one thread.
    """

    def __init__(self, folders: Iterable[str], memory: str) -> None:
        """Prepare copies of *folders* and of all folders below.
        *memory*: an empty folder of this process's own.

        Raises CopyError, as `mount` does.
        """
        # A copy of a folder around *memory* hides it, so it is mounted last.
        hidden = os.path.realpath(memory)
        self._folders = sorted(_highest(folders), key=hidden.startswith)
        self._memory = memory
        self._mounted: dict[str, int] = {}
        """By folder, a descriptor of the copy. Files are removed through it,
        so never from the folder itself.
        """
        _run(["mount", "-t", "tmpfs", "tmpfs", memory])

    def mount(self, lacking: Iterable[str] = ()) -> None:
        """Replace all copies by new ones, without the files *lacking*."""
        working_folder = os.getcwd()
        for folder in reversed([*self._mounted]):
            os.close(self._mounted.pop(folder))
            _run(["umount", "--lazy", folder])  # the dataset may have files open in it
        layers = []
        for _ in self._folders:
            layers.append(tempfile.mkdtemp(dir=self._memory))
        for folder, layer in zip(self._folders, layers, strict=True):
            self._mounted[folder] = _mount_overlay(folder, layer)
        # Else relative paths would still lead into the folder that is covered.
        os.chdir(working_folder)
        self.remove(lacking)

    def remove(self, files: Iterable[str]) -> None:
        """Remove *files* from the copies, where they are there."""
        for file in files:
            parent = os.path.realpath(os.path.dirname(file))
            path = os.path.join(parent, os.path.basename(file))
            folder = next(folder for folder in self._folders if path.startswith(folder))
            try:
                os.unlink(path[len(folder) :], dir_fd=self._mounted[folder])
            except FileNotFoundError:
                pass
            except OSError as error:  # of a group that has no number among this process's own
                raise CopyError(
                    f"a copy of {folder} cannot be changed: {error.strerror}"
                ) from error


def _highest(folders: Iterable[str]) -> list[str]:
    """Return the real paths of those *folders* that are below no other one.
    Each path ends in "/".
    """
    paths = {os.path.join(os.path.realpath(folder), "") for folder in folders}
    highest: list[str] = []
    for path in sorted(paths):  # a folder comes before those below it
        if not path.startswith(tuple(highest)):
            highest.append(path)
    return highest


def _mount_overlay(folder: str, layer: str) -> int:
    """Mount a copy over *folder*, whose changes go into *layer*;
    return a descriptor of the copy.
    """
    device_below = os.stat(folder).st_dev
    for name in ("upper", "work"):
        os.mkdir(os.path.join(layer, name))
    options = f"lowerdir=.,upperdir={layer}/upper,workdir={layer}/work,userxattr"
    _run(["mount", "-t", "overlay", "-o", options, "overlay", folder], folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if os.fstat(descriptor).st_dev == device_below:
        os.close(descriptor)
        raise CopyError(f"mounting a copy over {folder} had no effect")
    return descriptor
