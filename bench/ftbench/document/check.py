"""Whether a results.json is what a run wrote: complete, of this form, consistent in itself, and unchanged.

Three lines of defence, so that a message can say what is wrong and where: the schema (document.schema) knows the form
of every field; `_problems` recomputes from the rounds what was summed up from them; the seal, SHA-256 sums of
the parts of the document, notices any other change. The seal protects from accidents and from forgetting, not from
somebody who wants to deceive: whoever can edit the figures can seal them again.
"""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from statistics import StatisticsError

from ftbench.document.schema import schema
from ftbench.plan.candidates import VARIANTS, Target
from ftbench.plan.metrics import METRICS
from ftbench.stats.statistics import adjust, distributions, ratio, reached, spread
from ftbench.stats.waterfall import trials_of, waterfalls

# Beside rounding in printing, which JSON has none of, only another machine's libm differs.
RELATIVE = 1e-9
# Rounds that hardly differ have p-values near 0, of which only this much is the same with another libm.
ABSOLUTE = 1e-9


# Verdicts as other benches of this schema version wrote them.
FORMER = {"a larger part": "larger", "a smaller part": "smaller"}


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
    for problem in _problems(document):
        raise Inconsistent(f"it was changed after it was written: {problem}")


def _problems(document: dict) -> Iterator[str]:
    """In what a document of the schema's form disagrees with itself and its seal."""
    scenarios = document["scenarios"]
    if len({scenario["name"] for scenario in scenarios}) != len(scenarios):
        yield "a scenario is there twice"
    for scenario in scenarios:
        for problem in _of_scenario(scenario):
            yield f"scenario {scenario['name']}: {problem}"
    yield from _verdicts([c for scenario in scenarios for c in scenario["analysis"]["comparisons"]])
    try:
        found = waterfalls(scenarios)
    except (KeyError, StatisticsError) as error:
        yield f"its scenarios make no waterfalls ({error})"
    else:
        if not _same(found, document["waterfalls"]):
            yield "its waterfalls are not those of its scenarios"
    if "stress" in document:
        for problem in _stress(document["stress"], document["options"]["configs"]):
            yield f"stress: {problem}"
    sums = seal(document)
    changed = [name for name in {**sums, **document["seal"]} if sums.get(name) != document["seal"].get(name)]
    if changed:
        yield ", ".join(changed)


def _of_scenario(scenario: dict) -> Iterator[str]:
    """In what a scenario of the document disagrees with itself; the rounds' own figures are taken as they are."""
    for name in scenario["metrics"]:
        if name not in METRICS:
            yield f"metric {name!r} is unknown to this bench"
            return
    candidates = {c["key"]: c for c in scenario["candidates"]}
    if len(candidates) != len(scenario["candidates"]):
        yield "a candidate is listed twice"
    cases = {case["name"] for case in scenario["cases"]} or {""}
    for key, c in candidates.items():
        if c["variant"] not in VARIANTS:
            yield f"{key}: variant {c['variant']!r} is unknown to this bench"
        if c["case"] not in cases:
            yield f"{key}: there is no case {c['case']!r}"
    for position, one in enumerate(scenario["rounds"], 1):
        yield from _round(position, one, scenario["metrics"], candidates)
    analysis, rounds = scenario["analysis"], scenario["rounds"]
    trials = {key: trials_of(scenario, key) for key in candidates}
    summed_up = {c["key"] for c in analysis["candidates"]}
    values = {
        key: {metric: [trial["metrics"][metric] for trial in of] for metric in scenario["metrics"]}
        for key, of in trials.items()
        if key in summed_up
    }
    for key in candidates:
        if key not in summed_up and len(trials[key]) == len(rounds):
            yield f"the analysis lacks {key}, which took part in every round"
    for c in analysis["candidates"]:
        if c["key"] not in candidates:
            yield f"the analysis has {c['key']}, which did not take part"
        elif c["n"] != len(rounds):
            yield f"{c['key']} is said to have {c['n']} rounds of {len(rounds)}"
        else:
            yield from _summary(c, values[c["key"]], trials[c["key"]])
    for c in analysis["comparisons"]:
        yield from _comparison(c, values)


def _round(position: int, one: dict, metrics: list[str], candidates: dict) -> Iterator[str]:
    if one["number"] != position:
        yield f"round {position} is missing"
    ran = [trial["candidate"] for trial in one["trials"]]
    for key in {*ran} - {*candidates}:
        yield f"round {position} has a trial of {key}, which is no candidate"
    if len({*ran}) != len(ran):
        yield f"round {position} has a candidate twice"
    for trial in one["trials"]:
        for metric in {*metrics} - {*trial["metrics"]}:
            yield f"round {position}: {trial['candidate']} has no {metric}"
        for name, kept in trial["distributions"].items():
            if "over" in kept and len(kept["over"]["values"]) != len(kept["values"]):
                yield f"round {position}: {name} of {trial['candidate']} is no curve: a value has no place"


def _summary(c: dict, values: dict[str, list[float]], trials: list[dict]) -> Iterator[str]:
    for metric, of in values.items():
        if len(of) != c["n"] or metric not in c["metrics"]:
            yield f"{c['key']}: {metric} is not there for every round"
        else:
            yield from _others(f"of {metric} of {c['key']}", c["metrics"][metric], spread(of))
    if not _same(c["distributions"], distributions([trial["distributions"] for trial in trials])):
        yield f"the distributions of {c['key']} are not those of its rounds"


def _comparison(c: dict, values: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    for key in (c["numerator"], c["denominator"]):
        if key not in values:
            yield f"{c['title']!r} compares {key}, which was not measured in every round"
            return
        if len(values[key].get(c["metric"], ())) != c["n"]:
            yield f"{c['title']!r}: {c['metric']} was not measured in {c['n']} rounds"
            return
    try:
        found = ratio(values[c["numerator"]][c["metric"]], values[c["denominator"]][c["metric"]])
    except ValueError as error:
        yield f"{c['title']!r}: {c['metric']}: {error}"
        return
    yield from _others(f"of the ratio of {c['metric']} of {c['title']!r}", c, asdict(found))
    if c["target"]:
        verdict = reached(found, Target(c["target"]["at"], c["target"]["value"]))
        yield from _others(f"of the target of {c['title']!r}", c["target"], {"verdict": verdict})


def _verdicts(comparisons: list[dict]) -> Iterator[str]:
    """Which comparisons are judged in another way than their figures, and how many were explored, say."""
    found = [dict(c) for c in comparisons]
    adjust([{"comparisons": found}])
    for c, again in zip(comparisons, found, strict=True):
        yield from _others(f"of the ratio of {c['metric']} of {c['title']!r}", c, {"q": again["q"]})
        if FORMER.get(c["verdict"], c["verdict"]) != again["verdict"]:
            yield f"the verdict of {c['metric']} of {c['title']!r} is {again['verdict']}, not {c['verdict']}"


def _others(what: str, said: dict, found: Mapping[str, object]) -> Iterator[str]:
    """Which figures are said to be others than were found."""
    for name, value in found.items():
        if not _same(said[name], value):
            yield f"the {name} {what} is said to be {said[name]}, its rounds give {value}"


def _same(said: object, found: object) -> bool:
    """Whether two parts of documents are equal, their figures as far as another machine's libm allows."""
    match said, found:
        case dict(), dict():
            return said.keys() == found.keys() and all(_same(said[key], found[key]) for key in said)
        case list(), list():
            return len(said) == len(found) and all(map(_same, said, found))
        case int() | float(), int() | float():
            return math.isclose(said, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return said == found


def _stress(part: dict, configs: list[str]) -> Iterator[str]:
    """In what the thread-safety suite's part disagrees with itself and with the options."""
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
