"""Shares of an iterable-style dataset: the position of each worker in its part of the data.

Workers share an iterable-style dataset out among themselves. Each share is a dictionary:

=============== ==========================================================================
``batches``     number of batches of this epoch that have been handed over
``snapshot``    the latest state of the worker's dataset and its iterator; None: start from the
                loader's dataset as it is
``snapshot_at`` number of batches after which the snapshot was taken; None if the start of the
                epoch is not known and no snapshot has been taken since
``after``       number of batches of the previous pass if the snapshot is from its end, else 0
=============== ==========================================================================

A resumed worker loads the snapshot, then skips the batches handed over after it: it loads their samples without
collating them. Within an epoch, a snapshot is never taken after the end of a pass. So a resumed worker always reaches
the end of its dataset by itself.

With ``num_workers=0`` and in persistent workers the dataset object is used again: the next epoch starts with the state
that the dataset has at the end of a pass. As in torchdata, ``iter(dataset)`` is then called twice: for the pass that
has ended, and for the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Share = Mapping[str, Any]


def fresh_share(dataset: Any = None, known: bool = True, after: int = 0) -> dict[str, Any]:
    """Return the share of a worker that has handed over no batch.

    Args:
        dataset: state that the worker's dataset had at the end of the previous pass, or None.
        known: False if the start of the epoch is not known.
        after: number of batches of the previous pass.
    """
    snapshot = None if dataset is None else {"states": {"dataset": dataset}, "position": 0}
    return {"batches": 0, "snapshot": snapshot, "snapshot_at": 0 if known else None, "after": after}


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Starting point of one worker. Picklable as the states are."""

    share: Share | None = None
    """Iterable-style: the share to continue, or None to start from the dataset as it is."""
    dataset: Any = None
    """Map-style: state for this worker's dataset, or None."""
    every: int | None = None
    """``snapshot_every_n_steps``.

    None: an iterable-style dataset is asked for its state after each batch, as torchdata does, since continuing without
    it loads samples. A map-style dataset is asked only at the start of an epoch."""
    lives_on: bool = False
    """Iterable-style: True if the next epoch uses the same dataset object."""
