"""The waterfall: a chain's figures, from what people run today to threads without the GIL, one change at a time.

Made of the comparisons of ftbench.plan.waterfall, whose steps multiply to the whole, since each is a difference of the
same logarithms. Times and CPU times have a waterfall of their own each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import geometric_mean

from ftbench.plan.candidates import CONFIG_TITLES, CONFIGS, Candidate, plural
from ftbench.plan.waterfall import PROCESSES, STEP, THREADS, TODAY, TOTAL, cells

# What a run stops at: every step known to so much, up and down.
PRECISION = 0.05
# With fewer rounds, how wide an interval is depends on luck too much to stop at it.
FEWEST_TO_STOP = 5
# Told of both ends of the chain, beside it.
ENDS = ("time_to_first_batch", "pss_mib")


def waterfalls(scenarios: Sequence[dict]) -> list[dict]:
    """Of each scenario and case with a chain, as results.json has it; the most workers' alone."""
    whole = [{"name": "", "title": ""}]
    found = (_of_case(scenario, case) for scenario in scenarios for case in scenario["cases"] or whole)
    return [one for one in found if one]


def _of_case(scenario: dict, case: dict) -> dict | None:
    analysis = scenario["analysis"]
    keys = {c["key"] for c in analysis["candidates"]}
    there = [c for c in scenario["candidates"] if c["case"] == case["name"] and c["key"] in keys]
    steps = {(c["numerator"], c["metric"]): c for c in analysis["comparisons"] if c["kind"] == STEP}
    totals = {(c["numerator"], c["metric"]): c for c in analysis["comparisons"] if c["kind"] == TOTAL}
    most = max((c["workers"] for c in there if c["variant"] in (TODAY, PROCESSES, THREADS)), default=None)
    if most is None or not totals:
        return None
    configs = [config for config in CONFIGS if any(c["config"] == config for c in there)]
    chain = [(cell, Candidate(cell.config, cell.variant, most, case["name"]).key) for cell in cells(configs)]
    medians = {c["key"]: c["metrics"] for c in analysis["candidates"]}
    # A change whose end could not be measured is part of the next one.
    named: list[tuple[str, str]] = []
    before = ""
    for cell, key in chain:
        if key in keys:
            # What a chain begins with is no change.
            whole = f"{plural(cell.variant)}, {CONFIG_TITLES[cell.config]}"
            named.append((before + cell.change if named or cell.variant == TODAY else whole, key))
            before = ""
        elif named:
            before += f"{cell.change}; "
    (first, start), *others = named or [("", "")]
    if not others or (others[-1][1], "throughput") not in totals:
        return None
    end = others[-1][1]

    def of(metric: str) -> dict:
        return {
            "start": {"name": first, "candidate": start, "value": typical_of(scenario, start, metric)},
            "steps": [{"name": name, "candidate": key, **_ratio(steps[key, metric])} for name, key in others],
            "total": _ratio(totals[end, metric]),
            "end": typical_of(scenario, end, metric),
        }

    return {
        "workload": case["title"] and f"{scenario['name']}: {case['title']}" or scenario["name"],
        "scenario": scenario["name"],
        "case": case["name"],
        "workers": most,
        **of("throughput"),
        "cpu_per_1000": of("cpu_per_1000"),
        "ends": {name: [medians[key][name]["median"] for key in (start, end)] for name in ENDS},
        "missing": [
            *(config for config in CONFIGS if config not in configs),
            *(plural(cell.variant) for cell, key in chain if key not in keys),
        ],
    }


def trials_of(scenario: dict, key: str) -> list[dict]:
    """A candidate's trials, one a round that it took part in."""
    return [trial for one in scenario["rounds"] for trial in one["trials"] if trial["candidate"] == key]


def in_each_process(scenario: dict, key: str, metric: str) -> list[float]:
    """What a candidate measured in each of its processes."""
    return [trial["metrics"][metric] for trial in trials_of(scenario, key)]


def typical_of(scenario: dict, key: str, metric: str) -> float:
    """The geometric mean of a candidate's processes: ratios are means of logarithms, so a chain's lead there."""
    return geometric_mean(in_each_process(scenario, key, metric))


def _ratio(comparison: dict) -> dict:
    return {
        "ratio": comparison["mean"],
        **{name: comparison[name] for name in ("low", "high", "n", "resolution", "verdict")},
    }


def precise(analysis: dict, precision: float) -> bool:
    """Whether every question of throughput that was asked is answered as precisely; never where none is asked.

    Only how wide the intervals are is looked at, never on which side of 1 they lie.
    """
    asked = [
        c for c in analysis["comparisons"] if c["asked"] and c["metric"] == "throughput" and c["kind"] in (STEP, TOTAL)
    ]
    if not asked or min(c["n"] for c in asked) < FEWEST_TO_STOP:
        return False
    return max(math.log(c["high"] / c["low"]) / 2 for c in asked) <= math.log1p(precision)
