"""What is merged and what is not: broken, partial and hostile runs; names, folders, and the files
that are written.
"""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ftbench import cli
from ftbench.arguments import merge_parser
from ftbench.document.convert import as_json
from ftbench.document.model import Results
from ftbench.document.store import WrongPath
from ftbench.merge import collect
from ftbench.merge.merging import merge
from ftbench.merge.model import Merged
from ftbench.merge.view import view
from tests.hostile_text import HOSTILE_TEXTS
from tests.unit.bench.clusters import Cluster, only, run
from tests.unit.bench.reports import Page, held


def names_of(merged: Merged) -> list[str]:
    return [machine.run for group in merged.groups for machine in group.machines]


def with_text(content: str) -> Callable[[Path], None]:
    return lambda directory: (directory / "results.json").write_text(content)


def much(directory: Path) -> None:
    with open(directory / "results.json", "wb") as file:
        file.truncate(300 * 2**20)  # a sparse file


def without_comparisons(directory: Path) -> None:
    document = json.loads((directory.parent / "good/results.json").read_text())
    for scenario in document["scenarios"]:
        scenario["rounds"].pop()  # so it is no copy
        scenario["pairs"] = [pair for pair in scenario["pairs"] if pair["kind"] != "step"]
    (directory / "results.json").write_text(json.dumps(document))


def a_circle(directory: Path) -> None:
    (directory / "results.json").symlink_to("other.json")
    (directory / "other.json").symlink_to("results.json")


BROKEN = {
    "nothing": (
        lambda directory: None,
        "it holds no results.json: its run ended before its first round",
    ),
    "cut": (
        lambda d: with_text((d.parent / "good/results.json").read_text()[:3000])(d),
        "If it was cut short",
    ),
    "device": (lambda d: (d / "results.json").symlink_to("/dev/zero"), "is no file"),
    "much": (much, "more than 256 MiB"),
    "no-comparisons": (
        without_comparisons,
        "pillow: without a waterfall; `compare` puts two such runs side by side",
    ),
    "circle": (a_circle, "holds no results.json|cannot read|loop"),
    "link": (
        lambda d: (d / "results.json").symlink_to(d.parent / "good/results.json"),
        "it is the file of good",
    ),
    "copy": (
        lambda d: with_text(
            (d.parent / "good/results.json")
            .read_text()
            .replace("Processor A", "B")
            .replace("/images", "/x")
        )(d),
        "its measurements are those of good to the last digit, so one is a copy",
    ),
}


@pytest.mark.parametrize("breaks, why", BROKEN.values(), ids=BROKEN)
def test_broken_runs_are_named_and_left_out(cluster, capsys, breaks, why):
    cluster.node("good")
    (cluster.shared / "strange").mkdir()
    breaks(cluster.shared / "strange")
    merged = cluster.merged()
    assert len(only(merged).machines) == 1
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
    assert len(only(merged).machines) == 1
    assert [(each.what, each.why) for each in merged.left_out] == [
        ("killed", "it is incomplete: interrupted (SIGTERM)"),
        ("short", "pillow: 2 rounds, and 3 are needed"),
    ]


def test_rounds_that_agree_to_the_last_digit(cluster):
    def constant(results: Results) -> None:
        for one in results.scenarios[0].rounds:
            one.disturbance.before.load = None  # this machine's, which may change between two nodes
            for trial in one.trials:
                trial.metrics.update(dict.fromkeys(trial.metrics, 1e149))
                trial.turn_seconds = [trial.samples / 1e149]

    for number in range(4):
        cluster.node(f"node{number}", f"Processor {number % 2}", edit=constant)
    (one, *copies) = cluster.merged().left_out
    assert len(copies) == 2 and "one is a copy" in one.why
    for rounds in (4, 6, 7):
        cluster.node(f"other{rounds}", f"Processor {rounds // 6}", rounds=rounds, edit=constant)
    merged = cluster.merged()
    assert [len(kind.machines) for kind in only(merged).kinds] == [2, 2]
    assert (
        only(merged).steps[-1].agreement == "undecided" and only(merged).steps[-1].mean.ratio == 1
    )
    json.dumps(as_json(merged), allow_nan=False)


def test_values_at_the_ends_of_what_is_allowed(cluster, capsys):
    rng = random.Random(2)

    def far(results: Results) -> None:
        for trial in (trial for one in results.scenarios[0].rounds for trial in one.trials):
            trial.metrics.update({name: 10 ** rng.uniform(-149, 149) for name in trial.metrics})
            trial.turn_seconds = [trial.samples / trial.metrics["throughput"]]

    for number in range(6):
        cluster.node(f"node{number}", f"Processor {number % 2}", edit=far)
    status, said = run(capsys, cluster.shared, "--out", cluster.shared / "page")
    assert status in (0, 1) and said.err == "" and not re.search(r"\b(inf|nan)\b", said.out)
    assert not re.search(r"\b(inf|nan)\b", (cluster.shared / "page/summary.md").read_text())


@pytest.mark.slow
def test_many_kinds(cluster, capsys):
    for number in range(14):
        cluster.node(f"node{number:02}", f"Processor {number:02}")
    status, said = run(capsys, cluster.shared, "--out", cluster.shared / "page")
    assert status == 0 and "on average over 14 kinds of machine (14 machines)." in " ".join(
        said.out.split()
    )
    page = Page((cluster.shared / "page/index.html").read_text())
    assert len([tag for tag, _ in page.elements if tag == "figure"]) == 12
    assert "The waterfalls of 2 more kinds are not drawn" in "".join(page.shown)


def test_nothing_to_merge(cluster, capsys):
    status, said = run(capsys, cluster.shared)
    assert status == 2 and "holds no results.json and no directories of runs" in said.err
    good = cluster.node("good")
    status, said = run(capsys, cluster.shared / "god")
    assert status == 2 and re.search(r"there is no \S+/god: did you mean '\S+/good'\?", said.err)
    (good / "results.json").write_text("{}")
    status, said = run(capsys, good, "--out", cluster.shared / "page")
    assert (
        status == 2
        and said.out.startswith("left out: good: ")
        and "Nothing could be merged." in said.out
    )
    assert not (cluster.shared / "page").exists()
    with pytest.raises(SystemExit, match="^2$"):
        cli.main(["merge"])
    assert "RUN" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="^2$"):
        cli.main(["merge", "--otu", "x", "y"])
    assert "did you mean '--out'?" in capsys.readouterr().err
    assert cli.main(["mrege", "y"]) == 2
    assert "did you mean 'merge'?" in capsys.readouterr().err


def test_the_latest_run_of_a_machine_is_merged(cluster):
    node = cluster.node("node1")
    for name, speed in (("20260101", 1.0), ("20260102", 2.0)):
        cluster.node(name, speed=speed).rename(node / name)
    (node / "results.json").unlink()
    merged = cluster.merged()
    assert [machine.path for machine in only(merged).machines] == [
        str(node / "20260102/results.json")
    ]
    (node / "latest").symlink_to("20260101")
    for named in (cluster.shared, node):
        merged = merge([named])
        assert names_of(merged) == ["node1"]
        assert only(merged).kinds[0].waterfall.throughput.start.value < 150
        earlier = (
            "node1: its latest run is merged, and not its 1 earlier run: name each if they "
            "are others'"
        )
        assert earlier in merged.notes
    named = merge([node / "20260101", node / "20260102", node / "20260101"])
    assert names_of(named) == ["20260101", "20260102"]
    assert not [note for note in named.notes if "earlier run" in note]
    with pytest.raises(WrongPath, match="there is no"):
        merge([node / "20260103"])


def test_runs_two_folders_deep_are_merged_and_the_rest_is_named(cluster):
    for number, folder in enumerate(
        ("node1/results", "node2/results", "campaign/node3", "campaign/node4")
    ):
        machine = cluster.shared / folder
        machine.mkdir(parents=True)
        cluster.node(f"made{number}").rename(machine / "20261128-120000")
    (cluster.shared / "node2/results/latest").symlink_to("20261128-120000")
    (cluster.shared / "slurm-12.out").write_text("done")
    (cluster.shared / ".cache").mkdir()
    (cluster.shared / "campaign/page").mkdir()
    (cluster.shared / "campaign/page/merged.json").write_text("{}")
    (cluster.shared / "empty/deep/deeper").mkdir(parents=True)
    merged = cluster.merged()
    assert names_of(merged) == [
        "campaign/node3",
        "campaign/node4",
        "node1/results",
        "node2/results",
    ]
    assert [(each.what, "no results.json" in each.why) for each in merged.left_out] == [
        ("empty/deep", True)
    ]
    assert merged.notes[:3] == [
        f"passed over: {cluster.shared}/.cache: the name is that of a hidden file or folder",
        f"passed over: {cluster.shared}/campaign/page: a merge, which is no run",
        f"passed over: {cluster.shared}/slurm-12.out: no folder of a run",
    ]


def test_many_runs_show_that_they_are_read(cluster, capsys):
    cluster.node("node")
    for number in range(collect.MANY - 2):
        (cluster.shared / f"empty{number}").mkdir()
    assert run(capsys, cluster.shared)[1].err == ""
    (cluster.shared / "one-more").mkdir()
    status, said = run(capsys, cluster.shared)
    assert (status, said.err) == (1, f"reading {collect.MANY} runs\n")


def test_names_are_as_long_as_they_have_to_be(cluster):
    other = Cluster(cluster.record, cluster.shared.parent / "other")
    cluster.node("node1")
    cluster.node("node2")
    other.node("node1", rounds=6)
    assert names_of(merge([cluster.shared, other.shared])) == [
        "other/node1",
        "shared/node1",
        "shared/node2",
    ]


@pytest.mark.slow
def test_the_files(cluster, capsys):
    for number in range(5):
        cluster.node(f"node{number}", f"Processor {number % 2}")
    out = cluster.shared / "page"
    status, said = run(capsys, cluster.shared, "--out", out)
    assert (status, said.err) == (0, "") and sorted(os.listdir(out)) == [
        "index.html",
        "merged.json",
        "summary.md",
    ]
    assert said.out.startswith("Pillow: threads without the GIL against ") and said.out.endswith(
        f"merged: 5 machines of 2 kinds\npage: {out}/index.html\n"
    )
    document = json.loads((out / "merged.json").read_text())
    (page_is_no_run,) = cluster.merged().notes
    assert (
        document == {**as_json(cluster.merged()), "notes": []}
        and "/page: a merge, which is no run" in page_is_no_run
    )
    page = Page((out / "index.html").read_text())
    (link,) = page.having("download", "merged.json")
    assert json.loads(held(link["href"])) == document
    assert [a["id"] for tag, a in page.elements if tag == "figure"][0].startswith(
        "figure-waterfall-0-0-processor-"
    )
    text, summary = "".join(page.shown), (out / "summary.md").read_text()
    (answer,) = (group.answer for group in view(cluster.merged()).groups)
    assert text.index(answer) < text.index("Kinds of machine") and answer in summary
    # A merge is no run, and is not merged.
    assert run(capsys, cluster.shared)[0] == 0
    status, said = run(capsys, cluster.shared, "--out", cluster.shared / "node1")
    assert status == 2 and "is the directory of a run" in said.err
    assert sorted(os.listdir(cluster.shared / "node1")) == ["results.json"]
    status, said = run(capsys, cluster.shared, "--out", out / "index.html")
    assert status == 2 and "is not a directory" in said.err
    (cluster.shared / "other/index.html").mkdir(parents=True)
    status, said = run(capsys, cluster.shared / "node1", "--out", cluster.shared / "other")
    assert (
        status == 1
        and "cannot write to" in said.err
        and "Name another directory with --out DIR" in said.err
    )


def test_in_a_container_paths_are_the_hosts(monkeypatch):
    monkeypatch.setenv("FT_RESULTS", "results")
    given = merge_parser().parse_args(["results/node1", "results/node2", "--out", "results/page"])
    assert [*given.runs, given.out] == [
        Path("/results/node1"),
        Path("/results/node2"),
        Path("/results/page"),
    ]


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
    assert not [
        tag
        for tag, _ in page.elements
        if tag in ("img", "script", "iframe", "object", "foreignobject")
    ]
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    for tag, attributes in page.elements:
        usual = attributes.get("href", "#").startswith(("#", "data:application/json;"))
        assert usual or attributes == {"rel": "icon", "href": "data:,"}, (tag, attributes)
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in summary.splitlines())
    assert not re.search(r"(?<!\\)<(?!!-- -->)", summary)
    assert not re.search(r"[^<!\->]@octocat", summary)
    json.loads((out / "merged.json").read_text())
