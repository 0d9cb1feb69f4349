"""The check that all candidates loaded the same samples."""

import functools

import pytest

from ftbench.rounds.controller import WorkDiffers, check_same_work

checked = functools.partial(check_same_work, difference="gave different samples")


def test_different_samples_are_an_error():
    seen = {}
    checked(seen, "a", {"first_batch": 7, "rows": [1, 2]})
    checked(seen, "b", {"first_batch": 7, "rows": [1, 2, 3, 4]})
    checked(seen, "c", {"first_batch": 7, "rows": [1]})
    with pytest.raises(
        WorkDiffers, match="d and a gave different samples .first: CRC-32 00000008 and 00000007"
    ):
        checked(seen, "d", {"first_batch": 8, "rows": []})
    with pytest.raises(WorkDiffers, match="e and b .*measured batch 3 of turn 1"):
        checked(seen, "e", {"first_batch": 7, "rows": [1, 2, 3, 5]})


def test_same_work_in_turns():
    """Who has more workers measures more batches a turn,
    and every turn starts again with the same samples.
    """
    seen = {}
    checked(
        seen, "x2", {"first_batch": 7, "rows": [1, 2, 3, 4, 5, 6, 7, 8], "turn_seconds": [0.1, 0.1]}
    )
    checked(seen, "x1", {"first_batch": 7, "rows": [1, 2, 5, 6], "turn_seconds": [0.1, 0.1]})
    with pytest.raises(WorkDiffers, match="other and x2 .*measured batch 0 of turn 2"):
        checked(seen, "other", {"first_batch": 7, "rows": [1, 2, 3, 4], "turn_seconds": [0.1, 0.1]})
