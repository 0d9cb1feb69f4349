"""Memory of a trial with all its workers, and the measurement that is about nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ftbench.measure import checksums
from ftbench.plan.scenario import Task

MIB = 1024 * 1024
# Looks at the memory in an epoch, evenly spaced; the last is at its last batch.
LOOKS = 24


@dataclass(frozen=True)
class Usage:
    """Memory of a process tree, MiB."""

    pss: float
    """Proportional set sizes: what processes share is divided among them, so that the sum counts it once.

    The pages of files (libraries, mostly) are counted as if nobody but the tree had mapped them. Other trials
    may be alive, and their share of the same libraries says nothing about this one.
    """
    uss: float
    """Unique set sizes: what no other process has, and the end of the process would free."""


def tree_usage() -> Usage:
    """The memory of this process and all its descendants now."""
    import psutil

    me = psutil.Process()
    own = files = unique = 0
    for process in (me, *me.children(recursive=True)):
        try:
            pss, mapped, uss = _look(process)
        except psutil.NoSuchProcess:
            continue
        # Workers map what the process that started them does, or less.
        own, files, unique = own + pss, max(files, mapped), unique + uss
    return Usage((own + files) / MIB, unique / MIB)


def _look(process) -> tuple[int, int, int]:
    """(PSS without the pages of files, all pages of files that it has mapped, USS) of a psutil.Process, bytes.

    Where the kernel does not tell files apart (before Linux 5.3, some sandboxes), PSS is with them and there are none.
    Raises psutil.NoSuchProcess if it has ended.
    """
    directory = Path(f"/proc/{process.pid}")
    try:
        text = (directory / "smaps_rollup").read_text() + (directory / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        text = ""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if not {"Pss", "Pss_File", "RssFile"} <= kib.keys():
        full = process.memory_full_info()
        return full.pss, 0, full.uss
    unique = sum(value for name, value in kib.items() if name.startswith("Private_"))
    return 1024 * (kib["Pss"] - kib["Pss_File"]), 1024 * kib["RssFile"], 1024 * unique


def memory_pss_mib() -> float:
    """Proportional set size of this process and all its descendants, MiB."""
    return tree_usage().pss


def measure(task: Task) -> dict:
    """Run one epoch and look at the memory on the way, the last time at its last batch with the workers up.

    Returns the metrics pss_mib and uss_mib, the largest of what was seen; as distributions of the same names
    the curves that were seen, over the samples loaded; checksums as ftbench.measure.epochs.
    """
    from ftbench.measure.loaders import open_loader

    samples = task.batches * task.batch_size
    looks = {round(task.batches * look / LOOKS) - 1 for look in range(1, LOOKS + 1)} | {0}
    seen: list[Usage] = []
    done: list[int] = []
    with open_loader(task, task.dataset(), persistent=True) as loader:
        found, first, batch = [], 0, ()
        for number, batch in enumerate(loader.epoch(samples)):
            if number == 0:
                first = checksums.whole(batch)
            found.append(checksums.part(batch))
            if number in looks:
                seen.append(tree_usage())
                done.append((number + 1) * task.batch_size)
    pss, uss = [one.pss for one in seen], [one.uss for one in seen]
    over = {"title": "samples loaded", "values": done}
    return {
        "metrics": {"pss_mib": max(pss), "uss_mib": max(uss)},
        "samples": samples,
        "batches": len(found),
        "last_batch": len(batch),
        "first_batch": first,
        "rows": found,
        "distributions": {
            "pss_mib": {"unit": "MiB", "values": pss, "over": over},
            "uss_mib": {"unit": "MiB", "values": uss, "over": over},
        },
    }
