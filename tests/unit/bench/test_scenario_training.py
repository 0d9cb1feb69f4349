"""`training`: the same samples and the same losses, whoever loads; and it learns."""

import time

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader

from ftbench.plan.candidates import CONFIGS
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.training import (
    EPOCHS,
    SIDE,
    Accelerator,
    Quadrants,
    cpus_busy,
    network,
    steps_per_epoch,
    train,
)

SCENARIO = SCENARIOS["training"]


@pytest.fixture
def dataset(paths) -> Quadrants:
    return Quadrants(paths, per_epoch=12, epochs=2, seed=5)


def test_who_is_compared():
    candidates = [c for _, c in SCENARIO.plan.ranked(CONFIGS, [1, 2], quick=False)]
    assert {c.variant for c in candidates} >= {
        "serial",
        "loader-thread",
        "loader-process",
        "torch-process",
    }
    assert SCENARIO.plan.pairs(candidates)[0].denominator == "gil/torch-process/2"


def test_an_epoch_is_as_long_with_any_number_of_workers():
    def task(workers: int) -> Task:
        return Task(SCENARIO, [], "loader-thread", workers, 8, workers, 5 * workers, 2)

    assert [steps_per_epoch(task(workers)) for workers in (1, 2, 7)] == [5, 5, 5]


def test_samples_are_crops_with_their_brightest_quadrant(dataset):
    assert len(dataset) == 24
    half = SIDE // 2
    for index in range(6):
        image, label = dataset[index]
        assert image.shape == (3, SIDE, SIDE) and image.dtype == torch.uint8
        quadrants = [
            image[:, y : y + half, x : x + half].double().mean()
            for y in (0, half)
            for x in (0, half)
        ]
        assert quadrants[label] == max(quadrants)


def test_a_sample_is_always_the_same_and_every_epoch_another(dataset, paths):
    again = Quadrants(paths, per_epoch=12, epochs=2, seed=5)
    other = Quadrants(paths, per_epoch=12, epochs=2, seed=6)
    assert all(torch.equal(dataset[i][0], again[i][0]) for i in (3, 0, 17))
    assert not all(torch.equal(dataset[i][0], other[i][0]) for i in range(12))
    # Every image as often as the others, in another order.
    assert (
        sorted(dataset._order[:12]) == sorted(dataset._order[12:])
        and dataset._order[:12] != dataset._order[12:]
    )


@pytest.mark.slow
def test_it_learns_which_quadrant_is_the_brightest(dataset):
    torch.manual_seed(0)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = [
        float(loss)
        for _ in range(25)
        for loss in train(model, optimiser, TorchDataLoader(dataset, batch_size=24), "cpu")
    ]
    assert losses[-1] < losses[0] * 0.9


def test_use_of_the_cpus():
    begin, before = time.perf_counter(), cpus_busy()
    sum(range(2_000_000))
    assert 0 < cpus_busy() - before <= time.perf_counter() - begin


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no NVIDIA GPU here: torch.cuda.is_available() is False"
)
def test_use_of_the_gpu():
    accelerator, begin = Accelerator(), time.perf_counter()
    for _ in accelerator.steps(range(3)):
        torch.ones(2000, 2000, device="cuda").square().sum()
    assert 0 < accelerator.busy() <= time.perf_counter() - begin


@pytest.mark.slow
def test_the_loss_is_part_of_what_must_be_equal(paths, monkeypatch):
    """A training that goes otherwise has other checksums, with the same samples."""
    task = Task(SCENARIO, paths, "serial", 1, 2, 1, 3, 2)
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
    )
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # taken back at the end
    try:
        same = [SCENARIO.measure(task)["rows"] for _ in range(2)]
        monkeypatch.setattr(
            torch.optim, "SGD", lambda parameters, **_: torch.optim.Adam(parameters)
        )
        other = SCENARIO.measure(task)["rows"]
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]
    steps = 3 * EPOCHS
    assert same[0] == same[1] and len(same[0]) == 2 * steps
    assert other[:steps] == same[0][:steps] and other[steps:] != same[0][steps:]


@pytest.mark.slow
def test_a_run(special, special_run):
    entry = special("training")
    trials = entry.rounds[0].trials
    assert len({tuple(trial.rows) for trial in trials}) == 1
    for trial in trials:
        assert (
            len(trial.distributions["loss"].values)
            == trial.batches
            == EPOCHS * entry.load.batches_per_worker
        )
        assert len(trial.distributions["epoch"].values) == EPOCHS
        assert trial.distributions["loss"] == trials[0].distributions["loss"]
    assert entry.note.startswith("trained on ") and "equal bit for bit" in entry.note
    assert entry.note in special_run.printed
