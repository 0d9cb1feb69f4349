"""Scenarios with cases: who is measured under which,
what trials are asked for, what is left out.
"""

import time
from dataclasses import replace

import pytest

from ftbench.plan.candidates import CONFIGS, Candidate
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side, grid
from ftbench.plan.scenario import Task
from ftbench.rounds.controller import Controller, Unavailable, WorkDiffers
from ftbench.rounds.work import Work
from ftbench.scenarios import SCENARIOS
from ftrun.interruption import Interruption
from tests.unit.bench.scripted import Script, Silent, load

CASES = (
    Case("64-KiB", "64 KiB samples", {"rows": 16}, 65536, sample_bytes=65536, full=Amount(256, 4)),
    Case("4-MiB", "4 MiB samples", {"rows": 1024}, 4 << 20, sample_bytes=4 << 20),
)
SCENARIO = replace(
    SCENARIOS["pillow"], case_axis="sample size", case_unit="bytes", plan=grid(CASES)
)


class Endpoint(Script):
    """Answers with the checksums of the case that was asked for."""

    def __init__(self, **more):
        super().__init__()
        self.more = more

    def run(self, request: dict) -> dict:
        rows = request["parameters"]["rows"]
        return {"first_batch": rows, "rows": [rows], "metrics": {"throughput": 1.0}, **self.more}


def rounds(endpoint: Endpoint, ranked: list) -> list:
    work = Work(
        SCENARIO,
        {"64-KiB": load(256, 4), "4-MiB": load(8, 3)},
        {"64-KiB": ["small"], "4-MiB": ["large"]},
    )
    with Interruption() as interruption:
        controller = Controller(work, {"ft": endpoint, "gil": endpoint}, Silent(), interruption, 1)
        return list(controller.rounds(ranked, time.monotonic() + 600, 0.001, 1))


def test_keys_name_the_case():
    c = Candidate("ft", "loader-thread", 2, case="4-MiB")
    assert (c.key, c.title) == ("ft/loader-thread/2@4-MiB", "ft loader threads x2 (4-MiB)")


def test_entries_with_cases_and_workers_of_their_own():
    a = Side("ft", "loader-thread", case="200-ms", workers=64)
    b = Side("ft", "loader-thread", case="200-ms")
    c = Side("ft", "loader-thread", case="5-ms")
    plan = ComparisonPlan(
        (Comparison(a, b, "waiting", asked=True), Comparison(b, c), Comparison(Side("gil", "loop")))
    )
    ranked = plan.ranked(CONFIGS, [1, 2], quick=False)
    candidates = [c for _, c in ranked]
    assert {c.key for c in candidates} == {
        "ft/loader-thread/64@200-ms",
        "ft/loader-thread/2@200-ms",
        "ft/loader-thread/2@5-ms",
        "gil/loop/2",
    }
    assert [(p.numerator, p.denominator) for p in plan.pairs(candidates)] == [
        ("ft/loader-thread/64@200-ms", "ft/loader-thread/2@200-ms"),
        ("ft/loader-thread/2@200-ms", "ft/loader-thread/2@5-ms"),
    ]
    assert not any(c.variant == "loop" for _, c in plan.ranked(CONFIGS, [2], quick=True))
    # If none is asked for, a quick run has everything.
    plain = ComparisonPlan((Comparison(a, b), Comparison(b, c)))
    assert plain.ranked(CONFIGS, [2], quick=True) == plain.ranked(CONFIGS, [2], quick=False)


def test_trials_get_what_belongs_to_their_case():
    endpoint = Endpoint()
    ranked = SCENARIO.plan.ranked(CONFIGS, [2], quick=False)
    (only,) = rounds(endpoint, ranked)
    assert {trial.candidate for trial in only.trials} == {c.key for _, c in ranked}
    found = {
        (r["case"], r["paths"][0], r["batch_size"], r["batches"], r["parameters"]["rows"])
        for r in endpoint.ran
    }
    assert found == {("64-KiB", "small", 256, 8, 16), ("4-MiB", "large", 8, 6, 1024)}
    names = {*Task.__dataclass_fields__, "patience", "hash_seed"}
    assert all(name in names for r in endpoint.ran for name in r)


def test_samples_are_compared_within_a_case():
    ranked = SCENARIO.plan.ranked(CONFIGS, [2], quick=False)
    rounds(Endpoint(), ranked)  # each case has its own
    other = iter(range(1000))

    class Wrong(Endpoint):
        def run(self, request: dict) -> dict:
            return {**super().run(request), "first_batch": next(other)}

    with pytest.raises(WorkDiffers, match="gave different samples"):
        rounds(Wrong(), ranked)
    rounds(Endpoint(first_batch=None, rows=[]), ranked)  # nothing to compare


def test_a_scenario_that_cannot_run_says_why():
    ranked = SCENARIO.plan.ranked(CONFIGS, [2], quick=False)
    with pytest.raises(Unavailable, match="no GPU"):
        rounds(
            Endpoint(unavailable="no GPU is visible: start the container with --gpus all"), ranked
        )


def test_amounts_of_a_case_and_of_the_scenario():
    assert SCENARIO.amount(False, CASES[0]) == SCENARIO.amount(True, CASES[0]) == Amount(256, 4)
    assert (
        SCENARIO.amount(True, CASES[1]) == SCENARIO.quick
        and SCENARIO.amount(False, CASES[1]) == SCENARIO.full
    )
    assert SCENARIO.case("4-MiB") is CASES[1] and SCENARIOS["pillow"].case("").parameters == {}
    with pytest.raises(KeyError, match="'x'"):
        SCENARIO.case("x")


def test_a_process_measures_all_cases_and_each_candidate_gets_its_own_result():
    asked: list[dict] = []

    class Inside(Endpoint):
        def run(self, request: dict) -> dict:
            asked.append(request)
            first, *others = (
                super(Inside, self).run(each) for each in (request, *request["others"])
            )
            return {**first, "others": others}

    work = Work(
        replace(SCENARIO, inside=True),
        {"64-KiB": load(256, 4, 3), "4-MiB": load(8, 3, 3)},
        {"64-KiB": ["small"], "4-MiB": ["large"]},
    )
    ranked = [
        (rank, c)
        for rank, c in SCENARIO.plan.ranked(("gil", "ft"), [2], quick=True)
        if c.variant == ("loader-thread" if c.config == "ft" else "loader-process")
    ]
    one_each = work.gather(ranked)
    assert [c.case for _, c in one_each] == ["64-KiB", "64-KiB"] and len(ranked) == 4
    with Interruption() as interruption:
        controller = Controller(
            work, dict.fromkeys(("ft", "gil"), Inside()), Silent(), interruption, 1
        )
        (only,) = controller.rounds(one_each, time.monotonic() + 600, 0.001, 1)
    assert {trial.candidate: trial.first_batch for trial in only.trials} == {
        f"{who}/2@{case}": rows
        for who in ("gil/loader-process", "ft/loader-thread")
        for case, rows in (("64-KiB", 16), ("4-MiB", 1024))
    }
    assert len(asked) == 2 and {request["others"][0]["paths"][0] for request in asked} == {"large"}
