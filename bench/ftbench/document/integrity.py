"""Whether a results.json is what a run wrote: complete, of this form, consistent in itself, and unchanged.

Three lines of defence, so that a message can say what is wrong and where: the schema (document.schema) knows the form
of every field; `inconsistencies` recomputes from the rounds what was summed up from them; the seal, SHA-256 sums of
the parts of the document, notices any other change. The seal protects from accidents and from forgetting, not from
somebody who wants to deceive: whoever can edit the figures can seal them again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from statistics import StatisticsError

from ftbench.document.schema import schema
from ftbench.plan.metrics import METRICS
from ftbench.plan.variants import VARIANTS
from ftbench.stats.statistics import median, ratio
from ftbench.stats.waterfall import in_each_process, waterfalls

# Beside rounding in printing, which JSON has none of, only another machine's libm differs.
RELATIVE = 1e-9
# What is computed again of a ratio.
RATIO = ("mean", "low", "high", "resolution")


class Inconsistent(Exception):
    """The document is no results.json as a run writes it; the message says where."""


@functools.cache
def validator() -> Callable[[dict], dict]:
    """The compiled schema: a function that raises fastjsonschema.JsonSchemaException on what does not fit."""
    import fastjsonschema

    return fastjsonschema.compile(schema())


def _parts(document: dict) -> Iterator[tuple[str, object]]:
    """The parts that are sealed one by one, with their names for people."""
    for name, value in document.items():
        if name == "scenarios":
            for position, scenario in enumerate(value):
                yield f"scenario {scenario.get('name', position)}", scenario
        elif name != "seal":
            yield name, value


def seal(document: dict) -> dict[str, str]:
    """SHA-256 of each part of the document in its canonical form (sorted keys, no spaces), by the part's name."""
    return {
        name: hashlib.sha256(
            json.dumps(part, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
        ).hexdigest()
        for name, part in _parts(document)
    }


def check(document: dict) -> None:
    """Raise Inconsistent unless the document has the form of the schema and agrees with itself and its seal."""
    import fastjsonschema

    try:
        validator()(document)
    except fastjsonschema.JsonSchemaException as error:
        # Its message may quote the value, which may be the whole document.
        raise Inconsistent(f"it breaks the schema: {error.message[:300]}") from error
    for scenario in document["scenarios"]:
        for problem in inconsistencies(scenario):
            raise Inconsistent(f"it was changed after it was written: scenario {scenario['name']}: {problem}")
    try:
        found = waterfalls(document["scenarios"])
    except (KeyError, StatisticsError) as error:
        raise Inconsistent(
            f"it was changed after it was written: its scenarios make no waterfalls ({error})"
        ) from error
    if found != document["waterfalls"]:
        raise Inconsistent("it was changed after it was written: its waterfalls are not those of its scenarios")
    for problem in _inconsistent_stress(document):
        raise Inconsistent(f"it was changed after it was written: stress: {problem}")
    sums = seal(document)
    changed = [name for name in {**sums, **document["seal"]} if sums.get(name) != document["seal"].get(name)]
    if changed:
        raise Inconsistent(f"it was changed after it was written: {', '.join(changed)}")


def inconsistencies(scenario: dict) -> Iterator[str]:
    """In what a scenario of the document disagrees with itself; the rounds' own figures are taken as they are."""
    for name in scenario["metrics"]:
        if name not in METRICS:
            yield f"metric {name!r} is unknown to this bench"
            return
    contestants = {c["key"]: c for c in scenario["contestants"]}
    if len(contestants) != len(scenario["contestants"]):
        yield "a contestant is listed twice"
    cases = {case["name"] for case in scenario["cases"]} or {""}
    for key, c in contestants.items():
        if c["variant"] not in VARIANTS:
            yield f"{key}: variant {c['variant']!r} is unknown to this bench"
        if c["case"] not in cases:
            yield f"{key}: there is no case {c['case']!r}"
    yield from _inconsistent_rounds(scenario, contestants)
    analysis = scenario["analysis"]
    values = {
        c["key"]: {metric: in_each_process(scenario, c["key"], metric) for metric in scenario["metrics"]}
        for c in analysis["contestants"]
    }
    for c in analysis["contestants"]:
        if c["key"] not in contestants:
            yield f"the analysis has {c['key']}, which did not take part"
        elif c["n"] != len(scenario["rounds"]):
            yield f"{c['key']} is said to have {c['n']} rounds of {len(scenario['rounds'])}"
        else:
            yield from _inconsistent_summary(c, values[c["key"]])
    for c in analysis["comparisons"]:
        yield from _inconsistent_comparison(c, values, contestants)


def _inconsistent_rounds(scenario: dict, contestants: dict) -> Iterator[str]:
    for position, one in enumerate(scenario["rounds"], 1):
        if one["number"] != position:
            yield f"round {position} is missing"
        ran = [trial["contestant"] for trial in one["trials"]]
        for key in {*ran} - {*contestants}:
            yield f"round {one['number']} has a trial of {key}, which is no contestant"
        if len({*ran}) != len(ran):
            yield f"round {one['number']} has a contestant twice"
        for trial in one["trials"]:
            for metric in scenario["metrics"]:
                if metric not in trial["metrics"]:
                    yield f"round {one['number']}: {trial['contestant']} has no {metric}"


def _inconsistent_summary(summary: dict, values: dict[str, list[float]]) -> Iterator[str]:
    for metric, of in values.items():
        if len(of) != summary["n"] or metric not in summary["metrics"]:
            yield f"{summary['key']}: {metric} is not there for every round"
            continue
        found = {"median": median(of), "min": min(of), "max": max(of)}
        yield from _others(f"of {metric} of {summary['key']}", summary["metrics"][metric], found)


def _inconsistent_comparison(c: dict, values: dict, contestants: dict) -> Iterator[str]:
    for key in (c["numerator"], c["denominator"]):
        if key not in contestants or key not in values:
            yield f"{c['title']!r} compares {key}, which was not measured in every round"
            return
    pairs = values[c["numerator"]].get(c["metric"]), values[c["denominator"]].get(c["metric"])
    if None in pairs or c["n"] != len(pairs[0]):
        yield f"{c['title']!r}: {c['metric']} was not measured in {c['n']} rounds"
        return
    found = asdict(ratio(*pairs))
    yield from _others(f"of the ratio of {c['metric']} of {c['title']!r}", c, {name: found[name] for name in RATIO})


def _others(what: str, said: dict, found: Mapping[str, float | None]) -> Iterator[str]:
    """Which figures are said to be others than were found."""
    for name, value in found.items():
        if said[name] != value and not (said[name] and value and math.isclose(said[name], value, rel_tol=RELATIVE)):
            yield f"the {name} {what} is said to be {said[name]}, its rounds give {value}"


def _inconsistent_stress(document: dict) -> Iterator[str]:
    """In what the thread-safety suite's part disagrees with itself and with the options."""
    part = document.get("stress")
    if part is None:
        return
    configs = document["options"]["configs"]
    seen = set()
    for result in part["results"]:
        name = f"{result['scenario']} in {result['configuration']}"
        if result["scenario"] not in part["scenarios"] or result["configuration"] not in configs:
            yield f"{name} was not to be run"
        if name in seen:
            yield f"{name} has two results"
        seen.add(name)
        if (result["outcome"] == "passed") == bool(result["failures"]):
            yield f"{name} has {result['outcome']}, and {len(result['failures'])} failures"
    if part["status"] == "complete" and len(seen) != len(part["scenarios"]) * len(configs):
        yield f"{len(seen)} results of {len(part['scenarios'])} scenarios in {len(configs)} configurations are complete"
