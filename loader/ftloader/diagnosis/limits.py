"""The number of CPUs that this process may keep busy, and the memory that it may use."""

import functools
import math
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")  # where systemd and container runtimes mount them
_OWN = Path("/proc/self/cgroup")


def usable_cpus(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """Return the number of CPUs that the affinity mask or, if lower, the CPU quota (rounded up)
    allows; at least 1.

    The file *own* names this process's control group. The quota is the lowest one of this group and
    its ancestors. All of them are directories in *groups*.
    """
    allowed = os.process_cpu_count() or 1
    return max(1, math.ceil(min(allowed, _smallest_quota(groups, own)) - 1e-6))


@functools.cache  # a dozen files, and a quota seldom changes while a program runs
def _smallest_quota(groups: Path, own: Path) -> float:
    return min(map(_quota, _groups_of_this_process("cpu", groups, own)))


def usable_memory(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """Return the bytes of memory that the machine has or, if lower, that the control groups allow.

    *groups* and *own*: as for ``usable_cpus``. What other programs use is not subtracted.
    """
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min(installed, _smallest_memory_limit(groups, own)))


@functools.cache  # as _smallest_quota: each iter() of a dataset that is copied asks
def _smallest_memory_limit(groups: Path, own: Path) -> float:
    return min(map(_memory_limit, _groups_of_this_process("memory", groups, own)))


def _groups_of_this_process(controller: str, groups: Path, own: Path) -> set[Path]:
    """Return the directories of this process's control groups and their ancestors.
    Some may not exist.
    """
    # in a container its own group is mounted as the root
    directories = {groups, groups / controller}
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = groups
            if controllers:
                top = groups / controller
            group = top / path.lstrip("/")
            directories |= {group, *(parent for parent in group.parents if top in parent.parents)}
    return directories


def _quota(group: Path) -> float:
    quota, _, period = _read(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    try:
        number = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return math.inf
    if number <= 0:  # version 1: -1 without a quota
        return math.inf
    return number


def _memory_limit(group: Path) -> float:
    limit = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
    if not limit.isdecimal():  # "max", or no such file
        return math.inf
    return int(limit)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
