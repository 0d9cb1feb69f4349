"""Observation of the listings of files that a script makes.
A loop over a listing without files tests nothing.

ftsafety.repro.runner loads this file alone, with any Python.
"""

import _thread
import contextlib
import glob
import os
import re
import resource
import sys
import time

PATTERNS = ("glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob")
FOLDERS = ("os.walk", "os.listdir", "os.scandir")
# Files of the standard library that ask for a listing on behalf of the script. Those of PARTS have
# said so before.
HELPERS = re.compile(r"<frozen os>|.*/(?:os|glob|pathlib(?:/\w+)?)\.py")
PARTS = re.compile(r"<frozen os>|.*/(?:os|glob)\.py")
IDLE_SECONDS = 0.02
"""Processor time that a script needs to start a few threads that do nothing."""


class Listings:
    """Hook for sys.addaudithook that records the listings of the script, whose path is *script*.

    Args:
        sender: the runner's Sender, which knows the script's folder, and whether it has started a
            thread or forked.
        name_of: ftsafety.repro.exceptions.shown.
    """

    def __init__(self, script: str, sender, name_of):
        self.unmatched: dict = {}
        """The patterns that no file matches, as keys, in order."""
        self._script = script
        self._sender = sender
        self._name_of = name_of
        self._matched = False
        self._raced = False
        """True once the script had started a thread or forked before a listing."""
        self._since = seconds()
        self._busy: set = set()  # threads in the hook, whose own listings do not count

    def idle(self) -> bool:
        """Return True if no listing had files, and the script has done next to nothing.

        Imports before the first listing do not count.
        """
        worked = self._matched or self._raced or seconds() - self._since > IDLE_SECONDS
        return bool(self.unmatched) and not worked

    def __call__(self, event: str, arguments: tuple) -> None:
        if event in ("import", "exec") and not self.unmatched:
            self._since = seconds()
        elif event in PATTERNS or event in FOLDERS:
            thread = _thread.get_ident()
            if thread not in self._busy:
                self._busy.add(thread)
                with contextlib.suppress(Exception):  # the script's own call raises it again
                    self._record(event, arguments)
                self._busy.discard(thread)

    def _record(self, event: str, arguments: tuple) -> None:
        frame = sys._getframe(2)
        if event in FOLDERS[1:] and PARTS.fullmatch(frame.f_code.co_filename):
            return
        if not asker_of(frame).startswith(self._sender.folder + os.sep):
            return
        if event in PATTERNS:
            pattern, matched = by_pattern(event, arguments)
        else:
            pattern, matched = self._of_folder(event, arguments[0])
        self._matched |= matched
        if pattern and not matched:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        """Note that no file matches *pattern*, unless the script has made its folder."""
        name = self._name_of(os.path.abspath(pattern), self._sender.folder)
        if name:
            self.unmatched[name] = None
            self._raced |= self._sender.raced

    def _of_folder(self, event: str, folder) -> tuple:
        """Return (pattern, whether any file matches) for a listing of *folder*. The script itself
        does not count.

        The pattern is "" for an empty folder, which the script must have made. Raise OSError if the
        folder cannot be listed and the script gets the error, too: os.walk alone then lists nothing
        without one.
        """
        folder = os.fsdecode(folder or ".")
        pattern = os.path.join(folder, "*")
        if event == "os.walk" and not os.path.isdir(folder):
            return pattern, False
        names = set(os.listdir(folder))
        if not names:
            return "", False
        return pattern, bool(names - {os.path.relpath(self._script, folder)})


def asker_of(frame) -> str:
    """Return the file of the code that asked for a listing: the caller of the standard library."""
    while frame.f_back is not None and HELPERS.fullmatch(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename


def by_pattern(event: str, arguments: tuple) -> tuple:
    """Return (pattern, whether any file matches) for the *event* of a search by a pattern."""
    if event == PATTERNS[0]:
        pattern, recursive, root, descriptor = arguments
        files = glob.iglob(pattern, recursive=recursive, root_dir=root, dir_fd=descriptor)
        path = os.path.join(os.fsdecode(root or ""), os.fsdecode(pattern))
        return path, has_any(files)
    folder, pattern = arguments
    if event == PATTERNS[2]:
        return os.path.join(folder, "**", pattern), has_any(folder.rglob(pattern))
    return os.path.join(folder, pattern), has_any(folder.glob(pattern))


def has_any(files) -> bool:
    return next(iter(files), None) is not None


def seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
