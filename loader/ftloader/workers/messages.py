"""Messages between the consumer and its worker threads.

Two kinds of queues carry them: tasks and commands to the workers, results and departures to the consumer.
"""

import enum
from dataclasses import dataclass
from typing import Any

from ftloader.batch.fetch import Epoch, Outcome


@dataclass(frozen=True, slots=True)
class Task:
    """Consumer to worker: build *batch* (``SharedBatch`` or ``WholeBatch``), which was made from *index*.

    ``batch.helpers`` workers get this same task. *contexts* are those of all workers.
    """

    epoch: Epoch
    contexts: tuple[Any, ...]
    number: int
    index: Any
    batch: Any


class Command(enum.Enum):
    """Consumer to worker: a message other than a task."""

    END = "end"
    WAKE = "wake"  # run for a moment and do nothing: see WorkerPool.wake


@dataclass(frozen=True, slots=True)
class Result:
    """Worker to consumer: the outcome of a task. Each task of an epoch that is not cancelled gets exactly one."""

    epoch: Epoch
    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Departure:
    """Worker to consumer: this worker failed to start, or (*task_lost*) ended in the middle of a task."""

    worker_id: int
    exception: BaseException
    task_lost: bool
