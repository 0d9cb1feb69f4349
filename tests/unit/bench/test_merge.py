"""Runs of many machines merged: kinds that agree or differ, machines that stand out, what is set apart or left out.

The machines are made from one record: another processor is written into its environment, and its figures are drawn
around other means (tests.unit.bench.simulated).
"""

import copy
import json
import os
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ftbench import cli
from ftbench.document.convert import as_json
from ftbench.document.model import Results
from ftbench.document.store import WrongPath
from ftbench.merge import words
from ftbench.merge.merging import merge
from ftbench.merge.model import Group, Merged
from tests.checkout import CHECKOUT
from tests.hostile_text import HOSTILE_TEXTS
from tests.unit.bench.reports import Page, held
from tests.unit.bench.simulated import blank
from tests.unit.bench.simulated import document as simulated

GIB = 2**30


@pytest.fixture(scope="module")
def record() -> Results:
    return blank()


class Cluster:
    """A shared folder, in which each node has a directory with its run."""

    def __init__(self, record: Results, shared: Path):
        self.record, self.shared = record, shared
        shared.mkdir()

    def node(
        self,
        name: str,
        model: str = "Processor A",
        speed: float = 1.0,
        threads: float = 1.0,
        rounds: int = 5,
        edit: Callable[[Results], object] | None = None,
        memory: int = 24 * GIB,
    ) -> Path:
        """Write a node's run. Its candidates have *speed* x 100 samples/s, and its threads *threads* times that."""
        keys = [candidate.key for candidate in self.record.scenarios[0].candidates]
        of = {key: 100 * speed * (threads if "thread" in key else 1) for key in keys}
        results = simulated(self.record, zlib.crc32(name.encode()), rounds, of)
        for twin in results.environment.twins.values():
            twin.cpu.model, twin.memory.total, twin.gpu.devices = model, memory, []
            twin.cpu.count = twin.cpu.affinity = twin.cpu.usable = 2
        if edit:
            edit(results)
        directory = self.shared / name
        directory.mkdir()
        (directory / "results.json").write_text(json.dumps(as_json(results)))
        return directory

    def merged(self) -> Merged:
        return merge([self.shared])


@pytest.fixture
def cluster(record, tmp_path) -> Cluster:
    return Cluster(record, tmp_path / "shared")


def only(merged: Merged) -> Group:
    (group,) = merged.groups
    return group


def test_steps_on_which_kinds_differ_and_agree(cluster):
    for kind, threads in (("A", 1.0), ("B", 1.5), ("C", 1.5)):
        for number in range(4):
            cluster.node(f"{kind}-{number}", f"Processor {kind}", threads=threads)
    group = only(cluster.merged())
    assert [len(kind.machines) for kind in group.kinds] == [4, 4, 4] and group.machines == 12
    processes, threads, total = group.steps
    assert (processes.name, threads.name) == ("this loader, still processes", "threads instead of processes")
    assert (processes.agreement, threads.agreement, total.agreement) == ("agrees", "differs", "differs")
    assert processes.apart < 1.1 and threads.apart > 1.4
    assert [round(threads.kinds[f"Processor {kind}, 2 CPUs, 24 GiB"].ratio, 1) for kind in "ABC"] == [1.0, 1.5, 1.5]
    assert total.mean.n == 3 and total.mean.low < 1.5 ** (2 / 3) < total.mean.high
    assert total.mean.tau > 1.2 and total.mean.i2 > 0.9 and processes.mean.i2 < 0.9
    assert total.mean.expected[0] < total.mean.low and total.mean.expected[1] > total.mean.high
    first = words.answer(group)
    assert re.match(r"Pillow: threads without the GIL against torch's DataLoader with processes: between \d", first)
    assert first.endswith("on average over 3 kinds of machine (12 machines).")
    depends, expect, differs, agrees = words.heterogeneity(group)
    assert "It depends on the kind of machine: from " in depends and "Processor A" in depends
    assert expect.startswith("On one more kind of machine, expect roughly ")
    assert differs == "Steps that differ between kinds: threads instead of processes."
    assert agrees == "Steps on which they agree: this loader, still processes."


def test_kinds_that_do_not_differ_are_rarely_said_to(cluster):
    said = {"agrees": 0, "undecided": 0, "differs": 0}
    for repeat in range(12):
        other = Cluster(cluster.record, cluster.shared.parent / f"again-{repeat}")
        for number in range(3):
            other.node(f"{repeat}-{number}", f"Processor {number}")
        for step in only(other.merged()).steps:
            said[step.agreement] += 1
    assert said["differs"] <= 2 and said["agrees"] > 12, said


def test_two_kinds_are_told_without_a_mean(cluster):
    for number in range(3):
        cluster.node(f"a{number}", "Processor A")
        cluster.node(f"b{number}", "Processor B", threads=3.0)
    group = only(cluster.merged())
    said = words.answer(group)
    assert "on 3 machines with Processor A, 2 CPUs, 24 GiB, and " in said
    assert re.search(r"\d times faster \(\d.* on 3 machines with Processor B", said)
    assert {row[1] for row in words.steps(group).rows} == {words.FEW}
    assert group.total.agreement == "differs"


def test_a_slow_machine_is_named(cluster):
    for number in range(8):
        cluster.node(f"node{number}", speed=0.6 if number == 5 else 1.0)
    cluster.node("other", "Processor B", speed=0.3)
    group = only(cluster.merged())
    (one,) = group.outliers
    assert (one.run, one.what) == ("node5", "speed") and one.ratio == pytest.approx(0.6, rel=0.15) and one.others < 1.2
    assert re.fullmatch(
        r"node5 is \d\d% slower than its kind in pillow \(the other 7 are within \d+% of their mean\)\.",
        words.outlier(group, one),
    )
    assert list(words.ordinary(group)) == [
        "Processor B, 2 CPUs, 24 GiB: one machine of this kind: no outlier can be told."
    ]


def test_a_machine_that_gains_otherwise_is_named(cluster):
    for number in range(8):
        cluster.node(f"node{number}", threads=0.7 if number == 2 else 1.4)
    group = only(cluster.merged())
    (one,) = (each for each in group.outliers if each.what == "total")
    said = words.outlier(group, one)
    assert one.run == "node2" and said.startswith("node2 gains otherwise than its kind in pillow: threads without the ")
    assert re.search(r"are \d+% slower, and on average \d+% faster \(the other 7 are within \d+% of their mean\)", said)


@pytest.mark.parametrize(
    "number, said",
    [
        (1, "one machine of this kind: no outlier can be told."),
        (2, "2 machines of this kind: an outlier can be told from 4 on. Two say little of a kind"),
        (3, "3 machines of this kind: an outlier can be told from 4 on."),
        (5, "none of the 5 machines stands out."),
    ],
)
def test_what_is_said_of_few_machines(cluster, number, said):
    for each in range(number):
        cluster.node(f"node{each}")
    group = only(cluster.merged())
    (sentence,) = words.ordinary(group)
    assert said in sentence and group.outliers == [] and words.heterogeneity(group) == []
    assert f"on {'one machine' if number == 1 else f'{number} machines'} with Processor A, 2 CPUs" in words.answer(
        group
    )


def test_one_run_is_told_as_its_report_tells_it(cluster):
    results = json.loads((cluster.node("alone") / "results.json").read_text())
    (kind,) = only(cluster.merged()).kinds
    (fall,) = results["waterfalls"]
    for effect, step in ((kind.total, fall["total"]), *zip(kind.steps.values(), fall["steps"], strict=True)):
        assert (effect.ratio, effect.low, effect.high) == pytest.approx((step["ratio"], step["low"], step["high"]))
    assert kind.start_speed == pytest.approx(fall["start"]["value"])


def test_the_order_of_runs_does_not_matter(cluster):
    paths = [cluster.node(f"node{n}", f"Processor {n % 2}", edit=torch if n == 3 else None) for n in range(7)]
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


APART = {
    "torch": (torch, r"torch is 9\.9, not \S+"),
    "project": (
        lambda r: setattr(r.environment, "source", "f" * 64),
        "sources of loader and bench is ffffffffffff, not ",
    ),
    "compiler": (
        lambda r: [setattr(twin.interpreter, "compiler", "tcc") for twin in r.environment.twins.values()],
        "Python's compiler is tcc, not ",
    ),
    "batches": (lambda r: setattr(r.scenarios[0], "batch_size", 77), "batch size is 77, not 8"),
    "ranks": (other_ranks, "number of ranks is 2, not 1"),
    "workers": (lambda r: setattr(r.options, "workers", [1, 2]), "--workers is 1, 2, not 1"),
    "files": (lambda r: setattr(r.scenarios[0].dataset, "mean_bytes", 5), "mean size of a file is 5, not 70000"),
    "samples": (other_samples, "first samples is 0000004d and 00000001, not 00000001 and 00000001"),
}


@pytest.mark.parametrize("change, why", APART.values(), ids=APART)
def test_other_software_and_other_work_are_set_apart(cluster, capsys, change, why):
    for number in range(3):
        cluster.node(f"node{number}")
    cluster.node("strange", edit=change)
    merged = cluster.merged()
    main, apart = merged.groups
    assert (main.machines, apart.machines, main.differences) == (3, 1, [])
    (difference,) = apart.differences
    assert re.match(why, difference)
    assert cli.main(["merge", str(cluster.shared)]) == 1
    assert f"strange: not merged with the others: {difference}." in " ".join(capsys.readouterr().out.split())


def test_what_cannot_matter_sets_nothing_apart(cluster):
    cluster.node("a", edit=packages(pip="1.0"))
    cluster.node("b", edit=packages(pip="2.0"), memory=24 * GIB + 70_000_000)
    cluster.node("c", memory=23 * GIB)
    assert [len(kind.machines) for kind in only(cluster.merged()).kinds] == [3]


def test_a_users_dataset_may_use_any_package(cluster):
    def own(version: str) -> Callable[[Results], None]:
        def edit(results: Results) -> None:
            results.scenarios[0].name = results.waterfalls[0].scenario = "dataset"
            packages(pip=version)(results)

        return edit

    cluster.node("a", edit=own("1.0"))
    cluster.node("b", edit=own("2.0"))
    assert [group.differences for group in cluster.merged().groups] == [[], ["pip is 2.0, not 1.0"]]


def with_text(content: str) -> Callable[[Path], None]:
    return lambda directory: (directory / "results.json").write_text(content)


def a_pipe(directory: Path) -> None:
    os.mkfifo(directory / "results.json")


def a_circle(directory: Path) -> None:
    (directory / "results.json").symlink_to("other.json")
    (directory / "other.json").symlink_to("results.json")


BROKEN = {
    "nothing": (lambda directory: None, "it holds no results.json: its run ended before its first round"),
    "cut": (lambda d: with_text((d.parent / "good/results.json").read_text()[:3000])(d), "If it was cut short"),
    "deep": (with_text("[" * 100_000), "nested too deeply|not JSON"),
    "nan": (with_text('{"schema_version": NaN}'), "not a results.json"),
    "huge-number": (with_text('{"schema_version": ' + "9" * 5000 + "}"), "not a results.json: Exceeds"),
    "other-version": (with_text('{"schema_version": 5}'), "schema version 5; this bench reads 6"),
    "device": (lambda d: (d / "results.json").symlink_to("/dev/zero"), "is no file"),
    "pipe": (a_pipe, "is no file"),
    "circle": (a_circle, "holds no results.json|cannot read|loop"),
    "link": (lambda d: (d / "results.json").symlink_to(d.parent / "good/results.json"), "it is the file of good"),
    "copy": (
        lambda d: with_text((d.parent / "good/results.json").read_text().replace("Processor A", "B"))(d),
        "its measurements are those of good to the last digit, so one is a copy",
    ),
}


@pytest.mark.parametrize("breaks, why", BROKEN.values(), ids=BROKEN)
def test_broken_runs_are_named_and_left_out(cluster, capsys, breaks, why):
    cluster.node("good")
    (cluster.shared / "strange").mkdir()
    breaks(cluster.shared / "strange")
    merged = cluster.merged()
    assert only(merged).machines == 1
    (left_out,) = merged.left_out
    assert left_out.what == "strange" and re.search(why, left_out.why)
    assert cli.main(["merge", str(cluster.shared)]) == 1
    said = capsys.readouterr()
    assert "left out: strange: " in said.out and "Traceback" not in said.out + said.err


def test_a_partial_run_is_left_out(cluster):
    def cut_short(results: Results) -> None:
        results.status, results.reason = "incomplete", "interrupted (SIGTERM)"

    cluster.node("good")
    cluster.node("killed", edit=cut_short)
    cluster.node("short", rounds=2)
    merged = cluster.merged()
    assert only(merged).machines == 1
    assert [(each.what, each.why) for each in merged.left_out] == [
        ("killed", "it is incomplete: interrupted (SIGTERM)"),
        ("short", "pillow: 2 rounds, and 3 are needed"),
    ]


def test_rounds_that_agree_to_the_last_digit(cluster):
    def constant(results: Results) -> None:
        for one in results.scenarios[0].rounds:
            for trial in one.trials:
                trial.metrics.update(dict.fromkeys(trial.metrics, 1e149))

    for number in range(4):
        cluster.node(f"node{number}", f"Processor {number % 2}", edit=constant)
    (one, *copies) = cluster.merged().left_out
    assert len(copies) == 2 and "one is a copy" in one.why
    cluster.node("other", "Processor 1", rounds=4, edit=constant)
    merged = cluster.merged()
    assert only(merged).total.agreement == "agrees" and only(merged).total.mean.ratio == 1
    json.dumps(as_json(merged), allow_nan=False)


def test_nothing_to_merge(cluster, capsys):
    status, said = run(capsys, cluster.shared)
    assert status == 2 and "holds no results.json and no directories of runs" in said.err
    good = cluster.node("good")
    status, said = run(capsys, cluster.shared / "god")
    assert status == 2 and re.search(r"there is no \S+/god: did you mean '\S+/good'\?", said.err)
    (good / "results.json").write_text("{}")
    status, said = run(capsys, good, "--out", cluster.shared / "page")
    assert status == 2 and said.out.startswith("left out: good: ") and "Nothing could be merged." in said.out
    assert not (cluster.shared / "page").exists()
    with pytest.raises(SystemExit, match="^2$"):
        cli.main(["merge"])
    assert "RUN" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="^2$"):
        cli.main(["merge", "--otu", "x", "y"])
    assert "did you mean '--out'?" in capsys.readouterr().err
    assert cli.main(["mrege", "y"]) == 2
    assert "did you mean 'merge'?" in capsys.readouterr().err


def run(capsys, *arguments: object):
    """Return (exit status, what was printed) of `merge`."""
    status = cli.main(["merge", *map(str, arguments)])
    return status, capsys.readouterr()


def test_the_latest_run_of_a_machine_is_merged(cluster):
    node = cluster.node("node1")
    for name, speed in (("20260101", 1.0), ("20260102", 2.0)):
        cluster.node(name, speed=speed).rename(node / name)
    (node / "results.json").unlink()
    merged = cluster.merged()
    assert [run.path for run in merged.runs] == [str(node / "20260102/results.json")]
    (node / "latest").symlink_to("20260101")
    for named in (cluster.shared, node):
        merged = merge([named])
        assert [run.name for run in merged.runs] == ["node1"]
        assert only(merged).kinds[0].start_speed < 150
        assert merged.notes == [
            "node1: its latest run is merged, and not its 1 earlier run: name each if they are others'"
        ]
    named = merge([node / "20260101", node / "20260102", node / "20260101"])
    assert [run.name for run in named.runs] == ["20260101", "20260102"] and named.notes == []
    with pytest.raises(WrongPath, match="there is no"):
        merge([node / "20260103"])


def test_names_are_as_long_as_they_have_to_be(cluster):
    other = Cluster(cluster.record, cluster.shared.parent / "other")
    cluster.node("node1")
    cluster.node("node2")
    other.node("node1", rounds=6)
    assert [run.name for run in merge([cluster.shared, other.shared]).runs] == ["shared/node1", "node2", "other/node1"]


def test_the_files(cluster, capsys):
    for number in range(5):
        cluster.node(f"node{number}", f"Processor {number % 2}")
    out = cluster.shared / "page"
    status, said = run(capsys, cluster.shared, "--out", out)
    assert (status, said.err) == (0, "") and sorted(os.listdir(out)) == ["index.html", "merged.json", "summary.md"]
    assert said.out.startswith("Pillow: threads without the GIL against ") and said.out.endswith(
        f"merged: 5 machines of 2 kinds\npage: {out}/index.html\n"
    )
    document = json.loads((out / "merged.json").read_text())
    assert document == as_json(cluster.merged())
    page = Page((out / "index.html").read_text())
    (link,) = page.having("download", "merged.json")
    assert json.loads(held(link["href"])) == document
    assert [a["id"] for tag, a in page.elements if tag == "figure"][0] == "figure-steps-0"
    text, summary = "".join(page.shown), (out / "summary.md").read_text()
    answer = words.answer(only(cluster.merged()))
    assert text.index(answer) < text.index("Kinds of machine") and answer in summary
    # A merge is no run, and is not merged.
    assert run(capsys, cluster.shared)[0] == 0
    status, said = run(capsys, cluster.shared, "--out", cluster.shared / "node1")
    assert status == 2 and "is the directory of a run" in said.err
    assert sorted(os.listdir(cluster.shared / "node1")) == ["results.json"]
    status, said = run(capsys, cluster.shared, "--out", out / "index.html")
    assert status == 2 and "is not a directory" in said.err


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_names_are_text(cluster, capsys, text):
    name = "".join(text.replace("/", "%").split("\0"))[:60]

    def spoil(results: Results) -> None:
        for twin in results.environment.twins.values():
            twin.cpu.model = text.encode(errors="backslashreplace").decode()
            twin.packages["torch"] = twin.cpu.model

    cluster.node("node").rename(cluster.shared / name)
    cluster.node("model", edit=spoil)
    (cluster.shared / f"{name} too").mkdir()
    out = cluster.shared / "page"
    assert run(capsys, cluster.shared, "--out", out)[0] == 1
    status, said = run(capsys, cluster.shared)
    assert all(line.isprintable() for line in said.out.splitlines())
    page = Page((out / "index.html").read_text(encoding="utf-8"))
    assert not [tag for tag, _ in page.elements if tag in ("img", "script", "iframe", "object", "foreignobject")]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    for tag, attributes in page.elements:
        usual = attributes.get("href", "#").startswith(("#", "data:image/svg+xml;base64,", "data:application/json;"))
        assert usual or attributes == {"rel": "icon", "href": "data:,"}, (tag, attributes)
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in summary.splitlines())
    assert not re.search(r"(?<!\\)<(?!!-- -->)", summary)
    assert not re.search(r"[^<!\->]@octocat", summary)
    json.loads((out / "merged.json").read_text())


KEPT = CHECKOUT / "docs/results"


@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_the_kept_runs_are_of_other_versions(capsys):
    kept = [KEPT / "2026-11-24-quick-2-cpus", KEPT / "2026-11-27-quick-16-cpus"]
    merged = merge(kept)
    pillow, text, apart = merged.groups
    assert [group.workload for group in merged.groups] == ["pillow", "text", "pillow"]
    assert pillow.kinds[0].kind == "AMD EPYC, 2 CPUs, 24 GiB" and apart.kinds[0].workers == 16
    assert "torch is 2.11.0, not 2.10.0" in apart.differences
    assert run(capsys, *kept)[0] == 1


@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_a_cluster_grown_from_a_real_run(tmp_path):
    """Ten machines of two kinds, made from one real run: its values are scaled, and its processor is renamed."""
    real = json.loads((KEPT / "2026-11-24-quick-2-cpus/results.json").read_text())
    rng = random.Random(5)
    for number in range(10):
        node = copy.deepcopy(real)
        intel = number >= 6
        for twin in node["environment"]["twins"].values():
            twin["cpu"]["model"] = "Intel" if intel else "AMD"
        for trial in (t for s in node["scenarios"] for r in s["rounds"] for t in r["trials"]):
            gain = 1.4 if intel and trial["candidate"].startswith("ft/") else 1.0
            trial["metrics"]["throughput"] *= gain * rng.lognormvariate(0, 0.01) * (0.78 if number == 4 else 1.0)
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}/results.json").write_text(json.dumps(node))
    merged = merge([tmp_path])
    assert merged.left_out == [] and [group.workload for group in merged.groups] == ["pillow", "text"]
    for group in merged.groups:
        assert [(one.run, one.what, round(one.ratio, 1)) for one in group.outliers] == [("node4", "speed", 0.8)]
        agreement = {step.name: step.agreement for step in group.steps}
        assert agreement["the GIL removed"] == agreement["in all"] == "differs"
        assert "differs" not in [agreement[name] for name in [*agreement][:3]]
