"""What the consumer and its worker threads say to each other, through two kinds of queues: tasks (or orders) to the
workers, results and departures to the consumer."""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ftloader.batch.fetch import Epoch, Outcome

if TYPE_CHECKING:
    from ftloader.batch.assembly import SharedBatch
    from ftloader.workers.thread import WorkerContext


@dataclass(frozen=True, slots=True)
class Task:
    """Consumer to worker: build batch *number* of *epoch* from *index*; if there is an *assembly*, together with the
    other workers, each of which may get this same task."""

    epoch: Epoch
    contexts: tuple["WorkerContext", ...]
    number: int
    index: Any
    assembly: "SharedBatch | None" = None


class Order(enum.Enum):
    """Consumer to worker: what is not a task."""

    END = "end"
    LOOK_UP = "look up"
    """Do nothing, but run; see ``WorkerPool.wake``."""


@dataclass(frozen=True, slots=True)
class Result:
    """Worker to consumer: every task of an epoch not cancelled gets exactly one."""

    epoch: Epoch
    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Departure:
    """Worker to consumer: this worker has ended early, because of *exception*: while starting up, or (*task_lost*) with
    a task in hand that nobody will answer now."""

    worker_id: int
    exception: BaseException
    task_lost: bool
