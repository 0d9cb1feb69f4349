"""What one run may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Limits of one run, over all of its processes unless said otherwise.

    The kernel enforces some for each process (ftsafety.repro.runner sets them): RLIMIT_DATA for memory, since
    RLIMIT_AS counts address space, of which torch, CUDA and the free-threaded allocator reserve far more than
    they use; RLIMIT_FSIZE for files; no core dumps. What counts over the whole tree is looked at a few times
    a second (ftsafety.repro.watch): resident memory, processes, the size of the scratch folder. RLIMIT_NPROC
    is not used: it counts everything that the user runs anywhere, and does not bind root.
    """

    timeout: float = 60.0
    """Seconds."""
    memory: int = 4096 * MIB
    """Bytes: of data in each process, resident in all together."""
    processes: int = 128
    disk: int = 1024 * MIB
    """Bytes in the scratch folder; any one file may have half of them."""
    output: int = 64 * MIB
    """Bytes on stdout and stderr together."""

    def as_json(self) -> dict:
        return asdict(self)


def from_json(values: dict) -> Limits:
    """The Limits that `as_json` described; raises TypeError for anything else."""
    return Limits(**values)
