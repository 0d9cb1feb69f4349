"""How far each worker's share of an iterable-style dataset is, within an epoch and beyond.

Such a dataset shares itself out among the workers, and each goes through its share in its
own order. A share is a dictionary:

=============== ==========================================================================
``batches``     of this epoch, handed over
``snapshot``    the latest of this epoch (``ftloader.state.workers``) that is not ahead of
                them, or None
``snapshot_at`` after how many batches it was taken
``before``      without a snapshot: how the worker's dataset came to where this epoch began,
                or None: it was as the loader's own is
=============== ==========================================================================

``before`` is for datasets that live on from epoch to epoch: the loader's own with
``num_workers=0``, those in persistent workers. It holds a ``snapshot`` of an earlier epoch
(or None) and the ``passes`` since: for each the number of batches, None for one that was
gone through to its end. To go on, a worker goes through these passes again. So whatever the
dataset does with its state at the end of a pass (reset it, count epochs, nothing) it does
again, and what a state from there would mean is not asked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Share = Mapping[str, Any]


def begun(before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The share of a worker of which nothing has been handed over."""
    return {"batches": 0, "snapshot": None, "snapshot_at": 0, "before": before}


def following(share: Share, *, ended: bool, stateful: bool, ahead: bool) -> dict[str, Any]:
    """The share with which the next epoch of the same dataset begins.

    Args:
        ended: the epoch has been gone through to its end; else it was left.
        stateful: the dataset has a state. Of one without nothing is kept but what its
            iterator's snapshots do.
        ahead: the worker loads ahead, so it has begun its pass though nothing was handed over.
    """
    batches = None if ended else share["batches"] - share["snapshot_at"]
    if share["snapshot"] is not None:
        return begun({"snapshot": share["snapshot"], "passes": [batches]})
    if not stateful or (batches == 0 and not ahead):
        return begun(share["before"])
    before = share["before"] or {"snapshot": None, "passes": []}
    return begun(before | {"passes": [*before["passes"], batches]})


def share_out(shares: Sequence[Share], num_workers: int, *, stateful: bool) -> list[Share]:
    """*shares* for *num_workers* workers, or for none, between two epochs.

    Raises ``ValueError`` if their number is another one, the dataset is *stateful* and its
    states are not all the same.
    """
    workers = max(1, num_workers)
    if len(shares) == workers:
        return list(shares)
    if not stateful:
        return [begun()] * workers
    if not all(same(share, shares[0]) for share in shares):
        raise ValueError(
            f"the state holds a state of the dataset for each of {len(shares)} workers, and this "
            f"loader has {num_workers}: use num_workers={len(shares)}, or persistent_workers=False, "
            "with which the workers' datasets begin every epoch as the loader's own dataset is"
        )
    return [shares[0]] * workers


def same(state: Any, other: Any) -> bool:
    """Whether two states are known to be equal. Not if they hold, say, tensors."""
    try:
        return bool(state == other)
    except Exception:  # what a comparison in the user's types raises
        return False
