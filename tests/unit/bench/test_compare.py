"""Two runs side by side: changes that are there are found, noise is called noise, and the exit
status says which.
"""

import copy
import json
import math
import os
import random
import subprocess
import warnings
from dataclasses import replace

import pytest
from scipy import stats

from ftbench import cli
from ftbench.compare.comparing import compare, welch
from ftbench.compare.view import conclusion, describe
from ftbench.document.convert import as_json
from ftbench.document.model import Results
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side
from tests.unit.bench import documents
from tests.unit.bench.reports import compared
from tests.unit.bench.simulated import document as simulated


def thread(real: Results) -> str:
    return next(c.key for c in real.scenarios[0].candidates if c.variant == "loader-thread")


@pytest.mark.slow
def test_the_same_run_again_has_not_changed(document):
    changed = looked_at = 0
    for seed in range(20):
        comparison = compare(simulated(document, seed), simulated(document, 1000 + seed))
        changed += len(comparison.beyond_noise)
        looked_at += len(comparison.changes)
    assert looked_at > 100 and changed / looked_at < 0.05
    assert "no" in conclusion(comparison) or "changed" in conclusion(comparison)


def test_a_candidate_that_became_faster_is_found(document):
    key = thread(document)
    comparison = compare(simulated(document, 1, 8), simulated(document, 2, 8, {key: 150.0}))
    found = [c for c in comparison.beyond_noise if c.is_ratio and c.metric == "throughput"]
    # Against what was before in the chain, and against its start.
    assert len(found) == 2 and all(each.ratio == pytest.approx(1.5, rel=0.1) for each in found)
    assert found[0].low < 1.5 < found[0].high
    assert "x in A" in describe(found[0])
    said = compared(comparison, ("a", document), ("b", document))
    assert "changed   " in said and "changed beyond the noise" in said.splitlines()[-1]
    # Its absolute value is there too; noise of whole rounds is in that.
    (value,) = [
        c
        for c in comparison.changes
        if not c.is_ratio and c.metric == "throughput" and c.ratio > 1.25
    ]
    assert value.better and "faster" in describe(value)
    (memory,) = [
        c
        for c in comparison.changes
        if not c.is_ratio and c.metric == "memory_mib" and c.ratio > 1.25
    ]
    assert not memory.better and "more memory" in describe(memory)


def test_the_two_figures_lead_to_the_change(document):
    changes = compare(simulated(document, 1, 4), simulated(document, 2, 4)).changes
    assert [c.b / c.a for c in changes] == pytest.approx([c.ratio for c in changes])


def test_welch_is_scipys():
    rng = random.Random(1)
    a, b = [rng.gauss(0, 1) for _ in range(4)], [rng.gauss(0.5, 3) for _ in range(7)]
    expected = stats.ttest_ind(b, a, equal_var=False)
    interval = expected.confidence_interval(0.95)
    found = welch(a, b)
    assert math.log(found.ratio) == pytest.approx(sum(b) / 7 - sum(a) / 4)
    assert (math.log(found.low), math.log(found.high), found.p) == (
        pytest.approx(interval.low),
        pytest.approx(interval.high),
        pytest.approx(expected.pvalue),
    )
    same, few = welch([0.0] * 3, [0.0] * 3), welch([0.0] * 2, [1.0] * 9)
    assert (same.ratio, same.low, same.high, same.p) == (1, 1, 1, 1)
    assert (few.low, few.high, few.p) == (None, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert welch([0.5] * 3, [0.5, 0.51, 0.52]).ratio == pytest.approx(
            math.exp(0.01)
        )  # one that repeats to the digit


def test_what_differs_is_said_and_other_work_is_not_compared(document):
    a, b = simulated(document, 1), simulated(document, 2)
    other = b.environment.twins[next(iter(b.environment.twins))]
    other.cpu.model = "Another Processor"
    other.packages["numpy"] = "9.9"
    other.interpreter.free_threaded, other.interpreter.mimalloc_purge_delay = True, "77"
    b.status, b.reason = "incomplete", "interrupted (SIGINT)"
    b.scenarios[0].rounds[1].disturbance.other_cpus = 2.0
    b.scenarios[0].load = replace(b.scenarios[0].load, batch_size=77)
    comparison = compare(a, b)
    assert (
        "processor",
        a.environment.twins[next(iter(other and b.environment.twins))].cpu.model,
        "Another Processor",
    ) in comparison.differences
    assert any(what.endswith(": numpy") and y == "9.9" for what, _, y in comparison.differences)
    assert any(
        what.endswith(": MIMALLOC_PURGE_DELAY") and y == "77"
        for what, _, y in comparison.differences
    )
    said = compared(comparison, ("a", a), ("b", b))
    assert "B is incomplete: interrupted" in said and "1 of 5 rounds were disturbed" in said
    assert "different machines" in said
    assert (
        f"not the same work: batch size is {a.scenarios[0].load.batch_size} in A and 77 in B"
        in said
    )
    assert comparison.changes == [] and "Nothing could be compared" in said


def test_runs_of_before_the_source_was_named_are_of_the_same_software(document):
    before, now = simulated(document, 1), simulated(document, 2)
    for run, build in ((before, "PGO build"), (now, "PGO build from source")):
        for twin in run.environment.twins.values():
            twin.interpreter.build = build
    assert compare(before, now).differences == []


def test_both_cases_of_a_ratio_need_equal_work(document):
    like = document.scenarios[0]
    side = Side("ft", "loader-thread", 1)
    plan = ComparisonPlan(
        (Comparison(replace(side, case="64-KiB"), replace(side, case="512-KiB")),), documents.SIZES
    )
    a, b = (
        replace(document, scenarios=[documents.scenario(like, "x", documents.SIZES, plan=plan)])
        for _ in "ab"
    )
    assert sum(c.is_ratio for c in compare(a, b).changes) == 2
    b.scenarios[0].cases[1].load.batch_size = 77
    assert {c.what for c in compare(a, b).changes} == {"ft loader threads x1 (64-KiB)"}


def test_what_is_planned_from_measured_times_forbids_nothing(document):
    a, b = simulated(document, 1), simulated(document, 2)
    in_a, in_b = a.scenarios[0], b.scenarios[0]
    in_a.load, in_b.load = replace(in_a.load, turns=8), replace(in_b.load, turns=11)
    usual = compare(a, b)
    assert usual.changes and usual.left_out == [] and usual.cautions == []
    # Of an own dataset the batches are planned, too; of all others they are given.
    in_b.load.batches_per_worker = in_a.load.batches_per_worker + 3
    assert compare(a, b).changes == []
    for one, where in ((in_a, "/here"), (in_b, "/there")):
        one.name, one.description = "dataset", f"samples of {where}/mine.py:train"
    own = compare(a, b)
    assert len(own.changes) == len(usual.changes) and own.left_out == []
    (caution,) = own.cautions
    assert "batches a worker" in caution
    other = copy.deepcopy(b)
    other.options.collate_fn = "padded"
    refused = compare(a, other)
    assert (
        refused.changes == []
        and "collate_fn is torch's in A and padded in B" in refused.left_out[0][1]
    )
    larger, another = copy.deepcopy(b), copy.deepcopy(b)
    larger.scenarios[0].load.batch_size = 77
    another.scenarios[0].description = "samples of /x/b.py:train"
    for changed, word in ((larger, "batch size"), (another, "dataset")):
        refused = compare(a, changed)
        assert refused.changes == [] and f"not the same work: {word} is" in refused.left_out[0][1]


@pytest.mark.parametrize(
    "option, value, said",
    [
        ("collate_fn", "padded", "--collate-fn: torch's in A, padded in B"),
        ("requirements", ["a==1", "b"], "--requirements: none in A, a==1, b in B"),
        ("batch_size", 7, "--batch-size: the scenarios' in A, 7 in B"),
        ("workers", [1, 2], "--workers: 1 in A, 1, 2 in B"),
        ("workers", None, "--workers: 1 in A, the scenarios' in B"),
    ],
)
def test_what_was_asked_for_differently_is_named(document, option, value, said):
    a, b = simulated(document, 1), simulated(document, 2)
    setattr(b.options, option, value)
    comparison = compare(a, b)
    assert said in compared(comparison, ("a", a), ("b", b)) and comparison.changes


def test_scenarios_and_candidates_of_one_run_alone(document):
    a, b = simulated(document, 1), simulated(document, 2)
    extra = copy.deepcopy(b.scenarios[0])
    extra.name = "another"
    b.scenarios.append(extra)
    gone = thread(b)
    mine = b.scenarios[0]
    mine.rounds[0].trials = [t for t in mine.rounds[0].trials if t.candidate != gone]
    mine.pairs = [p for p in mine.pairs if gone not in (p.numerator, p.denominator)]
    comparison = compare(a, b)
    assert ("another", "measured in B alone") in comparison.left_out
    assert any(
        "loader threads" in what and why == "measured in A alone"
        for what, why in comparison.left_out
    )
    assert not any("threads" in c.what for c in comparison.changes) and comparison.changes


def test_too_few_rounds_show_nothing(document):
    comparison = compare(document, document)
    assert comparison.changes and comparison.beyond_noise == []
    assert "three rounds are needed" in conclusion(comparison)
    assert any("2 rounds: 3 are needed" in each for each in comparison.cautions)


@pytest.fixture
def save(tmp_path):
    def write(name: str, content: Results) -> object:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(as_json(content)))
        return tmp_path / name

    return write


@pytest.mark.slow
def test_the_command_and_its_exit_status(run_bench, document, save, tmp_path, capsys):
    a, b = (
        save("a", simulated(document, 1, 8)),
        save("b", simulated(document, 2, 8, {thread(document): 200.0})),
    )
    assert cli.main(["compare", str(a), str(a)]) == 0
    same = capsys.readouterr().out
    assert "differ in nothing" in same and "none changed beyond the noise" in same
    changed = run_bench("compare", a / "results.json", b)
    assert (
        changed.returncode == 1
        and "changed beyond the noise" in changed.stdout
        and changed.stderr == ""
    )
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/results.json").write_text((a / "results.json").read_text()[:5000])
    for arguments, word in (
        (("compare", a, tmp_path / "cut"), "cut short"),
        (("compare", a, tmp_path / "none"), "cannot read"),
        (("compare", a), "required"),
        (("compare", a, tmp_path), "holds no results.json"),
        (("report", tmp_path / "none"), "cannot read"),
        (("report", tmp_path / "cut"), "cut short"),
    ):
        try:
            status = cli.main([*map(str, arguments)])
        except SystemExit as end:  # argparse's
            status = end.code
        said = capsys.readouterr()
        assert status == 2 and word in said.err and said.out == ""
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:  # whose reader has had enough
        cut = run_bench("compare", a, a, capture_output=False, stdout=pipe, stderr=subprocess.PIPE)
    assert (cut.returncode, cut.stderr) == (141, "")
    with pytest.raises(SystemExit, match="^0$"):
        cli.main(["compare", "--help"])
    assert "Exit status" in capsys.readouterr().out
