"""Processes that tests look for and wait for, on machines that may be busy."""

import time
from collections.abc import Callable, Iterable

import psutil

PATIENCE = 1500.0
"""Seconds; less than pytest gives a test."""


def ended(process: psutil.Process | int) -> bool:
    """True if a process, or the one with this id, is no more. A zombie is none: some containers
    reap no orphans.
    """
    try:
        found = process if isinstance(process, psutil.Process) else psutil.Process(process)
        return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Return True once `condition()` is true, False after *seconds*.
    For what nothing else can be waited on.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def assert_gone(processes: Iterable[psutil.Process | int]) -> None:
    """Wait until all of these processes have ended."""
    processes = list(processes)
    assert wait_until(lambda: all(map(ended, processes))), processes


def descendants(pid: int, at_least: int = 1) -> list[psutil.Process]:
    """Wait until a process has this number of descendants; return them."""
    deadline = time.monotonic() + PATIENCE
    while len(found := psutil.Process(pid).children(recursive=True)) < at_least:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
