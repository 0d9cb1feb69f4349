"""Augmentation: the pictures change, and are the same in all kinds of workers;
workers from none on.
"""

import time

import numpy
import pytest
import torch
from PIL import Image

from ftbench.measure import augmentation
from ftbench.measure.loaders import open_loader
from ftbench.plan.candidates import CONFIGS, Candidate, Ranking
from ftbench.plan.scenario import Task
from ftbench.rounds.controller import Controller, choose
from ftbench.rounds.work import Work
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.augment import SEED
from ftloader import DataLoader
from ftrun.interruption import Interruption
from tests.unit.bench import scripted
from tests.unit.bench.scripted import Script, Silent
from tests.unit.bench.turns import task_of

SCENARIO = SCENARIOS["augment"]
both = pytest.mark.parametrize("case", ["light", "heavy"])


def turns_of(task: Task) -> list[torch.Tensor]:
    """Every sample of two turns, each of a new loader."""
    torch.manual_seed(SEED)
    turns = []
    for samples in (3, 12):
        with open_loader(task, task.dataset(), persistent=False) as loader:
            turns.append(torch.cat([batch.clone() for batch in loader.epoch(samples)]))
    return turns


@both
@pytest.mark.slow
def test_all_workers_load_the_same_samples(case, paths):
    first, second = turns_of(task_of("augment", paths, "serial", case, workers=0))
    assert (
        second.shape == (12, 3, augmentation.SIDE, augmentation.SIDE)
        and second.dtype == torch.float32
    )
    for variant, workers in (("loader-thread", 1), ("loader-thread", 2), ("loader-process", 2)):
        again = turns_of(task_of("augment", paths, variant, case, workers=workers))
        assert torch.equal(again[0], first) and torch.equal(again[1], second)
    # The numbers of the next turn are other ones; within a turn they belong to the sample's index.
    assert not torch.equal(first, second[:3])
    assert torch.equal(second[:6], second[6:])


@both
def test_augmented_pictures_are_pictures(case, paths):
    """Standardised values of something that looks like its original,
    and differs from sample to sample.
    """
    dataset = augmentation.Augmented([paths[0]] * 6, case)
    torch.manual_seed(1)
    batch = next(iter(DataLoader(dataset, batch_size=6))).numpy()
    assert len({image.tobytes() for image in batch}) == 6
    pixels = batch.transpose(0, 2, 3, 1) * numpy.array(augmentation.DEVIATION) + augmentation.MEAN
    # Erased parts are 0 before that.
    assert pixels.min() > -0.001 and pixels.max() < 1.001
    with Image.open(paths[0]) as file:
        original = numpy.asarray(file.convert("RGB"), numpy.float32) / 255
    assert abs(pixels.mean() - original.mean()) < 0.25


@both
def test_all_random_numbers_are_the_samples(case, paths):
    """A draw from torch's global generator, which threads share, would change its state."""
    loader = DataLoader(augmentation.Augmented(paths, case), batch_size=6)
    batches = iter(loader)  # draws the base seed
    before = torch.get_rng_state()
    next(batches)
    assert torch.equal(before, torch.get_rng_state())


def test_who_takes_part():
    ranked = SCENARIO.plan.ranked(CONFIGS, [1, 2, 4], quick=False)
    candidates = [c for _, c in ranked]
    assert len({c.key for c in candidates}) == len(candidates) == 2 * 3 * (1 + 2 * 3)
    assert {c.workers for c in candidates if c.variant == "serial"} == {0}
    assert {c.key for rank, c in ranked if rank == 0} == {
        "gil/serial/0@heavy",
        "ft/serial/0@heavy",
        "ft/loader-thread/4@heavy",
        "ft-gil/loader-thread/4@heavy",
        "gil/loader-process/4@heavy",
    }
    pairs = SCENARIO.plan.pairs(candidates)
    assert (pairs[0].numerator, pairs[0].denominator) == (
        "ft/loader-thread/4@heavy",
        "ft/serial/0@heavy",
    )
    brought = [pair for pair in pairs if pair.denominator.split("/")[1] == "serial"]
    asked = {
        (p.numerator, p.denominator)
        for p in pairs
        if p.kind == "headline" and p.numerator.endswith("/4@heavy")
    }
    threads, processes = "ft/loader-thread/4@heavy", "gil/loader-process/4@heavy"
    assert asked == {
        (threads, processes),
        (threads, "ft/serial/0@heavy"),
        (processes, "gil/serial/0@heavy"),
    }
    assert len(brought) == 2 * 3 * 2 * 3
    alone = {f"{p.numerator.split('/')[0]}/serial/0@{p.numerator.split('@')[1]}" for p in brought}
    assert alone == {p.denominator for p in brought}
    # Quick: the headline's two, with the most and the fewest workers, and no workers.
    for counts in ([1, 2, 4], [0, 1, 2, 4]):
        quick = [c for _, c in SCENARIO.plan.ranked(CONFIGS, counts, quick=True)]
        assert {(c.config, c.variant, c.workers) for c in quick} == {
            ("gil", "serial", 0),
            ("ft", "serial", 0),
            ("gil", "loader-process", 1),
            ("gil", "loader-process", 4),
            ("ft", "loader-thread", 1),
            ("ft", "loader-thread", 4),
        }
    for config in ("gil", "ft"):
        alone = [c for _, c in SCENARIO.plan.ranked((config,), [2], quick=True)]
        assert SCENARIO.plan.pairs(alone)


def test_loading_without_workers_is_as_much_as_one_worker_does():
    work = Work(SCENARIO, {"light": scripted.load(4, 5)}, {"light": ["a.jpg"]})
    none, one, two = (
        work.task(Candidate("ft", variant, n, "light"))
        for variant, n in (("serial", 0), ("loader-thread", 1), ("loader-thread", 2))
    )
    assert (none.workers, none.batches, none.warmup_batches) == (0, 5, 2)
    assert (one.batches, two.batches) == (5, 10)
    assert Candidate("ft", "serial", 0).title == "ft no workers"


def test_a_full_run_repeats_everything_five_times():
    """Also where three rounds would do for a verdict:
    fewer candidates then, never fewer repeats.
    """
    ranked, cases = SCENARIO.plan.ranked(CONFIGS, [1, 2], quick=False), ("heavy", "light")
    assert SCENARIO.repeats == 5
    kept, given_up = choose(ranked, 5 * 10 * 1.0, 1.0, fewest=SCENARIO.repeats)
    assert len(kept) <= 10 and len(kept) + len(given_up) == len(ranked)

    class Endpoint(Script):
        def run(self, request: dict) -> dict:
            return {"first_batch": None, "rows": [], "metrics": {"throughput": 1.0}}

    with Interruption() as interruption:
        controller = Controller(
            Work(SCENARIO, {c: scripted.load(4, 5) for c in cases}, {c: ["a.jpg"] for c in cases}),
            {"ft": Endpoint(), "gil": Endpoint()},
            Silent(),
            interruption,
            1,
            SCENARIO.repeats,
        )
        # The time is over before the first round begins.
        equal = Ranking((0, c) for c in kept)
        rounds = list(controller.rounds(equal, time.monotonic(), 0.001, None))
    assert len(rounds) == 5


@pytest.mark.slow
def test_a_run(special, twin):
    entry = special("augment")
    # Of a single configuration the curve of the headline; each process has measured both amounts.
    workers = f"loader-{'thread' if twin == 'ft' else 'process'}/2"
    by_key = {trial.candidate: trial for trial in entry.rounds[0].trials}
    assert set(by_key) == {
        f"{twin}/{who}@{case}" for who in (workers, "serial/0") for case in ("heavy", "light")
    }
    for case in ("heavy", "light"):
        serial, two = by_key[f"{twin}/serial/0@{case}"], by_key[f"{twin}/{workers}@{case}"]
        # Two workers measure twice as many batches a turn; the turns have other random numbers.
        assert entry.load.turns > 1 and two.batches == 2 * serial.batches
        turns = entry.load.turns
        by_turn = [
            [each.rows[turn * len(each.rows) // turns] for turn in range(turns)]
            for each in (serial, two)
        ]
        assert by_turn[0] == by_turn[1] and len({*by_turn[0]}) == turns
