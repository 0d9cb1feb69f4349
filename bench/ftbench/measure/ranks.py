"""The ranks of a trial (--ranks): processes of a training job, each with its own loader, that load
at the same time.

With N ranks, rank r loads batches r, r + N, r + 2N, ... of the epoch, as with Hugging Face's
Accelerate. So in each step, all ranks together load the same N batches that a single process would
load in its next N steps.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Client

from ftbench.machine.usage import tree_usage

KEY = "FT_BENCH_KEY"
"""Environment variable with the key, in hexadecimal,
that a rank proves to its job (multiprocessing's authkey).
"""


class Rank:
    """This process as one of the ranks that torchrun started,
    and its connection to the job (ftbench.trial.job).

    Used by the main thread only. torchrun's variables RANK and WORLD_SIZE say which rank this is,
    and of how many.
    """

    def __init__(self, name: str):
        """Connect to the job that listens at `name`; raises OSError if the job has ended."""
        self.number, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._connection = Client(address(name), "AF_UNIX", authkey=bytes.fromhex(os.environ[KEY]))
        self.tell({"rank": self.number, "pid": os.getpid()})

    def tell(self, message: Mapping) -> None:
        self._connection.send_bytes(json.dumps(message).encode())

    def hear(self) -> str:
        """Wait for the job's next message; return "" if the job has ended."""
        try:
            return self._connection.recv_bytes().decode()
        except (EOFError, OSError):
            return ""

    def fail(self, why: str) -> None:
        """Report to the job why this rank failed, and wait until the job ends this process.

        If this process ended by itself, torchrun could notice its end
        before the job reads the report.
        """
        with contextlib.suppress(OSError):
            self.tell({"failed": why})
            self.hear()

    def meet(self, value: float, memory: bool = False) -> dict:
        """Wait for all ranks to call this; return {"met": each rank's value, "memory": MiB of the
        job, if asked}.
        """
        self.tell({"meet": value, "memory": memory})
        if not (answer := self.hear()):
            raise SystemExit(1)
        return json.loads(answer)


_rank: Rank | None = None
"""This process's rank. Set by `join` before anything is measured, and never changed; None if it is
the only one.
"""


def address(name: str) -> str:
    """Return the address of the job's socket, in Linux's abstract namespace:
    it leaves no file (unix(7)).
    """
    return f"\0{name}"


def join(name: str) -> Rank:
    """Make this process a rank of the job that listens at `name`.
    Raises OSError if the job has ended.
    """
    global _rank
    _rank = Rank(name)
    return _rank


def meet(value: float = 0.0) -> list[float]:
    """Wait until every rank has called this; return the ranks' values,
    in the order of the ranks.
    """
    return [value] if _rank is None else _rank.meet(value)["met"]


def memory() -> float:
    """Wait until every rank has called this; return the memory
    of all ranks and their descendants (MiB).
    """
    return tree_usage().total if _rank is None else _rank.meet(0.0, memory=True)["memory"]


def share(numbers: range, batch_size: int) -> Iterable[int]:
    """Convert numbers of this rank's own samples to their numbers in the epoch of all ranks.

    `numbers` counts only the samples of this rank, and consists of whole batches.
    """
    if _rank is None:
        return numbers
    ranks, rank = _rank.ranks, _rank.number
    starts = (first * ranks + rank * batch_size for first in numbers[::batch_size])
    return itertools.chain.from_iterable(range(start, start + batch_size) for start in starts)
