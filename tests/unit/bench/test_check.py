"""A results.json that was cut short, edited or made by another version is refused, and the message says where."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import runpy
import statistics

import fastjsonschema
import pytest

from ftbench.document import schema
from ftbench.document.check import Inconsistent, check, seal
from ftbench.document.store import Results, ResultsError, find, load
from tests.unit.bench.simulated import blank
from tests.unit.bench.simulated import document as simulated


@pytest.fixture(scope="module")
def document() -> dict:
    """Two simulated rounds."""
    return simulated(blank(), 0, rounds=2)


def test_what_was_written_passes(document):
    check(document)
    assert document["seal"] == seal(document)
    check(simulated(document, 1))
    check(json.loads(json.dumps(document)))


def test_what_another_bench_of_this_schema_wrote_passes():
    """One whose libm gives other last digits, and one with other words for a verdict."""
    real = blank()
    real["scenarios"][0]["metrics"].append("step_over_sum")
    document = simulated(real, 0, speed={"ft/loader-thread/1": 200.0})
    fall = document["waterfalls"][0]
    fall["end"] = math.nextafter(fall["end"], math.inf)
    verdicts = [c for c in document["scenarios"][0]["analysis"]["comparisons"] if c["verdict"] == "larger"]
    for c in verdicts:
        c["verdict"] = "a larger part"
    document["seal"] = seal(document)
    assert verdicts
    check(document)


def edits():
    """(name, what is done to the document, what the message says)."""

    def first(document: dict) -> dict:
        return document["scenarios"][0]

    def comparison(document: dict) -> dict:
        return first(document)["analysis"]["comparisons"][0]

    def explored(document: dict) -> dict:
        return next(c for c in first(document)["analysis"]["comparisons"] if c["metric"] == "pss_mib")

    def summary(document: dict) -> dict:
        return first(document)["analysis"]["candidates"][0]["metrics"]["throughput"]

    def emptied(document: dict) -> None:
        first(document)["analysis"].update(candidates=[], comparisons=[])
        document["waterfalls"].clear()
        document["seal"] = seal(document)

    def trial(document: dict) -> dict:
        return first(document)["rounds"][0]["trials"][0]

    def beyond_floats(document: dict) -> None:
        """Ratios that no float holds, of values that one does."""
        trials = [trial for one in first(document)["rounds"] for trial in one["trials"]]
        for side, value in (("numerator", 1e308), ("denominator", 1e-308)):
            own = [trial["metrics"] for trial in trials if trial["candidate"] == comparison(document)[side]]
            own[0]["throughput"] = value
            (spread,) = (
                c["metrics"]["throughput"]
                for c in first(document)["analysis"]["candidates"]
                if c["key"] == comparison(document)[side]
            )
            values = [metrics["throughput"] for metrics in own]
            spread.update(median=statistics.median(values), min=min(values), max=max(values))

    return [
        ("beyond floats", beyond_floats, "throughput: no float holds these ratios"),
        (
            "median",
            lambda d: summary(d).update(median=summary(d)["median"] * 1.01),
            "the median of throughput of .* its rounds give",
        ),
        ("maximum", lambda d: summary(d).update(max=1e9), "the max of throughput"),
        ("raw value", lambda d: trial(d)["metrics"].update(throughput=123.0), "throughput"),
        (
            "ratio",
            lambda d: comparison(d).update(mean=comparison(d)["mean"] * 1.1, high=1e6),
            "the mean of the ratio of throughput of .* is said to be",
        ),
        (
            "interval",
            lambda d: comparison(d).update(low=comparison(d)["mean"] * 1.1),
            "the low of the ratio of throughput",
        ),
        (
            "verdict",
            lambda d: comparison(d).update(verdict="ten times faster"),
            "the verdict of throughput of .* not ten times faster",
        ),
        (
            "p-value",
            lambda d: explored(d).update(p=0.012),
            "the p of the ratio of pss_mib of .* 0.012, its rounds give",
        ),
        ("adjusted p-value", lambda d: explored(d).update(q=0.012), "the q of the ratio of pss_mib of .* 0.012"),
        (
            "target",
            lambda d: comparison(d).update(target={"at": "least", "value": 9.0, "verdict": "met"}),
            "the verdict of the target of .* is said to be met, its rounds give missed",
        ),
        (
            "percentiles",
            lambda d: trial(d)["distributions"].update(step={"unit": "ms", "values": [1.0]}),
            "the distributions of .* are not those of its rounds",
        ),
        (
            "curve",
            lambda d: trial(d)["distributions"].update(
                loss={"unit": "nats", "values": [2.0], "over": {"title": "step", "values": [1.0, 2.0]}}
            ),
            "loss of .* is no curve",
        ),
        ("scenario twice", lambda d: d["scenarios"].append(first(d)), "a scenario is there twice"),
        ("stranger", lambda d: comparison(d).update(numerator="ft/loader-thread/99"), "compares ft/loader-thread/99"),
        (
            "trial of a stranger",
            lambda d: trial(d).update(candidate="gil/loop/7"),
            "a trial of gil/loop/7, which is no candidate",
        ),
        ("round lost", lambda d: first(d)["rounds"].pop(0), "round 1 is missing"),
        ("last round lost", lambda d: first(d)["rounds"].pop(), "is said to have 5 rounds of 4"),
        ("trial twice", lambda d: first(d)["rounds"][0]["trials"].append(copy.deepcopy(trial(d))), "a candidate twice"),
        ("trial lost", lambda d: first(d)["rounds"][1]["trials"].pop(), "not there for every round"),
        ("nothing summed up", emptied, "the analysis lacks ft/torch-process/1, which took part in every round"),
        (
            "nobody took part",
            lambda d: (
                emptied(d),
                first(d).update(candidates=[]),
                [one.update(trials=[]) for one in first(d)["rounds"]],
            ),
            "breaks the schema: .*candidates",
        ),
        ("candidate twice", lambda d: first(d)["candidates"].append(first(d)["candidates"][0]), "listed twice"),
        ("metric unknown", lambda d: first(d)["metrics"].append("happiness"), "metric 'happiness' is unknown"),
        ("variant unknown", lambda d: first(d)["candidates"][0].update(variant="magic"), "variant 'magic' is unknown"),
        ("case unknown", lambda d: first(d)["candidates"][0].update(case="none"), "no case 'none'"),
        ("environment", lambda d: d["environment"]["revision"].update(commit="0" * 40), "written: environment$"),
        ("warning deleted", lambda d: d["warnings"].append("none"), "written: warnings$"),
        ("status", lambda d: d.update(status="incomplete"), "written: status$"),
        ("field of the wrong type", lambda d: d.update(seconds="long"), "breaks the schema: .*seconds"),
        ("field too much", lambda d: first(d).update(comment="mine"), "breaks the schema"),
        ("field lost", lambda d: d.pop("options"), "breaks the schema"),
        ("seal lost", lambda d: d.pop("seal"), "breaks the schema: .*seal"),
        ("not a number", lambda d: trial(d)["metrics"].update(throughput=0), "breaks the schema"),
    ]


@pytest.mark.parametrize("change, message", [pytest.param(*e[1:], id=e[0].replace(" ", "-")) for e in edits()])
def test_an_edit_is_noticed_and_named(document, tmp_path, change, message):
    edited = simulated(document, 2)
    change(edited)
    with pytest.raises(Inconsistent, match=message):
        check(edited)
    (tmp_path / "results.json").write_text(json.dumps(edited))
    with pytest.raises(ResultsError, match="can be trusted: .*Restore the file, use the bench that wrote it"):
        load(tmp_path)
    # And nothing of the kind is ever written.
    edited.pop("seal", None)
    if "breaks the schema" in message and "seal" not in message and "options" in edited:
        with pytest.raises(ResultsError, match="is not written"):
            Results(tmp_path / "out").save(edited)


def test_every_cut_is_told(document, tmp_path):
    text = json.dumps(document, indent=1) + "\n"
    path = tmp_path / "results.json"
    rng = random.Random(0)
    for length in [
        0,
        1,
        2,
        100,
        len(text) - 3,
        *(rng.randrange(3, len(text) - 3) for _ in range(300)),
        text.index(": null") + 4,
    ]:
        path.write_text(text[:length])
        with pytest.raises(ResultsError, match=f"not JSON: it is cut short, after {length} characters"):
            load(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "not JSON"),
        (b"[]", "schema version None"),
        (b'{"schema_version": 99}', "schema version 99"),
        (b'{"schema_version": 6}', "breaks the schema"),
        (b'{"schema_version": 2}', "this bench reads 6"),
        (b"\xff\xfe\x00", "cannot read"),
        (b"{} trailing", "not JSON"),
        (b"null", "schema version None"),
        (
            b'{"schema_version": 2, "environment": {"revision": {"commit": "0123456789abcdef"}}}',
            "use the bench that wrote it .commit 0123456789ab.",
        ),
        (b'{"schema_version": "6"}', "schema version 6; .*a results.json of"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"schema_version": ' + b"5" * 5000 + b"}", "not a results.json: Exceeds the limit"),
    ],
)
def test_what_is_no_results_file(tmp_path, content, message):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(ResultsError, match=message):
        load(tmp_path / "results.json")


@pytest.mark.parametrize(
    "number, message", [("9" * 400, "int too large"), ("1e999", "Out of range float"), ("NaN", "Out of range float")]
)
@pytest.mark.parametrize("key", ["seconds", "throughput"])
def test_numbers_that_no_float_holds(document, tmp_path, key, number, message):
    text, count = re.subn(rf'("{key}": )[0-9.]+', rf"\g<1>{number}", json.dumps(document), count=1)
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ResultsError, match=message if number[0] != "9" or key == "throughput" else "trusted"):
        load(tmp_path / "results.json")
    assert count


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "results.json")
    with pytest.raises(ResultsError, match="is no file"):
        load(tmp_path)


def test_directories_are_looked_into(document, tmp_path):
    (tmp_path / "20261121-120000").mkdir()
    (tmp_path / "20261121-120000/results.json").write_text(json.dumps(document))
    (tmp_path / "latest").symlink_to("20261121-120000")
    assert load(tmp_path / "20261121-120000") == load(tmp_path / "latest") == load(tmp_path) == document
    with pytest.raises(ResultsError, match="holds no results.json"):
        find(tmp_path / "..")
    with pytest.raises(ResultsError, match="cannot read .*: No such file"):
        load(tmp_path / "missing.json")


def test_every_field_is_described():
    undescribed = []

    def walk(node: object, path: tuple[str, ...]) -> None:
        if isinstance(node, list):
            for each in node:
                walk(each, path)
        if not isinstance(node, dict):
            return
        for name, value in node.get("properties", {}).items():
            if "$ref" not in value and not value.get("description"):
                undescribed.append("/".join((*path, name)))
            walk(value, (*path, name))
        for key in ("items", "additionalProperties", "oneOf"):
            walk(node.get(key), path)
        for name, value in node.get("definitions", {}).items():
            walk(value, (*path, name))

    found = schema.schema()
    walk(found, ())
    assert undescribed == []
    fastjsonschema.compile(found)


def test_the_schema_is_printed(capsys):
    runpy.run_path(schema.__file__, run_name="__main__")
    assert json.loads(capsys.readouterr().out) == schema.schema()
