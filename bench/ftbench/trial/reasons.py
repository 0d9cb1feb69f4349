"""The reason why a trial failed: a line on its stderr, which its workers write to as well."""

from collections.abc import Sequence

MARK = "trial: "
"""How the line with the reason begins."""


def with_reason(why: str) -> str:
    """Return the text with its reason marked: a traceback gets a line for it. Worker processes that
    lose this one may write tracebacks of their own below.
    """
    why = why.rstrip("\n")
    if why.startswith(MARK):
        return why
    return f"{why}\n{MARK}{reason_of(why)}"


def reason_of(why: str) -> str:
    """Return the reason alone, in one line; `why` is a traceback, or MARK and the reason."""
    lines = why.splitlines()
    if why.startswith(MARK):
        return lines[0].removeprefix(MARK)
    return exception_in(lines) or lines[-1]


def exception_in(lines: Sequence[str]) -> str | None:
    """Return the line with the exception of the last traceback; None if there is none."""
    # It stands below the frames of its traceback, which are indented; notes follow it.
    for above, line in zip(reversed(lines[:-1]), reversed(lines)):
        if above.startswith(" ") and not line.startswith(" "):
            return line
    return None
