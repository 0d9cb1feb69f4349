"""`overlap`: both bounds, and the training that is measured against loading."""

import pytest
import torch

from ftbench.plan.candidates import CONFIGS
from ftbench.rounds.controller import choose
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.overlap import EQUAL, TorchStep, _mean_step, note

SCENARIO = SCENARIOS["overlap"]


def test_who_is_compared():
    candidates = [c for _, c in SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(2), quick=False)]
    serial = [c for c in candidates if c.variant == "serial"]
    assert {c.config for c in serial} == {"gil", "ft"} and {c.case for c in serial} == {
        c.name for c in SCENARIO.plan.cases
    }
    # One twin alone, quickly: the sum is seen all the same.
    for config in ("gil", "ft"):
        quick = [c for _, c in SCENARIO.plan.ranked((config,), [1], quick=True)]
        assert [c.case for c in quick if c.variant == "serial"] == [EQUAL.name]


def test_loading_without_workers_stays_whatever_else_is_given_up():
    ranked = SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(2), quick=True)
    kept, _ = choose(ranked, seconds=4 * 7.5, trial_seconds=1.0)
    assert {c.config for c in kept if c.variant == "serial"} == {"gil", "ft"}


class Loader:
    """Gives numbers, and remembers how many of them were taken."""

    def __init__(self):
        self.taken = 0

    def epoch(self, samples: int):
        for number in range(samples):
            self.taken += 1
            yield number


def test_each_step_trains_and_then_takes_the_next_batch_of_an_epoch_that_goes_on():
    loader, trained = Loader(), []

    def train(batch: int, units: int) -> None:
        trained.append((batch, units, loader.taken))

    assert _mean_step(loader.epoch(20), 5, train, 7) > 0
    assert trained == [(number, 7, number + 1) for number in range(5)]
    assert loader.taken == 20  # nothing goes on into what is measured next


@pytest.mark.slow
def test_a_step_trains_on_the_batch():
    torch.manual_seed(1)
    step = TorchStep()
    batch = torch.randint(0, 256, (4, 40, 40, 3), dtype=torch.uint8)
    losses = [step(batch, 20) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2] > 0
    # smaller than the network's input
    assert step(torch.zeros(1, 2, 2, 3, dtype=torch.uint8), 1) >= 0


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no NVIDIA GPU here: torch.cuda.is_available() is False"
)
def test_training_is_on_the_gpu_where_there_is_one():
    step = TorchStep()
    assert step.device.type == "cuda" and step(torch.ones(8, 64, 64, 3, dtype=torch.uint8), 3) > 0


def test_where_it_trained_is_told():
    assert note("cuda", 4, 4) == "trained on the GPU"
    assert note("cpu", 1, 2) == "trained on one CPU core: no GPU here"
    assert note("cpu", 2, 2).endswith("2 workers share 2 CPUs with it")


@pytest.mark.slow
def test_a_run(special, special_run):
    entry = special("overlap")
    assert "no workers" in special_run.printed and entry.note in special_run.printed
    assert entry.note.startswith(
        "trained on the GPU" if torch.cuda.is_available() else "trained on one CPU core"
    )
    for trial in entry.rounds[0].trials:
        # (load + train) / max(load, train) in each turn.
        assert 1 < trial.metrics["step_over_max"] / trial.metrics["step_over_sum"] < 2.1
