"""What hours do: the deviation between runs, the runs that tell it, and that changes and kinds
allow for it.
"""

import copy
import json
import math
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from ftbench.compare import earlier
from ftbench.compare.comparing import compare
from ftbench.compare.waterfalls import Figure
from ftbench.document import history
from ftbench.document.convert import as_json
from ftbench.document.history import Entry
from ftbench.document.model import Results
from ftbench.merge.agreement import agreed_steps
from ftbench.merge.kinds import mean_of_machines
from ftbench.report import advice, commands, hour_words
from ftbench.stats.analysis import analyse
from ftbench.stats.hours import USUAL, deviation, hours
from ftbench.stats.statistics import spread
from tests.unit.bench.reports import compared
from tests.unit.bench.simulated import blank
from tests.unit.bench.simulated import document as simulated

PLACE = ("pillow", "")


def at_an_hour(seed: object, sigma: float = USUAL, rounds: int = 5) -> Results:
    """Return a run whose candidates all are as fast, but for the hour:
    *sigma* is that of a ratio of two.
    """
    rng = random.Random(f"hour {seed}")
    record = blank()
    keys = [candidate.key for candidate in record.scenarios[0].candidates]
    speeds = {key: 100 * math.exp(rng.gauss(0, sigma / math.sqrt(2))) for key in keys}
    return simulated(record, rng.randrange(10**9), rounds, speeds)


def write(root: Path, results: Results, day: int) -> Path:
    results.started = f"2026-11-{day:02}T12:00:00+00:00"
    folder = root / f"202611{day:02}-120000"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(as_json(results)))
    return folder / "results.json"


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """The files of six runs at six days, the last in the latest folder."""
    root = tmp_path_factory.mktemp("days")
    return [write(root, at_an_hour(day, 0.05), day) for day in range(1, 7)]


def loaded(file: Path) -> Results:
    return next(
        run
        for run in history.runs(file.parent.parent, blank().environment.source)
        if same_file(run, file)
    )


def same_file(run: Results, file: Path) -> bool:
    return json.loads(file.read_text())["started"] == run.started


# The numbers.


def test_a_further_run_is_where_it_is_expected():
    rng, right, cases = random.Random(4), 0, 600
    for _ in range(cases):
        figures = [(rng.gauss(0.7, math.hypot(USUAL, 0.012)), 0.012) for _ in range(6)]
        low, high = hours(figures, 86400).expected
        right += low <= math.exp(rng.gauss(0.7, math.hypot(USUAL, 0.012))) <= high
    assert 0.93 < right / cases < 0.98


def test_few_runs_say_nothing_of_other_hours():
    assert hours([(0.7, 0.01)] * 2, 3600).expected is None
    assert hours([(0.7, 0.01)] * 3, 3600).expected is not None


@pytest.mark.parametrize("sigma", [0.0, 0.03, 0.06])
def test_the_deviation_comes_near_the_true_one_with_many_runs(sigma):
    rng = random.Random(f"{sigma}")
    sets = [
        [(rng.gauss(level, math.hypot(sigma, 0.01)), 0.01) for _ in range(200)]
        for level in (0.1, 0.9, 0.4)
    ]
    known = deviation(sets)
    assert (
        known.runs == 600
        and known.degrees == 601
        and known.sigma == pytest.approx(sigma, abs=0.005)
    )
    assumed = deviation([sets[0][:2], []])
    assert (assumed.sigma, assumed.degrees, assumed.runs) == (pytest.approx(USUAL), math.inf, 0)


# Two runs.


@pytest.mark.slow
@pytest.mark.parametrize("sigma, known", [(USUAL, False), (0.06, True)])
def test_unchanged_runs_at_two_hours_have_changed_in_at_most_5_of_100_pairs(sigma, known):
    changed = 0
    for machine in range(6):
        runs = [at_an_hour((machine, number, sigma), sigma) for number in range(20)]
        pairs = zip(runs[::2], runs[1::2], strict=True)
        changed += sum(bool(compare(a, b, [runs] if known else ()).beyond_noise) for a, b in pairs)
    # 3 of 60 are expected at most; 7 or more come in 3 of 100 such tests.
    assert changed <= 6, changed


def test_a_change_is_found_in_spite_of_hours():
    key = next(c.key for c in blank().scenarios[0].candidates if c.variant == "loader-thread")
    found = 0
    for pair in range(10):
        a, b = at_an_hour(f"a{pair}", rounds=8), at_an_hour(f"b{pair}", rounds=8)
        for one in b.scenarios[0].rounds:
            for trial in (trial for trial in one.trials if trial.candidate == key):
                trial.metrics["throughput"] *= 1.3
        found += any(c.is_ratio and c.metric == "throughput" for c in compare(a, b).beyond_noise)
    assert found >= 9


def test_the_comparison_says_which_deviation_it_allows_for(days):
    runs = [loaded(file) for file in days]
    a, b = runs[:2]
    assumed = compared(compare(a, b), ("a", a), ("b", b))
    usual = "3% of ratios and memory, 15% of other values"
    assert (
        f"(standard deviation {usual}, assumed, since fewer than 3 runs like A or B were found)"
        in assumed
    )
    sets = earlier.sets((a, days[0]), (b, days[1]))
    assert [len(each) for each in sets] == [6]
    comparison = compare(a, b, sets)
    assert (
        "%, from 6 runs like A or B and the usual 3% of ratios and memory, 15% of other values)"
        in compared(comparison, ("a", a), ("b", b))
    )
    assert comparison.changes and all(change.hours.runs == 6 for change in comparison.changes)


# Kinds of machine.


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("machines", [2, 4])
@pytest.mark.parametrize("sigma", [USUAL, 0.06])
def test_like_kinds_differ_in_at_most_5_of_100_merges(machines, sigma):
    rng, differ, cases = random.Random(f"{machines} {sigma}"), 0, 300
    known = deviation(
        [[(rng.gauss(0.4, math.hypot(sigma, 0.01)), 0.01) for _ in range(12)]]
        if sigma > USUAL
        else []
    )
    for _ in range(cases):
        means = []
        for _ in range(2):
            figures = []
            for _ in range(machines):
                hour = rng.gauss(0.4, sigma)
                logs = [rng.gauss(hour, 0.03) for _ in range(5)]
                figures.append(Figure(sum(logs) / 5, *spread(logs), 5))
            means.append(mean_of_machines(figures, known))
        (step,) = agreed_steps({"in all": means}, [machines, machines])
        differ += step.agreement == "differs"
    assert differ / cases <= 0.05


# The runs that tell it.


def test_runs_of_one_machine_with_one_setting_are_found(days):
    run = loaded(days[-1])
    found = earlier.find(run, days[-1])
    total = found[PLACE]["in all"]
    assert (total.runs, total.seconds) == (6, 5 * 86400)
    assert total.expected[0] < total.lowest < total.highest < total.expected[1]
    assert {"threads instead of processes", "this loader, still processes"} < found[PLACE].keys()


def identified(name: str):
    def change(results: Results) -> None:
        for twin in results.environment.twins.values():
            twin.os.machine_id = name

    return change


OTHERS = {
    "incomplete": lambda r: (
        setattr(r, "status", "incomplete"),
        setattr(r, "reason", "interrupted"),
    ),
    "quick": lambda r: setattr(r.options, "quick", False),
    "budget": lambda r: setattr(r.options, "budget", 99.0),
    "precision": lambda r: setattr(r.options, "precision", 0.2),
    "rounds": lambda r: setattr(r.options, "rounds", 5),
    "scenarios": lambda r: setattr(r.options, "scenarios", ["pillow", "text"]),
    "workers": lambda r: setattr(r.options, "workers", [1, 2]),
    "batch size": lambda r: setattr(r.scenarios[0].load, "batch_size", 77),
    "images": lambda r: setattr(r.scenarios[0].load.dataset, "mean_bytes", 5),
    "sources": lambda r: setattr(r.environment, "source", "f" * 64),
    "torch": lambda r: [twin.packages.update(torch="9.9") for twin in r.environment.twins.values()],
    "build": lambda r: [
        setattr(twin.interpreter, "build", "plain") for twin in r.environment.twins.values()
    ],
    "processor": lambda r: [
        setattr(twin.cpu, "model", "another") for twin in r.environment.twins.values()
    ],
    "machine": identified("0123456789abcdef"),
    "no time": lambda r: setattr(r, "started", "yesterday"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_machines_settings_and_software_are_no_hours(days, tmp_path, change):
    other = loaded(days[0])
    file = write(tmp_path, at_an_hour("own"), 20)
    own = loaded(file)
    folder = write(tmp_path, other, 21).parent
    assert earlier.find(own, file)[PLACE]["in all"].runs == 2
    change(other)
    (folder / "results.json").write_text(json.dumps(as_json(other)))
    assert earlier.find(own, file)[PLACE]["in all"].runs == 1


def test_what_is_planned_from_measured_times_is_no_setting(days, tmp_path):
    other, file = loaded(days[0]), write(tmp_path, at_an_hour("own"), 20)
    other.scenarios[0].load.turns += 3
    other.environment.revision.commit = "e" * 40
    write(tmp_path, other, 21)
    assert earlier.find(loaded(file), file)[PLACE]["in all"].runs == 2


def test_a_machine_is_known_by_its_id_not_by_its_hardware(days, tmp_path):
    """Equal machines that write to one folder at the same time:
    told apart by their ids, else by the time.
    """
    runs = [loaded(file) for file in days[:4]]
    for number, run in enumerate(runs):
        write(tmp_path, run, number + 1)
        run.started = f"2026-11-01T12:00:{10 * number:02}+00:00"

    def others(*names: str | None) -> int:
        for run, name, file in zip(
            runs, names, sorted(tmp_path.glob("*/results.json")), strict=True
        ):
            identified(name)(run)
            file.write_text(json.dumps(as_json(run)))
        return earlier.find(runs[0], tmp_path / "20261101-120000/results.json")[PLACE][
            "in all"
        ].runs

    assert others(None, None, None, None) == 1
    assert others("a", "b", "a", "c") == 2


def test_a_copy_is_no_further_run(days, tmp_path):
    for number in range(3):
        shutil.copytree(days[0].parent, tmp_path / f"copy{number}")
    assert earlier.find(loaded(days[0]), tmp_path / "copy0/results.json")[PLACE]["in all"].runs == 1


def test_broken_neighbours_do_no_harm(days, tmp_path):
    file = write(tmp_path, at_an_hour("own"), 20)
    for name, content in (
        ("cut", file.read_bytes()[:-900]),
        ("empty", b""),
        ("noise", b"\xff" * 99),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_bytes(content)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/results.json")
    (tmp_path / "latest").symlink_to(file.parent.name)
    assert earlier.find(loaded(file), file)[PLACE]["in all"].runs == 1


# The record in the cache folder.


def test_the_record_outlives_the_runs(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    for day in range(1, 5):
        run = at_an_hour(day)
        run.options.cache = str(cache)
        file = write(tmp_path / "out", run, day)
        known = earlier.find(run, file)[PLACE]["in all"]
        assert known.runs == day
        earlier.remember(run)
        # It is in its folder and in the record, and counts once.
        assert earlier.find(run, file)[PLACE] == {**earlier.find(run, file)[PLACE], "in all": known}
        shutil.rmtree(file.parent)
    assert known.seconds == 3 * 86400


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00\n", b"{}\n[]\nnull\n", b'{"key": "KEY"}\n', None]
)
def test_a_record_that_is_broken_or_missing_fails_nothing(tmp_path, content):
    run = at_an_hour(1)
    run.options.cache = str(tmp_path / "cache")
    file = write(tmp_path / "out", run, 1)
    ((_, entry),) = earlier.entries(run)
    if content is not None:
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / history.RECORD).write_bytes(
            content.replace(b"KEY", entry.key.encode()) + b'{"cut":'
        )
    assert earlier.find(run, file)[PLACE]["in all"].runs == 1
    earlier.remember(run)
    # A line that was cut short does not spoil the next one.
    assert history.recorded(tmp_path / "cache", entry.key) == ([] if content is None else [entry])


@pytest.mark.parametrize("part", ["started", "seconds", "figures"])
def test_an_entry_of_another_form_is_passed_over(tmp_path, part):
    good = Entry("k", "2026-11-20T12:00:00+00:00", 60.0, {"in all": (0.5, 0.01)})
    history.record(tmp_path, [good])
    line = json.loads((tmp_path / history.RECORD).read_text().strip())
    for value in ("x", None, [1], {"in all": 1}, {"in all": [math.inf, 1]}):
        if part != "seconds" or value is not None:
            line[part] = value
            with open(tmp_path / history.RECORD, "a") as file:
                file.write(json.dumps(line) + "\n")
    assert history.recorded(tmp_path, "k") == [good]


# The words.


def test_what_a_report_says_of_hours(days):
    run = analyse(loaded(days[-1]))
    run.hours = earlier.find(run.results, days[-1])
    (opening,) = advice.openings(run)
    number = r"\d\.\d\d"
    assert re.fullmatch(
        rf"As factors, at other hours: this run {number} \({number} to {number}\); 6 runs in 5 "
        rf"days: {number} to "
        rf"{number}; another hour: {number} to {number}\.",
        opening.remarks[0],
    )
    assert not any("--again" in line for _, line in commands.further(run))


@pytest.mark.parametrize("number, said", [(1, "One hour only: "), (2, "2 runs only: ")])
def test_what_a_report_says_of_one_hour(days, tmp_path, number, said):
    for file in days[-number:]:
        shutil.copytree(file.parent, tmp_path / file.parent.name)
    run = analyse(loaded(days[-1]))
    run.hours = earlier.find(run.results, tmp_path / days[-1].parent.name / "results.json")
    (opening,) = advice.openings(run)
    assert opening.remarks[0].startswith(
        f"{said}run it again at other hours (--again 5 --every 1h)"
    )
    what, line = commands.further(run)[-1]
    assert what == "The same at other hours" and line.startswith("./twins bench pillow --quick ")
    assert line.endswith(" --again 5 --every 1h")


def test_runs_within_an_hour_are_not_called_hours(days):
    run = analyse(loaded(days[-1]))
    close = {
        name: copy.replace(each, seconds=900.0)
        for name, each in earlier.find(run.results, days[-1])[PLACE].items()
    }
    run.hours = {PLACE: close}
    (said,) = hour_words.sentences(run, run.waterfalls[0])
    assert (
        "6 runs in 15 minutes" in said
        and "another run soon after: " in said
        and "another hour" not in said
    )


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0, "1 minute"),
        (2400, "40 minutes"),
        (5400, "2 hours"),
        (86400, "24 hours"),
        (345600, "4 days"),
    ],
)
def test_the_span_in_words(seconds, words):
    assert hour_words.span(seconds) == words
