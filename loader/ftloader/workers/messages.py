"""Messages between the consumer and its worker threads.

Two kinds of queues carry them: tasks and commands to the workers, results and departures to the consumer.
"""

import enum
from dataclasses import dataclass
from typing import Any, Protocol

from ftloader.batch.fetch import Epoch, Outcome


class Batch(Protocol):
    """A batch that workers can build."""

    helpers: int
    """Number of workers that should build the batch together."""

    def build(self, context: Any) -> Outcome | None:
        """Build the batch, in a worker with this context. Return the outcome; None if another worker returns it.

        Raise ``Cancelled``, or what user code raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """Consumer to worker: build *batch*, which is batch *number* of *epoch* and was made from *index*.

    ``helpers`` of the batch says how many workers get this same task. *contexts* are those of all workers.
    """

    epoch: Epoch
    contexts: tuple[Any, ...]
    number: int
    index: Any
    batch: Batch


class Command(enum.Enum):
    """Consumer to worker: a message other than a task."""

    END = "end"
    WAKE = "wake"
    """Run for a moment and do nothing; see ``WorkerPool.wake``."""


@dataclass(frozen=True, slots=True)
class Result:
    """Worker to consumer: the outcome of a task. Each task of an epoch that is not cancelled gets exactly one."""

    epoch: Epoch
    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Departure:
    """Worker to consumer: this worker has ended early because of *exception*.

    *task_lost* is True if the worker had a task, which gets no answer any more. Else the worker failed to start.
    """

    worker_id: int
    exception: BaseException
    task_lost: bool
