"""Runs of many machines merged: kinds that agree or differ,
machines that stand out, runs that are set apart.
"""

import copy
import json
import math
import random
import re
import statistics
from collections.abc import Callable

import pytest

from ftbench import cli
from ftbench.compare.waterfalls import Figure
from ftbench.document.convert import as_json, from_json
from ftbench.document.model import Results
from ftbench.document.store import load
from ftbench.merge import kinds
from ftbench.merge.merging import merge
from ftbench.merge.model import Group
from ftbench.merge.view import GroupView, _group, view
from ftbench.stats.hours import USUAL, Deviation
from tests.checkout import CHECKOUT
from tests.unit.bench.clusters import GIB, Cluster, only, run


def words(group: Group) -> GroupView:
    return _group(0, group)


def test_steps_on_which_kinds_differ_and_agree(cluster):
    for kind, threads in (("A", 1.0), ("B", 1.5), ("C", 1.5)):
        for number in range(4):
            cluster.node(f"{kind}-{number}", f"Processor {kind}", threads=threads)
    group = only(cluster.merged())
    assert [len(kind.machines) for kind in group.kinds] == [4, 4, 4] and len(group.machines) == 12
    processes, threads, total = group.steps
    assert (processes.name, threads.name) == (
        "this loader, still processes",
        "threads instead of processes",
    )
    assert (processes.agreement, threads.agreement, total.agreement) == (
        "agrees",
        "differs",
        "differs",
    )
    assert processes.apart < 1.1 and threads.apart > 1.4
    assert [round(kind.waterfall.throughput.steps[1].change.ratio, 1) for kind in group.kinds] == [
        1.0,
        1.5,
        1.5,
    ]
    assert total.mean.n == 3 and total.mean.low < 1.5 ** (2 / 3) < total.mean.high
    assert total.expected[0] < total.mean.low and total.expected[1] > total.mean.high
    shown = words(group)
    first = shown.answer
    assert re.match(
        r"Pillow: threads without the GIL against torch's DataLoader with processes: between \d",
        first,
    )
    assert first.endswith("on average over 3 kinds of machine (12 machines).")
    depends, expect, _ = shown.remarks
    assert "It depends on the kind of machine: from " in depends and "Processor A" in depends
    assert expect.startswith("On one more kind of machine, expect roughly ")
    assert [(row[0], row[-1]) for row in shown.steps.rows] == [
        ("this loader, still processes", "agrees"),
        ("threads instead of processes", "differs"),
        ("in all", "differs"),
    ]


@pytest.mark.slow
def test_kinds_that_do_not_differ_are_rarely_said_to(cluster):
    said = {"agrees": 0, "undecided": 0, "differs": 0}
    for repeat in range(5):
        other = Cluster(cluster.record, cluster.shared.parent / f"again-{repeat}")
        for number in range(12):
            other.node(f"{repeat}-{number}", f"Processor {number % 3}")
        for step in only(other.merged()).steps:
            said[step.agreement] += 1
    assert said["differs"] <= 1 and said["agrees"] > 3, said


def test_two_kinds_are_told_without_a_mean(cluster):
    for number in range(3):
        cluster.node(f"a{number}", "Processor A")
        cluster.node(f"b{number}", "Processor B", threads=3.0)
    group = only(cluster.merged())
    said = words(group).answer
    assert "on 3 machines with Processor A, 2 CPUs, 24 GiB, and " in said
    assert re.search(r"\d times as fast \(\d.* on 3 machines with Processor B", said)
    assert group.steps[-1].agreement == "differs"


def test_two_machines_are_no_kinds(cluster, capsys):
    cluster.node("a", "Processor A")
    cluster.node("b", "Processor B", threads=3.0)
    group = only(cluster.merged())
    assert {step.agreement for step in group.steps} == {"too few machines"} and group.steps[
        -1
    ].p is None
    said, _ = words(group).remarks
    assert said.startswith("From ") and said.endswith(
        "Whether the kind makes the difference cannot be told: that takes at least 2 machines "
        "of each of two kinds."
    )
    # A third kind of one machine says as little; with two of two kinds it is left aside.
    for number in range(3):
        cluster.node(f"a{number}", "Processor A")
        cluster.node(f"b{number}", "Processor B", threads=3.0)
    cluster.node("c", "Processor C", threads=9.0)
    group = only(cluster.merged())
    depends, single, *_ = words(group).remarks
    assert (
        depends.startswith("It depends on the kind of machine: from ")
        and "Processor C" not in depends
    )
    assert single == "Kinds of one machine, which have no part in this: 1."
    assert run(capsys, cluster.shared)[0] == 0


def test_earlier_runs_of_a_machine_say_what_hours_do(cluster):
    """Four runs of one machine, whose threads differ by 20% from run to run,
    and one run of another machine.
    """
    node = cluster.node("node1")
    (node / "results.json").unlink()
    for number, threads in enumerate((1.0, 1.25, 0.8, 1.1)):

        def at(results: Results, number: int = number) -> None:
            results.started = f"2026-11-2{number}T12:00:00+00:00"

        cluster.node(f"run{number}", threads=threads, edit=at).rename(node / f"run{number}")
    (node / "latest").symlink_to("run3")
    assumed = only(merge([cluster.node("node2")]))
    group = only(merge([node]))
    assert (assumed.runs_of_hours, group.runs_of_hours) == (
        0,
        4,
    ) and assumed.hours == pytest.approx(USUAL)
    assert 0.08 < group.hours < 0.2
    assert "(assumed)" in words(assumed).remarks[-1]
    assert "(from 4 runs at several hours and the usual 3%)" in words(group).remarks[-1]
    known, usual = (one.kinds[0].waterfall.throughput.total for one in (group, assumed))
    assert known.high / known.low > 1.1 * (usual.high / usual.low)


def test_a_slow_machine_is_named(cluster):
    for number in range(8):
        cluster.node(f"node{number}", speed=0.6 if number == 5 else 1.0)
    cluster.node("other", "Processor B", speed=0.3)
    group = only(cluster.merged())
    (one,) = group.outliers
    assert (
        (one.run, one.what) == ("node5", "speed")
        and one.ratio == pytest.approx(0.6, rel=0.15)
        and one.others < 1.2
    )
    assert re.fullmatch(
        (
            r"node5 is \d\d% slower than its kind in pillow \(the other 7 are within \d+% of their "
            r"mean\)\."
        ),
        *words(group).outliers,
    )


def test_a_small_difference_counts_among_the_others(cluster, monkeypatch):
    def unlikely(values: list[float], alpha: float) -> list[int]:
        """The value farthest from the median, and the nearest to it:
        that one differs by less than 5%.
        """
        return sorted(range(8), key=lambda at: abs(values[at] - statistics.median(values)))[::-7]

    monkeypatch.setattr(kinds, "outliers", unlikely)
    for number in range(8):
        cluster.node(f"node{number}", speed=0.6 if number == 5 else 1.0)
    group = only(cluster.merged())
    (one,) = (each for each in group.outliers if each.what == "speed")
    others = [
        math.log(machine.speed) for machine in group.kinds[0].machines if machine.run != "node5"
    ]
    assert one.run == "node5" and len(others) == 7
    assert math.log(one.others) == pytest.approx(
        max(abs(value - statistics.fmean(others)) for value in others)
    )


def test_a_machine_that_gains_otherwise_is_named(cluster):
    for number in range(8):
        cluster.node(f"node{number}", threads=0.7 if number == 2 else 1.4)
    group = only(cluster.merged())
    (one,) = (each for each in group.outliers if each.what == "total")
    said = next(text for text in words(group).outliers if "gains otherwise" in text)
    assert one.run == "node2" and said.startswith(
        "node2 gains otherwise than its kind in pillow: threads without the "
    )
    assert re.search(
        (
            r"are \d+% slower, and on average \d+% faster \(the other 7 are within \d+% of their "
            r"mean\)"
        ),
        said,
    )


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_what_is_said_of_few_machines(cluster, number):
    for each in range(number):
        cluster.node(f"node{each}")
    group = only(cluster.merged())
    shown = words(group)
    assert group.outliers == [] and len(shown.remarks) == 1 and shown.steps.rows == ()
    assert (
        f"on {number} machine{'s' if number > 1 else ''} with Processor A, 2 CPUs" in shown.answer
    )


def test_one_run_is_told_as_its_report_tells_it_and_wider(cluster):
    results = json.loads((cluster.node("alone") / "results.json").read_text())
    (kind,) = only(cluster.merged()).kinds
    (fall,) = results["waterfalls"]
    mean = kind.waterfall.throughput
    steps = [*fall["steps"], fall["total"]]
    for effect, step in zip(mean.changes.values(), steps, strict=True):
        assert effect.ratio == pytest.approx(step["ratio"])
        assert effect.low < step["low"] and effect.high > step["high"]
        assert math.log(effect.high / effect.low) / 2 > 1.96 * USUAL
    assert mean.start.value == pytest.approx(fall["start"]["value"])


def test_the_order_of_runs_does_not_matter(cluster):
    paths = [
        cluster.node(f"node{n}", f"Processor {n % 2}", edit=torch if n == 3 else None)
        for n in range(7)
    ]
    expected = merge(paths)
    random.Random(1).shuffle(paths)
    assert as_json(merge(paths))["groups"] == as_json(expected)["groups"]


def packages(**versions: str) -> Callable[[Results], None]:
    def edit(results: Results) -> None:
        for twin in results.environment.twins.values():
            twin.packages.update(versions)

    return edit


torch = packages(torch="9.9")


def other_samples(results: Results) -> None:
    for one in results.scenarios[0].rounds:
        for trial in one.trials:
            trial.first_batch = 77


def other_ranks(results: Results) -> None:
    results.options.ranks = results.scenarios[0].ranks = 2


def other_allocator(results: Results) -> None:
    for twin in results.environment.twins.values():
        twin.interpreter.free_threaded, twin.interpreter.mimalloc_purge_delay = True, "77"


def downloaded(results: Results) -> None:
    for twin in results.environment.twins.values():
        twin.interpreter.build = "PGO build of python-build-standalone 20261110"


APART = {
    "place": (
        downloaded,
        "(ft|gil): Python's build is PGO build of python-build-standalone 20261110, not ",
    ),
    "torch": (torch, r"(ft|gil): torch is 9\.9, not \S+"),
    "project": (
        lambda r: setattr(r.environment, "source", "f" * 64),
        "sources of loader and bench is ffffffffffff, not ",
    ),
    "compiler": (
        lambda r: [
            setattr(twin.interpreter, "compiler", "tcc") for twin in r.environment.twins.values()
        ],
        "(ft|gil): Python's compiler is tcc, not ",
    ),
    "freed memory": (other_allocator, "(ft|gil): MIMALLOC_PURGE_DELAY is 77, not "),
    "batches": (
        lambda r: setattr(r.scenarios[0].load, "batch_size", 77),
        "batch size is 77, not 8",
    ),
    "ranks": (other_ranks, "number of ranks is 2, not 1"),
    "workers": (lambda r: setattr(r.options, "workers", [1, 2]), "--workers is 1, 2, not 1"),
    "quick": (
        lambda r: setattr(r.options, "quick", not r.options.quick),
        r"--quick is (yes, not no|no, not yes)",
    ),
    "container": (
        lambda r: [setattr(twin.os, "container", "lxc") for twin in r.environment.twins.values()],
        "container is lxc, not ",
    ),
    "files": (
        lambda r: setattr(r.scenarios[0].load.dataset, "mean_bytes", 5),
        "mean size of a file is 5, not 70000",
    ),
    "samples": (other_samples, "first samples is 0000004d and 00000001, not 00000001 and 00000001"),
}


@pytest.mark.parametrize("change, why", APART.values(), ids=APART)
def test_other_software_and_other_work_are_set_apart(cluster, capsys, change, why):
    for number in range(3):
        cluster.node(f"node{number}")
    cluster.node("strange", edit=change)
    merged = cluster.merged()
    (main,), (apart,) = merged.groups, merged.apart
    assert (len(main.machines), len(apart.machines), main.differences) == (3, 1, [])
    difference, *_ = apart.differences
    assert re.match(why, difference)
    assert cli.main(["merge", str(cluster.shared)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"strange: {apart.workload} is set apart: {'; '.join(apart.differences)}." in said


def rename(results: Results, config: str, twin: str) -> None:
    """Make a run of one twin that of the other twin, with the same versions and figures."""
    before, text = results.options.configs[0], json.dumps(as_json(results))
    text = text.replace(f'"{before}/', f'"{config}/').replace(f'"{before}"', f'"{config}"')
    renamed = from_json(Results, json.loads(text))
    vars(results).update(vars(renamed))
    results.environment.twins = {twin: next(iter(results.environment.twins.values()))}


def test_a_run_of_the_other_twin_alone_is_set_apart(cluster):
    (config,) = cluster.record.options.configs
    other = "gil" if config != "gil" else "ft"
    cluster.node("a")
    cluster.node("b")
    cluster.node("c", edit=lambda results: rename(results, other, other))
    (apart,) = cluster.merged().apart
    assert f"--configs is {other}, not {config}" in apart.differences


def test_what_may_differ_is_named_with_the_runs(cluster, capsys):
    def others(results: Results) -> None:
        results.options.budget, results.options.precision = 77.0, 0.25
        results.scenarios[0].load.turns += 3
        results.warnings = ["the disc was \x1b[31mslow"]
        results.scenarios[0].rounds[1].disturbance.other_cpus = 1.5

    def usual(results: Results) -> None:
        results.warnings = []
        for one in results.scenarios[0].rounds:
            one.disturbance.other_cpus = one.disturbance.stolen_cpus = (
                one.disturbance.throttled_seconds
            ) = 0.0

    def odd(results: Results) -> None:
        usual(results)
        others(results)

    for number in range(3):
        cluster.node(f"node{number}", edit=usual)
    assert cluster.merged().notes == []
    cluster.node("odd", edit=odd)
    merged = cluster.merged()
    assert len(only(merged).machines) == 4
    turns = cluster.record.scenarios[0].load.turns
    budget, precision = cluster.record.options.budget, cluster.record.options.precision
    assert merged.notes == [
        f"pillow: the number of turns differs: {turns} in node0, node1, node2; {turns + 3} in odd",
        f"pillow: --budget differs: {budget:g} in node0, node1, node2; 77 in odd",
        f"pillow: --precision differs: {100 * precision:g}% in node0, node1, node2; 25% in odd",
        "pillow: other load disturbed odd (1 of 5 rounds)",
        "warning of odd: the disc was \x1b[31mslow",
    ]
    assert run(capsys, cluster.shared)[0] == 0


def test_what_cannot_matter_sets_nothing_apart(cluster):
    cluster.node("a", edit=packages(pip="1.0"))
    cluster.node("b", edit=packages(pip="2.0"), memory=24 * GIB + 70_000_000)
    cluster.node("c", memory=23 * GIB)
    assert [len(kind.machines) for kind in only(cluster.merged()).kinds] == [3]


def test_a_users_dataset_may_use_any_package(cluster):
    def own(*names: str, version: str) -> Callable[[Results], None]:
        def edit(results: Results) -> None:
            results.scenarios[0].name = results.waterfalls[0].scenario = "dataset"
            packages(**dict.fromkeys(names, version))(results)

        return edit

    cluster.node("a", edit=own("pip", version="1.0"))
    cluster.node("b", edit=own("pip", version="2.0"))
    (twin,) = cluster.record.environment.twins
    assert [group.differences for group in cluster.merged().apart] == [
        [f"{twin}: pip is 2.0, not 1.0"]
    ]
    # The first four are listed.
    cluster.node("c", edit=own("pip", *"abcdef", version="3.0"))
    merged = cluster.merged()
    assert len(merged.apart[-1].differences) == 7
    assert view(merged).not_merged[-1].endswith(" and 3 more.")


KEPT = CHECKOUT / "docs/results"


@pytest.mark.slow
@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_the_kept_runs_are_of_other_versions(capsys, tmp_path):
    kept = [KEPT / "2026-11-28-quick-2-cpus", KEPT / "2026-11-27-quick-16-cpus"]
    merged = merge(kept)
    (pillow, text), (apart,) = merged.groups, merged.apart
    assert (pillow.workload, text.workload, apart.workload) == ("pillow", "text", "pillow")
    assert (
        pillow.kinds[0].name == "AMD EPYC, 2 CPUs, 24 GiB"
        and apart.kinds[0].waterfall.workers == 16
    )
    assert "ft: torch is 2.11.0, not 2.10.0" in apart.differences
    assert run(capsys, *kept, "--out", tmp_path)[0] == 1
    summary = (tmp_path / "summary.md").read_text()
    assert (
        summary.count("### Pillow: kinds of machine") == 1
        and summary.count("quick-16-cpus: pillow is set apart: ") == 1
    )


@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_a_machine_alone_has_the_interval_of_its_report_and_its_hours():
    run = KEPT / "2026-11-28-quick-2-cpus"
    groups, falls = merge([run]).groups, load(run).waterfalls
    assert len(groups) == len(falls) == 2
    for group, fall in zip(groups, falls, strict=True):
        (kind,) = group.kinds
        wide, narrow = (
            math.log(total.high / total.low) / 2
            for total in (kind.waterfall.throughput.total, fall.throughput.total)
        )
        # The rounds' quantile is larger than that of the normal distribution.
        assert math.hypot(narrow, 1.9 * USUAL) < wide < math.hypot(narrow, 3 * USUAL)


def test_few_rounds_of_a_machine_alone_say_no_more_than_in_its_report():
    few, hours = Figure(0.1, 0.02, 2, 3, unseen=0.1), Deviation(USUAL**2, 50)
    low, high = kinds.mean_of_machines([few], hours).interval()
    own = 4.3 * few.error + few.unseen  # Student's t with two degrees of freedom
    assert (high - low) / 2 > own


@pytest.mark.slow
@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_a_cluster_grown_from_a_real_run(tmp_path):
    """Ten machines of two kinds, made from one real run:
    its values are scaled, and its processor is renamed.
    """
    real = json.loads((KEPT / "2026-11-28-quick-2-cpus/results.json").read_text())
    rng = random.Random(5)
    for number in range(10):
        node = copy.deepcopy(real)
        intel = number >= 6
        for twin in node["environment"]["twins"].values():
            twin["cpu"]["model"] = "Intel" if intel else "AMD"
        for trial in (t for s in node["scenarios"] for r in s["rounds"] for t in r["trials"]):
            gain = 1.4 if intel and trial["candidate"].startswith("ft/") else 1.0
            gain *= rng.lognormvariate(0, 0.01) * (0.78 if number == 4 else 1.0)
            trial["metrics"]["throughput"] *= gain
            trial["turn_seconds"] = [seconds / gain for seconds in trial["turn_seconds"]]
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}/results.json").write_text(json.dumps(node))
    merged = merge([tmp_path])
    assert merged.left_out == [] and [group.workload for group in merged.groups] == [
        "pillow",
        "text",
    ]
    for group in merged.groups:
        assert [(one.run, one.what, round(one.ratio, 1)) for one in group.outliers] == [
            ("node4", "speed", 0.8)
        ]
        agreement = {step.name: step.agreement for step in group.steps}
        assert agreement["the GIL removed"] == agreement["in all"] == "differs"
        assert "differs" not in [agreement[name] for name in [*agreement][:3]]
