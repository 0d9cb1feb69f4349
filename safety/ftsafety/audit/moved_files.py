"""Record of the moves of file positions by threads that load in turns."""

from collections.abc import Container
from typing import Any, NamedTuple

from ftsafety.audit.file_positions import OpenFile, has_position, positions
from ftsafety.audit.report import SourceLine


class Move(NamedTuple):
    """Line of user code that changes the position in an open file,
    such as a call of ``seek()`` or ``read()``.
    """

    line: SourceLine
    file: str
    direct: bool
    """True if the line calls a method of the file, False if it calls a library, which may have a
    lock of its own.
    """


class _Call(NamedTuple):
    """Call that may move positions, and the positions before it."""

    line: SourceLine
    guarded: bool
    direct: bool
    positions: dict[OpenFile, int]


class MoveRecorder:
    """Recorder of the moves of all threads, one of which loads at a time.

    A move is seen at the next call after the one that moved the position.
    """

    def __init__(self, files: list[Any]) -> None:
        """*files*: the files and memory maps that the dataset refers to."""
        self._files = files
        self._moves_by_thread: list[dict[OpenFile, list[_Call]]] = []
        self._open_before: set[OpenFile] = set()
        self._last_call: _Call | None = None

    def start_thread(self) -> None:
        """Add what is recorded next to a thread of its own."""
        self._moves_by_thread.append({})

    def start_sample(self, place: SourceLine) -> None:
        """Note the positions before a sample. *place*: the line for moves before the first call."""
        before = positions(self._files)
        self._open_before = set(before)
        self._last_call = _Call(place, True, False, before)

    def watch(self, value: Any) -> None:
        """Watch *value* from now on, if it is a file."""
        if has_position(value) and not any(value is file for file in self._files):
            self._files.append(value)

    def next_call(
        self, line: SourceLine, guarded: bool, direct: bool, lent: Container[int]
    ) -> None:
        """Record the positions that the previous call moved, and take up the call in *line*.

        *guarded*: True if the thread holds a lock. *direct*: True if the call is that of a file's
        method. *lent*: ids and descriptors of files that the thread has alone.
        """
        call = self._last_call
        if call is None:
            return
        after = positions(self._files)
        moves = self._moves_by_thread[-1]
        for file, position in after.items():
            has_moved = call.positions.get(file, position) != position
            if has_moved and self._is_shared(file, lent):
                moves.setdefault(file, []).append(call)
        self._last_call = _Call(line, guarded, direct, after)

    def _is_shared(self, file: OpenFile, lent: Container[int]) -> bool:
        # A file opened for this sample belongs to the thread,
        # though another file may get its descriptor later.
        return file in self._open_before and file.identity[1] not in lent

    def end_sample(self, place: SourceLine, lent: Container[int]) -> None:
        """Record the positions that the last call moved."""
        self.next_call(place, True, False, lent)
        self._last_call = None

    def moves(self) -> set[Move]:
        """Return the moves without a lock of the files that all threads moved."""
        moved_by_all = set.intersection(*map(set, self._moves_by_thread))
        moves: set[Move] = set()
        for calls_by_file in self._moves_by_thread:
            for file in moved_by_all:
                for call in calls_by_file[file]:
                    if not call.guarded:
                        moves.add(Move(call.line, file.name, call.direct))
        return moves
