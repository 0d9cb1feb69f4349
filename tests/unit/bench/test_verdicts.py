"""Can the verdicts be trusted? Simulated runs whose truth is known, through all of the statistics.

The same with real trials on the machine at hand: `python -m ftbench.trust`; its figures are in docs/method.md.
"""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import time
from multiprocessing import resource_tracker
from pathlib import Path

import psutil
import pytest

from ftbench import trust
from ftbench.measure import epochs
from ftbench.plan.contest import grid
from ftbench.plan.contestants import CONFIGS
from ftbench.plan.scenario import Task
from ftbench.scenarios import trust as trust_scenario
from ftbench.stats import statistics
from ftbench.stats.statistics import NO_DIFFERENCE
from tests.unit.bench.simulated import TRIAL_NOISE, values
from tests.unit.bench.turns import without_pause

RUNS = 20
CONTESTANTS = [c for _, c in grid().candidates(CONFIGS, [1, 2], quick=False)]
# Where a run may end for its precision, and somewhat more.
ROUNDS = (5, 8)


def run(seed: int, rounds: int, speed: dict[str, float], noise: float = TRIAL_NOISE) -> dict[tuple[str, str], dict]:
    """The comparisons of one simulated run of the main job."""
    measured = {"throughput": values(random.Random(seed), CONTESTANTS, rounds, speed, noise)}
    analysis = statistics.analyse(measured, grid().pairs(CONTESTANTS))
    return {(c["numerator"], c["denominator"]): c for c in analysis["comparisons"]}


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_against_a_reports_no_difference(rounds):
    verdicts = [c["verdict"] for seed in range(RUNS) for c in run(seed, rounds, {}).values()]
    assert len(verdicts) == 20 * 18
    assert verdicts.count(NO_DIFFERENCE) / len(verdicts) >= 0.95


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_planted_difference_of_ten_percent_is_found(rounds):
    faster = {c.key: 110.0 for c in CONTESTANTS if c.config == "ft" and c.variant == "loader-thread"}
    found = [
        c["verdict"]
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, faster).items()
        if a in faster and b not in faster
    ]
    assert len(found) >= 100
    assert found.count("faster") / len(found) >= 0.90
    assert "slower" not in found
    # And the other way round, where it is a loss.
    slower = dict.fromkeys(faster, 100 / 1.1)
    found = [
        c["verdict"]
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, slower).items()
        if a in slower and b not in slower
    ]
    assert found.count("slower") / len(found) >= 0.90 and "faster" not in found


def test_noise_that_differs_between_contestants_deceives_nobody():
    """Processes twice as noisy as threads, as where they have more to start: variances are weighed, not pooled."""
    wrong = total = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        measured = {
            "throughput": {
                c.key: [math.exp(rng.gauss(0, 0.04 if "process" in c.variant else 0.01)) for _ in range(4)]
                for c in CONTESTANTS
            }
        }
        analysis = statistics.analyse(measured, grid().pairs(CONTESTANTS))
        wrong += sum(c["verdict"] != NO_DIFFERENCE for c in analysis["comparisons"])
        total += len(analysis["comparisons"])
    assert wrong / total <= 0.05


def test_a_noisy_machine_finds_less_and_invents_nothing():
    faster = {c.key: 110.0 for c in CONTESTANTS if c.config == "ft" and c.variant == "loader-thread"}
    for seed in range(5):
        comparisons = run(seed, 4, faster, noise=0.2).values()
        assert sum(c["verdict"] != NO_DIFFERENCE for c in comparisons) / len(comparisons) <= 0.1


def simulated(rounds: int, noise: float) -> tuple[trust.Trust, list[dict[str, float]]]:
    """What python -m ftbench.trust would measure with 10% planted; by contestant, for each round."""
    of = trust.Trust(10, "ft", 2)
    assert [c.case for c in of.contestants].count("more") == 2 and len(of.contestants) == 6
    slower = {c.key: 100 / 1.1 for c in of.contestants if c.case == "more"}
    found = values(random.Random(0), of.contestants, rounds, slower, noise)
    return of, [{key: series[number] for key, series in found.items()} for number in range(rounds)]


def test_both_places_are_judged_from_the_same_rounds():
    of, rounds = simulated(5, 0.01)
    same, planted = of.tallies()
    same.count(rounds)
    planted.count(rounds)
    assert (same.right, same.total) == (planted.right, planted.total) == (2, 2)
    # Intervals are held against what is true of each: no difference, and 10% more work.
    assert same.covered == planted.covered == 2
    assert "intervals hold the truth in 100.0%" in planted.line()
    assert all(0.87 < ratio < 0.95 for ratio in planted.ratios) and all(0.95 < ratio < 1.05 for ratio in same.ratios)


def test_how_many_rounds_find_it_is_told_from_the_rounds_of_all_runs():
    of, rounds = simulated(48, 0.08)
    drawn = {number: [tally.share for tally in said] for number, said in of.drawn(rounds)}
    assert list(drawn) == [3, 4, 5, 6, 8, 10, 12, 16, 20, 24]
    assert all(same >= 0.9 for same, *_ in drawn.values())
    assert drawn[24][1] > 0.9 > drawn[5][1] and drawn[24][1] > drawn[8][1] > drawn[3][1]
    # Of what is supposed, 6%, 10% and 15%, the larger is found more often; 10% as often as the 10% planted.
    assert all(six <= ten <= fifteen for _, _, six, ten, fifteen in drawn.values())
    assert drawn[16][3] == pytest.approx(drawn[16][1], abs=0.1)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("percent", [5, 100])
def test_planted_work_is_loaded_and_not_counted(percent, workers, photos, monkeypatch):
    asked = []
    opened = epochs.open_loader

    def noted(*arguments, **options):
        loader = opened(*arguments, **options)
        epoch = loader.thing.epoch
        loader.thing.epoch = lambda samples: asked.append(samples) or epoch(samples)
        return loader

    monkeypatch.setattr(epochs, "open_loader", noted)
    results = []
    for planted in (0, percent):
        task = Task(
            trust_scenario.SCENARIO,
            sorted(map(str, photos.iterdir())),
            "loader-thread",
            workers,
            2,
            2,
            trust_scenario.AMOUNT.batches_per_worker * workers,
            2,
            parameters={"percent": planted},
            turns=2,
        )
        results.append(without_pause(trust_scenario.measure(task)))
    same, more = results
    assert all(more[name] == same[name] for name in ("batches", "samples", "first_batch", "rows", "last_batch"))
    # Batches of two: a warm-up of two, and those that each turn has before and after what is timed.
    plain, grown = (2 * (2 + 20 * workers * part // 100 + workers) for part in (100, 100 + percent))
    assert asked == [4, *[plain] * 2, 4, *[grown] * 2]
    assert more["metrics"]["throughput"] == pytest.approx(40 * workers / min(more["turn_seconds"]))


def test_interrupted_it_says_what_it_has(command, environment, tmp_path):
    """Real trials; the first of a run is on its way when Ctrl-C comes."""
    out = tmp_path / "trust.json"
    process = subprocess.Popen(
        command("--runs", 1, "--load", 0.1, "--out", out, module="ftbench.trust"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = ""
    for line in process.stdout:
        seen += line
        if "measuring: 6 trials a round" in line:
            break
    process.send_signal(signal.SIGINT)
    seen += process.stdout.read()
    assert process.wait(timeout=120) == 130, seen
    assert "A against A, no difference reported: no run was finished" in seen
    assert json.loads(out.read_text())["runs"] == [{"rounds": [], "turns": [], "disturbed": []}]


def test_the_load_is_about_what_was_asked_for_and_ends():
    def wanted():
        """Seconds that it has had a CPU, or waited for one that others had."""
        had, waited, _ = Path(f"/proc/{bursts.pid}/schedstat").read_text().split()
        return (int(had) + int(waited)) / 1e9

    resource_tracker.ensure_running()  # as tests before this one may have left it
    before = set(psutil.Process().children())
    with trust.load(0.5):
        (bursts,) = set(psutil.Process().children()) - before
        before = time.monotonic(), wanted()
        time.sleep(8)
        used = (wanted() - before[1]) / (time.monotonic() - before[0])
    assert not psutil.pid_exists(bursts.pid)
    assert 0.2 < used < 0.8
