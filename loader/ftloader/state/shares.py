"""Shares of an iterable-style dataset: the position of each worker in its part of the data.

Workers share an iterable-style dataset out among themselves. Each share is a dictionary:

- ``batches``: number of batches of this epoch that have been handed over
- ``snapshot``: latest state of the worker's dataset and its iterator; None: start from the loader's dataset as it is
- ``snapshot_at``: number of batches after which it was taken; None if the start of the epoch is not known either
- ``after``: if the snapshot is from the end of the previous pass over the dataset, the number of its batches; else 0

A resumed worker loads the snapshot, then skips the batches handed over after it: it loads their samples without
collating them. Within an epoch, no snapshot is taken after the end of a pass, so a resumed worker always reaches the
end of its dataset by itself.

With ``num_workers=0`` and in persistent workers an epoch starts with the state that the previous pass has left in the
dataset. To resume there, ``iter(dataset)`` is called twice, as in torchdata: for the pass that has ended, and for the
new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Share = Mapping[str, Any]


def fresh_share(dataset: Any = None, known: bool = True, after: int = 0) -> dict[str, Any]:
    """Return the share of a worker that has handed over no batch."""
    # *dataset* is the state that its dataset had at the end of the previous pass, of *after* batches. *known* is False
    # if the start of the epoch is not known.
    snapshot = None if dataset is None else {"states": {"dataset": dataset}, "position": 0}
    return {"batches": 0, "snapshot": snapshot, "snapshot_at": 0 if known else None, "after": after}


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Starting point of one worker. Picklable as the states are."""

    share: Share | None = None  # iterable-style: the share to continue, or None to start from the dataset as it is
    dataset: Any = None  # map-style: state for this worker's dataset
    every: int | None = None  # snapshot_every_n_steps
    lives_on: bool = False  # iterable-style: True if the next epoch uses the same dataset object
