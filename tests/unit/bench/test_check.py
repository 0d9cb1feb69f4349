"""A results.json that was cut short, breaks the schema or refers to nothing is refused, and the
message says where.
"""

import copy
import json
import os
import random
import re
import runpy

import fastjsonschema
import pytest

from ftbench.document import check
from ftbench.document.check import Inconsistent, check_form, check_keys
from ftbench.document.convert import as_json, schema
from ftbench.document.model import Distribution, Over, Results
from ftbench.document.store import ResultsError, RunDirectory, find, load
from ftbench.plan.candidates import Candidate
from ftbench.stats.analysis import analyse
from tests.checkout import CHECKOUT
from tests.unit.bench import documents


@pytest.mark.slow
def test_what_is_written_is_read(document, tmp_path):
    grown = documents.with_stress(documents.with_inside(documents.many(document)), failing=True)
    directory = RunDirectory(tmp_path)
    directory.save(grown)
    assert load(directory.directory) == grown


def test_keys_of_other_versions_are_ignored(document, tmp_path):
    other = as_json(document)
    for holder in (other, other["options"], other["scenarios"][0]["rounds"][0]["trials"][0]):
        holder["of another version"] = {"any": None}
    (tmp_path / "results.json").write_text(json.dumps(other))
    assert load(tmp_path) == document


KEPT = CHECKOUT / "docs/results/2026-11-28-quick-2-cpus"


@pytest.mark.parametrize(
    "path", sorted(KEPT.parent.glob("*/results.json")), ids=lambda path: path.parent.name
)
def test_every_kept_run_is_read(path):
    assert len(analyse(load(path)).waterfalls) >= 1


@pytest.mark.skipif(not KEPT.exists(), reason="docs/results is not in the images")
def test_the_kept_run_gives_its_waterfalls_again():
    run = analyse(load(KEPT))
    assert run.waterfalls and run.results.waterfalls == run.waterfalls


def first(results: Results):
    return results.scenarios[0]


def trial(results: Results):
    return first(results).rounds[0].trials[0]


EDITS = [
    ("scenario twice", lambda r: r.scenarios.append(first(r)), "scenario pillow is listed twice"),
    (
        "stranger compared",
        lambda r: first(r).pairs.append(
            documents.replace(first(r).pairs[0], numerator="ft/loop/99")
        ),
        "ft/loop/99 is compared, and was not measured in every round",
    ),
    (
        "trial of a stranger",
        lambda r: setattr(trial(r), "candidate", "gil/loop/7"),
        "gil/loop/7 was measured, and did not take",
    ),
    ("other ranks", lambda r: setattr(first(r), "ranks", 2), "its ranks are not those of the run"),
    ("round lost", lambda r: first(r).rounds.pop(0), "round 1 is missing"),
    (
        "trial twice",
        lambda r: first(r).rounds[0].trials.append(trial(r)),
        "round 1: .* is listed twice",
    ),
    ("trial lost", lambda r: first(r).rounds[1].trials.pop(), "was not measured in every round"),
    (
        "candidate twice",
        lambda r: first(r).candidates.append(first(r).candidates[0]),
        "listed twice",
    ),
    (
        "metric unknown",
        lambda r: first(r).metrics.append("happiness"),
        "metric 'happiness' is unknown",
    ),
    ("metric lost", lambda r: trial(r).metrics.pop("throughput"), "throughput of .* is missing"),
    (
        "beyond floats",
        lambda r: trial(r).metrics.update(throughput=1e308),
        "throughput of .* is no measurement",
    ),
    (
        "variant unknown",
        lambda r: first(r).candidates.append(Candidate("ft", "magic", 1)),
        "variant 'magic' is unknown",
    ),
    (
        "case unknown",
        lambda r: first(r).candidates.append(Candidate("ft", "loop", 1, "x")),
        "no case 'x'",
    ),
    (
        "waterfall of nothing",
        lambda r: setattr(r.waterfalls[0], "scenario", "none"),
        "a waterfall is of none",
    ),
    (
        "curve",
        lambda r: trial(r).distributions.update(
            loss=Distribution("nats", [2.0], Over("step", [1.0, 2.0]))
        ),
        "loss of .* is no curve",
    ),
]


@pytest.mark.parametrize(
    "change, message", [pytest.param(*e[1:], id=e[0].replace(" ", "-")) for e in EDITS]
)
def test_a_key_that_refers_to_nothing_is_named(document, tmp_path, change, message):
    edited = copy.deepcopy(document)
    change(edited)
    with pytest.raises(Inconsistent, match=message):
        check_keys(edited)
    (tmp_path / "results.json").write_text(json.dumps(as_json(edited)))
    with pytest.raises(
        ResultsError, match="can be trusted: .*Restore the file, use the bench that wrote it"
    ):
        load(tmp_path)


def test_what_breaks_the_schema_is_not_written(document, tmp_path):
    edited = copy.deepcopy(document)
    trial(edited).metrics["throughput"] = 0
    with pytest.raises(Inconsistent, match="breaks the schema: .*throughput"):
        check_form(as_json(edited))
    with pytest.raises(ResultsError, match="is not written"):
        RunDirectory(tmp_path / "out").save(edited)


def test_every_cut_is_told(document, tmp_path):
    text = json.dumps(as_json(document), indent=1) + "\n"
    path = tmp_path / "results.json"
    rng = random.Random(0)
    lengths = [0, 1, 2, 100, len(text) - 3, text.index(": null") + 4]
    for length in [*lengths, *(rng.randrange(3, len(text) - 3) for _ in range(300))]:
        path.write_text(text[:length])
        with pytest.raises(
            ResultsError, match="is not JSON: .* If it was cut short, copy it again"
        ):
            load(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "not JSON"),
        (b"[]", "schema version None"),
        (b'{"schema_version": 99}', "schema version 99"),
        (b'{"schema_version": 8}', "breaks the schema"),
        (
            b'{"schema_version": 7}',
            "this bench reads 8: use the bench that wrote it, or repeat the run",
        ),
        (b"\xff\xfe\x00", "cannot read"),
        (b"{} trailing", "not JSON"),
        (b"null", "schema version None"),
        (
            b'{"schema_version": 2, "environment": {"revision": {"commit": "0123456789abcdef"}}}',
            "use the bench that wrote it .commit 0123456789ab.",
        ),
        (b'{"schema_version": NaN}', "is not a results.json"),
        (b'{"schema_version": "8"}', "schema version 8; .*a results.json of"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"schema_version": ' + b"5" * 5000 + b"}", "not a results.json: Exceeds the limit"),
    ],
)
def test_what_is_no_results_file(tmp_path, content, message):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(ResultsError, match=message):
        load(tmp_path / "results.json")


@pytest.mark.parametrize(
    "number, message",
    [("9" * 400, "int too large"), ("1e999", "Out of range float"), ("NaN", "Out of range float")],
)
@pytest.mark.parametrize("key", ["seconds", "throughput"])
def test_numbers_that_no_float_holds(document, tmp_path, key, number, message):
    text, count = re.subn(
        rf'("{key}": )[0-9.]+', rf"\g<1>{number}", json.dumps(as_json(document)), count=1
    )
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(
        ResultsError, match=message if number[0] != "9" or key == "throughput" else "trusted"
    ):
        load(tmp_path / "results.json")
    assert count


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "results.json")
    with pytest.raises(ResultsError, match="is no file"):
        load(tmp_path)


def test_directories_are_looked_into(document, tmp_path):
    (tmp_path / "20261121-120000").mkdir()
    (tmp_path / "20261121-120000/results.json").write_text(json.dumps(as_json(document)))
    (tmp_path / "latest").symlink_to("20261121-120000")
    assert (
        load(tmp_path / "20261121-120000")
        == load(tmp_path / "latest")
        == load(tmp_path)
        == document
    )
    with pytest.raises(ResultsError, match="holds no results.json"):
        find(tmp_path / "..")
    with pytest.raises(ResultsError, match="cannot read .*: No such file"):
        load(tmp_path / "missing.json")


def test_every_field_is_described():
    undescribed = []

    def walk(node: object, path: tuple[str, ...]) -> None:
        if not isinstance(node, dict):
            return
        for name, value in node.get("properties", {}).items():
            if not value.get("description"):
                undescribed.append("/".join((*path, name)))
            walk(value, (*path, name))
        for key in ("items", "additionalProperties"):
            walk(node.get(key), path)

    found = schema(Results)
    walk(found, ())
    assert undescribed == []
    fastjsonschema.compile(found)


def test_the_schema_is_printed(capsys):
    runpy.run_path(check.__file__, run_name="__main__")
    printed = json.loads(capsys.readouterr().out)
    assert "draft-07" in printed.pop("$schema") and printed == schema(Results)
