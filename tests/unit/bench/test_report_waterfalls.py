"""Waterfalls in every output: sentences, steps, notes and the advice that follows."""

import math
import re
from dataclasses import replace
from statistics import geometric_mean

import pytest

from ftbench.document.convert import as_json
from ftbench.document.model import Failure, Results, Verdict
from ftbench.plan.waterfall import WaterfallPlan
from ftbench.report import advice, charts, commands, run_words, terminal, verdict_words, waterfalls
from ftbench.report.view import view
from ftbench.stats.comparisons import more_minutes
from tests.unit.bench import documents
from tests.unit.bench.reports import (
    alone,
    changed,
    decided,
    glance,
    named,
    page_of,
    summary_of,
    trials,
    with_other_samples,
    with_throughput,
)


def test_the_waterfalls_sentence_comes_first(many):
    first, second = (verdict_words.sentence(many, fall) for fall in many.waterfalls)
    assert first.startswith("pillow: threads") and "too few rounds" in first
    assert re.match(
        r"chain: threads without the GIL against torch's DataLoader with processes: "
        r"(9\d% faster|2\.\d\d times as fast) "
        r"\([\d.]+%? to [\d.]+%?\), \d+ against \d+ samples/s; removing the GIL by itself: ",
        second,
    )
    # Each step with its factor and in words, then the whole, in every output.
    fall = many.waterfalls[1]
    steps = waterfalls.chart(many, fall).picture.rows
    assert [row.label for row in steps][-2:] == ["the GIL removed", "in all"] and len(steps) == 6
    assert all(row.begin == before.value for before, row in zip(steps[:4], steps[1:5], strict=True))
    assert (steps[-1].begin, steps[-1].value) == (0, steps[-2].value)
    values = tuple(many.scenario("chain").in_each_process("ft/loader-thread/2", "throughput"))
    assert steps[-2].dots == values and steps[-2].value == pytest.approx(geometric_mean(values))


def test_a_missing_step_is_named_with_its_reason(many):
    """It is part of the last step, which is then not the GIL's by itself;
    the audit looks at failing threads.
    """
    missing = "ft-gil/loader-thread/2"

    def fail(results: Results) -> None:
        scenario = results.scenarios[-1]
        for one in scenario.rounds:
            one.trials = [trial for trial in one.trials if trial.candidate != missing]
        left = [c for c in scenario.candidates if c.key != missing]
        scenario.pairs = WaterfallPlan().pairs(left)
        scenario.failures = [Failure("failed", missing, "RuntimeError: not thread-safe")]
        results.options.dataset = "my.py:x"

    failed = changed(many, fail)
    fall = failed.waterfalls[1]
    assert "by itself" not in verdict_words.sentence(failed, fall)
    said = " ".join(waterfalls.notes(failed, fall))
    assert (
        "Missing here: free-threaded build with GIL on" in said
        or "Missing here: loader threads" in said
    )
    assert "The trial of ft-gil loader threads x2 failed: RuntimeError: not thread-safe." in said
    assert "./twins audit my.py:x " in said


@pytest.mark.slow
def test_every_output_says_what_would_settle_a_step(many, tmp_path, capsys):
    run = decided(many)
    assert len(waterfalls.notes(run, run.waterfalls[0])) == 1
    run = decided(many, ratio=1.1, low=1.0, high=1.21, resolution=1.21)
    said = "Undecided: the GIL removed: 3 more minutes would settle it."
    assert "settle" not in verdict_words.sentence(run, run.waterfalls[0])  # which stands beside it
    terminal.write(view(run, page=tmp_path / "report.html"))
    for output in (capsys.readouterr().out, summary_of(run), "".join(page_of(run).shown)):
        assert said in " ".join(output.split())


def test_the_terminal_shows_answers_and_on_request_all_tables(many, capsys):
    terminal.write(view(many))
    brief = capsys.readouterr().out
    lines = brief.splitlines()
    assert all(line == line.rstrip() for line in lines)
    first = next(at for at, line in enumerate(lines) if line.startswith("what changes "))
    for each in advice.openings(many):
        assert not each.code or f"  {each.code}" in lines[:first]
    for _, answer in glance(many):
        assert answer in " ".join(lines[:first])
    assert "highest" not in brief
    terminal.write(view(many, detailed=True))
    whole = capsys.readouterr().out
    assert "highest" in whole and set(lines) <= set(whole.splitlines())


def test_a_narrow_terminal_gets_a_block_of_lines_for_each_step(many, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    run = alone(many, many.scenario("chain"))
    terminal.write(view(run))
    shown = capsys.readouterr().out.splitlines()
    for name, factor, speed, throughput, _ in waterfalls.chart(run, run.waterfalls[0]).table.rows[
        1:
    ]:
        at = shown.index(name)
        assert shown[at + 1] == f"  factor: {factor}, samples/s: {speed}"
        assert shown[at + 2] == f"  throughput: {throughput}"
    # Text that people copy is not broken into lines.
    assert all(
        len(line) <= 60 for line in shown if "DataLoader(" not in line and "./twins" not in line
    )


@pytest.mark.parametrize(
    "fastest, text, code",
    [
        (
            "ft/loader-thread/2",
            "loader threads in free-threaded Python",
            'num_workers=2, worker_method="thread")',
        ),
        (
            "gil/loader-process/2",
            "loader processes in ordinary Python",
            'num_workers=2, worker_method="process")',
        ),
        ("gil/torch-process/2", "torch DataLoader processes in ordinary Python", "num_workers=2)"),
        # It is there to be compared, not to be used.
        (
            "ft-gil/loader-thread/2",
            "loader threads in free-threaded Python (ft)",
            'worker_method="thread")',
        ),
    ],
)
def test_what_is_advised_is_the_fastest_that_was_measured(many, fastest, text, code):
    run = with_throughput(many, fastest, [1e6] * 5)
    advised, line = advice.advice(run, run.waterfalls[1])
    assert text in advised and line.endswith(code)
    assert (
        f"from {'torch.utils.data' if 'torch' in fastest else 'ftloader'} import DataLoader; "
        in line
    )
    assert "batch_size" not in line  # which is the bench's own


def test_what_is_not_told_apart_is_no_reason_to_change(many):
    noisy = [9000.0, 100.0, 9000.0, 100.0, 90000.0]
    run = with_throughput(many, "gil/loader-thread/2", noisy)
    advised, line = advice.advice(run, run.waterfalls[1])
    # It hides nobody who is surely faster.
    assert advised.startswith(
        "Best measured here for chain: loader threads in free-threaded Python"
    )
    assert (
        "Not shown to be slower: loader threads in ordinary Python (gil), num_workers=2" in advised
    )
    assert "Not shown" not in advice.advice(many, many.waterfalls[1])[0]
    for workers in (1, 2):
        run = with_throughput(run, f"ft/loader-thread/{workers}", [each / 2 for each in noisy])
    advised, line = advice.advice(run, run.waterfalls[1])
    assert (
        advised.startswith("Keep torch DataLoader processes in ordinary Python")
        and "from torch." in line
    )
    assert (
        "loader threads in ordinary Python (gil)" in advised
        and "is not told apart from it (between" in advised
    )


@pytest.mark.parametrize(
    "gain, are_advised, verdict", [(1.5, True, r"\d+% faster \("), (1.0, False, "between ")]
)
def test_a_copy_each_follows_the_total_and_is_advised_if_it_is_faster(
    many, gain, are_advised, verdict
):
    run = alone(many, documents.with_copies(many.scenario("chain"), gain))
    (fall,) = run.waterfalls
    assert re.search(
        f"; with a copy of the dataset each: {verdict}", verdict_words.sentence(run, fall)
    )
    total, copies = waterfalls.chart(run, fall).picture.rows[-2:]
    assert [total.label, copies.label] == ["in all", "a copy of the dataset each"]
    assert copies.begin == total.value and copies.value == pytest.approx(
        gain * total.value, rel=0.03
    )
    note = waterfalls.notes(run, fall)[1]
    assert note.startswith(
        "A copy of the dataset each, which the total leaves out: CPU time for 1,000 samples "
    )
    assert re.search(r"; peak memory \d+ MiB to \d+ MiB\.", note)
    advised, code = advice.advice(run, fall)
    assert ("loader threads with a copy each in free-threaded Python" in advised) is are_advised
    assert code.endswith(', worker_method="thread", copy_dataset=True)') is are_advised
    # Threads whose samples are wrong are no alternative, however fast.
    unsafe = with_other_samples(run, "ft/loader-thread/2")
    assert "copy_dataset=True" in advice.advice(unsafe, unsafe.waterfalls[0])[1]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("wrong", ["ft/loader-thread/2", "gil/loader-thread/2"])
def test_who_gave_other_samples_is_not_advised(many, wrong):
    run, last = with_throughput(many, wrong, [1e6] * 5), wrong == "ft/loader-thread/2"
    assert run.waterfalls[1].others == []
    told = with_other_samples(run, wrong)
    fall = told.waterfalls[1]
    advised, _ = advice.advice(told, fall)
    title = told.scenario("chain").candidate(wrong).title
    assert (
        "1000000" not in advised and f"Left out, for they gave other samples: {title}." in advised
    )
    said = verdict_words.sentence(told, fall)
    assert ("gave other samples than torch's DataLoader" in said) is last
    assert bool(re.search("faster|as fast", said)) is not last

    def draw(results: Results) -> None:
        own = (
            trial
            for trial in trials(results, "chain")
            if trial.candidate == fall.throughput.start.candidate
        )
        for number, trial in enumerate(own):
            trial.rows = [number] * len(trial.rows)

    # Where the reference draws again each time, no candidate can be checked.
    assert changed(told, draw).waterfalls[1].others == []


@pytest.mark.parametrize("wrong", ["ft/loader-thread/2", "gil/loader-process/2"])
@pytest.mark.slow
def test_no_output_has_a_ratio_of_different_samples(many, capsys, wrong):
    chain = alone(many, many.scenario("chain"))
    told = with_other_samples(chain, wrong)
    # Neither the step that leads to them nor the one that leads on, in throughput as in CPU time.
    apart = {"ft/loader-thread/2": {4, 5}, "gil/loader-process/2": {1, 2}}[wrong]
    (fall,) = told.waterfalls
    chart = waterfalls.chart(told, fall)
    for place, (row, cells) in enumerate(zip(chart.picture.rows, chart.table.rows, strict=True)):
        factor, _, throughput, cpu = cells[1:]
        assert row.detail == throughput and bool(factor) == ("x " in row.text)
        if place in apart:
            assert (factor, throughput, cpu) == ("", verdict_words.NOT_COMPARED, "")
        else:
            assert bool(factor) == bool(place) and "other samples" not in throughput
    # More time would not settle it; and it is in no picture of ratios.
    changes = [*fall.throughput.changes.values()]
    assert {n for n, c in enumerate(changes, 1) if c.verdict == Verdict.OTHER_SAMPLES} == apart
    assert all(more_minutes(told.scenario("chain"), changes[n - 1]) is None for n in apart)
    titles = {
        run_words.title_with_why(told.scenario("chain"), c)
        for c in named(told, "chain").comparisons
        if c.estimate.verdict == Verdict.OTHER_SAMPLES
    }
    before, after = (
        {
            row.hover
            for found in charts.charts(named(run, "chain"))
            for row in getattr(found.picture, "rows", ())
        }
        for run in (chain, told)
    )
    assert any(hover.split("\n")[0] in titles for hover in before)
    assert not any(hover.split("\n")[0] in titles for hover in after)
    terminal.write(view(told))
    page = page_of(told)
    for said in (capsys.readouterr().out, summary_of(told), " ".join(page.shown)):
        assert said.count(verdict_words.NOT_COMPARED) >= 2
    # The document that the page hands out is as it was written.
    assert page.results() == as_json(told.results)


@pytest.mark.slow
@pytest.mark.parametrize("rounds, status", [(1, "complete"), (2, "incomplete")])
def test_too_little_is_no_advice(many, rounds, status, capsys):
    def cut(results: Results) -> None:
        results.scenarios = results.scenarios[-1:]
        results.status, results.reason = status, "ended"
        results.options = replace(results.options, data=None, rounds=rounds, scenarios=["text"])
        results.scenarios[0].name = "text"
        del results.scenarios[0].rounds[rounds:]

    run = changed(many, cut)
    assert advice.advice(run, run.waterfalls[0])[1] == ""
    terminal.write(view(run))
    said = capsys.readouterr().out
    assert "report:" not in said
    for text in (said, summary_of(run), "".join(page_of(run).shown)):
        assert "Too little was measured to advise" in text and "import DataLoader" not in text
    line = dict(commands.commands(run))["A run of enough rounds"]
    assert line in said and "--rounds" not in line and "text" in line
    budget = run.results.options.budget
    run.results.options = replace(run.results.options, rounds=None)
    line = dict(commands.commands(run))["A run of enough rounds"]
    assert f"--budget {math.ceil(1.5 * budget * 3 / rounds)}" in line, "the same time is too short"
