"""Proves that seeding the program's random generators in a block is undone, and that drawing from
them is not.
"""

import random

import numpy as np
import pytest
import torch

from ftloader.rng.program import preserved


def draw(count):
    return (
        [random.random() for _ in range(count)],
        np.random.rand(count).tolist(),
        torch.rand(count).tolist(),
    )


def seed(number):
    random.seed(number), np.random.seed(number), torch.manual_seed(number)


@pytest.mark.parametrize("before", [0, 1, 700])
@pytest.mark.parametrize("count", [0, 1, 311, 312, 313, 623, 624, 625, 10_000])
def test_what_is_drawn_in_the_block_stays_drawn(before, count):
    seed(3)
    expected = draw(before), draw(count), draw(2)
    seed(3)
    found = [draw(before)]
    with preserved():
        found.append(draw(count))
    assert (*found, draw(2)) == expected


@pytest.mark.parametrize("count", [0, 1, 700])
def test_what_is_seeded_in_the_block_stands_where_it_stood(count):
    seed(3)
    expected = draw(count), draw(2)
    seed(3)
    found = draw(count)
    with preserved():
        seed(4)
        draw(3)
    assert (found, draw(2)) == expected


def test_each_generator_is_judged_for_itself():
    seed(3)
    expected = random.random(), np.random.rand(2).tolist(), torch.rand(3).tolist()
    seed(3)
    with preserved():
        np.random.seed(4)
        drawn = torch.rand(1).tolist()
    assert (random.random(), np.random.rand(2).tolist(), drawn + torch.rand(2).tolist()) == expected
