"""Threads that hang."""

import sys
import threading
import traceback

from ftsafety.audit.samples import HERE


class Stuck(Exception):
    """No thread has finished a sample for a long time; `stacks` are those of the threads that hang."""

    def __init__(self, seconds: float, stacks: str, names: list[str], line: str) -> None:
        super().__init__(f"no thread has finished a sample for {seconds:.0f} s")
        self.stacks, self.names, self.line = stacks, names, line


def stuck(threads: list[threading.Thread], seconds: float) -> Stuck:
    """Return an exception to raise, with the present stacks of the threads that hang."""
    frames = sys._current_frames()
    texts, names, line = [], [], ""
    for each in threads:
        frame = frames.get(each.ident or 0)
        stack = traceback.extract_stack(frame) if frame is not None else []
        own = [entry for entry in stack if not entry.filename.startswith(HERE) and entry.filename != threading.__file__]
        if not own or not each.is_alive():
            continue  # at the barrier
        names.append(each.name)
        line = line or f"{own[-1].filename}:{own[-1].lineno}  {own[-1].line}"
        texts.append(f"{each.name}:\n" + "".join(traceback.format_list(own)).rstrip())
    return Stuck(seconds, "\n".join(texts), names, line)
