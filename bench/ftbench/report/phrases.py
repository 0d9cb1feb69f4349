"""Sentences and labels that terminal, picture and page have in common."""

import base64
import math
import re
from collections.abc import Iterable

from ftbench.plan.candidates import CONFIG_TITLES, plural
from ftbench.plan.metrics import METRICS, Metric
from ftbench.stats.statistics import NEGLIGIBLE, NO_DIFFERENCE, TOO_FEW

# Of more disturbed rounds only so many are told one by one.
MOST_ROUNDS = 5
# More than so many times the rounds that a run had is no advice.
MOST_MORE = 10
# Nor is more than a day.
MOST_MINUTES = 24 * 60
# The verdict on who gave different samples (ftbench.report.conclusions.told): ratios of theirs are not told.
OTHER_SAMPLES = "other samples"
# Units of time, in seconds.
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def capital(sentence: str) -> str:
    """A sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def count(number: int, noun: str) -> str:
    """So many of something: "1 round", "5 rounds"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def slug(name: str) -> str:
    """A name as part of an id or a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def times(value: float) -> str:
    """A ratio: "1.43x"."""
    return f"{figure(value)}x"


def figure(value: float) -> str:
    """A ratio in figures."""
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def probability(value: float) -> str:
    """A p-value in figures."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def interval(comparison: dict) -> str:
    """A ratio's confidence interval, or a dash where one round gives none."""
    if comparison["low"] is None:
        return "-"
    return f"{figure(comparison['low'])} to {figure(comparison['high'])}"


def change(ratio: float) -> str:
    """How far a ratio is from 1, without a direction: "57%"."""
    part = abs(ratio - 1)
    if ratio < 0.005:
        return "more than 99%"
    if part > 99:
        return "more than 9,900%"
    return f"{100 * part:.1f}%" if part < 0.0095 else f"{100 * part:,.0f}%"


def directed(metric: Metric, ratio: float) -> str:
    """A ratio in words: "57% faster", "14% less memory"."""
    return f"{change(ratio)} {metric.above if ratio > 1 else metric.below}"


def span(low: float, high: float) -> str:
    """An interval on one side of 1 in words: "48% to 66%"."""
    near, far = sorted((low, high), key=lambda ratio: abs(math.log(ratio)))
    return f"{change(near)} to {change(far)}"


def outcome(metric: Metric, c: dict) -> str:
    """A ratio's outcome: "57% faster (48% to 66%)", "between 23% slower and 92% faster".

    `c` has mean (or ratio), low, high and verdict, as comparisons and steps of results.json.
    """
    mean = c["mean"] if "mean" in c else c["ratio"]
    if c["verdict"] == OTHER_SAMPLES:
        return "gave other samples: not compared"
    if c["verdict"] == TOO_FEW or c["low"] is None:
        return f"{directed(metric, mean)} (too few rounds to be sure)"
    low, high = c["low"], c["high"]
    if c["verdict"] != NO_DIFFERENCE:
        return f"{directed(metric, mean)} ({span(low, high)})"
    if low <= 1 <= high and not _negligible(low, high):
        return f"between {change(low)} {metric.below} and {change(high)} {metric.above}"
    if _negligible(mean):
        return f"the same within {change(max(high, 1 / low))}"
    return f"{directed(metric, mean)} ({span(low, high)}), not certain among so many comparisons"


def _negligible(*ratios: float) -> bool:
    return all(max(ratio, 1 / ratio) <= NEGLIGIBLE for ratio in ratios)


def shown(comparison: dict) -> bool:
    """Whether a difference is shown."""
    return comparison["verdict"] not in (NO_DIFFERENCE, TOO_FEW)


def short(comparison: dict) -> str:
    """A comparison's outcome: "57% faster (48% to 66%)"; see `outcome`."""
    return outcome(METRICS[comparison["metric"]], comparison)


def more_minutes(scenario: dict, c: dict) -> int | None:
    """How long a run would settle an undecided comparison; None if nothing is open, 0 if it would take too long.

    So many rounds as would show a difference of this size in eight of ten such runs, as `resolution` has it.
    """
    mean = c["mean"] if "mean" in c else c["ratio"]
    if c["verdict"] != NO_DIFFERENCE or not c["low"] <= 1 <= c["high"] or _negligible(c["low"], c["high"]):
        return None
    seen, far = math.log(c["resolution"]), abs(math.log(mean))
    if far * math.sqrt(MOST_MORE) < seen:
        return 0
    more = ((seen / far) ** 2 - 1) * sum(one["seconds"] for one in scenario["rounds"]) / 60
    return max(1, math.ceil(more)) if more <= MOST_MINUTES else 0


def settles(scenario: dict, c: dict) -> str | None:
    """What would settle an undecided comparison: "5 more minutes would settle it"; None where nothing is open."""
    minutes = more_minutes(scenario, c)
    if minutes == 0:
        about, seen = METRICS[c.get("metric", "throughput")], min(c["resolution"], 100.0)
        return f"less than {directed(about, seen)} or {directed(about, 1 / seen)} cannot be seen in {rounds(scenario)}"
    return f"{count(minutes, 'more minute')} would settle it" if minutes else None


def comparisons(scenario: dict, metric: str) -> list[dict]:
    """The scenario's comparisons of one metric, of candidates that gave the same samples."""
    every = scenario["analysis"]["comparisons"]
    return [c for c in every if c["metric"] == metric and c["verdict"] != OTHER_SAMPLES]


def metric(scenario: dict) -> Metric:
    """The metric that the scenario is about."""
    return METRICS[scenario["metrics"][0]]


# For legends, which a phone has little room for.
SHORT_TITLES = {"gil": "GIL build", "ft-gil": "free-threaded, GIL on", "ft": "free-threaded"}


def label(config: str, variant: str) -> str:
    """A series of a chart: "free-threaded, GIL on: loader threads"."""
    return f"{SHORT_TITLES[config]}: {plural(variant)}"


def pictured(scenario: dict) -> list[dict]:
    """The comparisons of the scenario's metric that a picture has room for.

    Those with targets; the headline and chosen ones for every number of workers; the GIL's effect, the
    build's cost and threads against processes at the most workers alone. Of a scenario with cases, the
    headline and chosen ones too are those of the most workers, and stand for threads against processes.
    """
    found = comparisons(scenario, metric(scenario).name)
    workers = {c["numerator"]: candidate(scenario, c["numerator"])["workers"] for c in found}
    most = max(workers.values(), default=0)
    at_most = {"gil", "build", "method", "interference"}
    left_out = {"scaling"}
    if scenario["cases"]:
        at_most |= {"headline", "chosen"}
        if any(c["kind"] == "headline" for c in found):
            left_out.add("method")
    return [
        c
        for c in found
        if c["target"] or c["kind"] not in left_out and (c["kind"] not in at_most or workers[c["numerator"]] == most)
    ]


def title(scenario: dict, comparison: dict) -> str:
    """Who is compared, without the remark why and without the case: "ft threads / gil processes, x2"."""
    text = comparison["title"].split(":")[0]
    for case in scenario["cases"]:
        for end in (f", {case['title']}", f" ({case['name']})"):
            text = text.replace(end, "")
    return text


def title_with_case(scenario: dict, comparison: dict) -> str:
    """Who is compared in which case, without the remark why."""
    a, b = pair(scenario, comparison)
    if a["case"] != b["case"]:
        return comparison["title"]  # what follows a colon may say which cases
    return ", ".join(filter(None, (title(scenario, comparison), case_of(scenario, comparison))))


def case_of(scenario: dict, comparison: dict) -> str:
    """The case of a comparison's first candidate in words, "" for none."""
    return case_title(scenario, candidate(scenario, comparison["numerator"])["case"])


def case_title(scenario: dict, name: str) -> str:
    """A case in words, "" for no case."""
    return next((case["title"] for case in scenario["cases"] if case["name"] == name), name)


def own_title(candidate: dict) -> str:
    """A candidate's title without its case, which is told beside it, in its own words."""
    return candidate["title"].replace(f" ({candidate['case']})", "")


def full_title(scenario: dict, candidate: dict) -> str:
    """A candidate's title with its case in words."""
    return ", ".join(filter(None, (own_title(candidate), case_title(scenario, candidate["case"]))))


def far_apart(values: Iterable[float]) -> bool:
    """Whether values are so far apart that only a logarithmic axis shows them all."""
    values = list(values)
    return min(values) > 0 and max(values) / min(values) >= 10


def quantity(value: float, unit: str) -> str:
    """A value of the axis of cases: "64 KiB", "4 MiB", "5 ms", "1,000 names"."""
    if unit in ("bytes", "B"):
        binary = value and value % 1024 == 0
        step, units = (1024, ("B", "KiB", "MiB", "GiB", "TiB")) if binary else (1000, ("B", "kB", "MB", "GB", "TB"))
        power = 0
        while value and value % step == 0 and power < 4:
            value, power = value / step, power + 1
        return f"{value:,.0f} {units[power]}"
    return amount(value, "s") if unit in ("seconds", "s") else f"{value:,g} {unit}".strip()


def amount(value: float, unit: str) -> str:
    """A round value on an axis: times and bytes in the prefix that suits them, else the figure alone."""
    if unit in SECONDS:
        seconds = value * SECONDS[unit]
        name = next((name for name in SECONDS if seconds >= SECONDS[name] * (1 - 1e-9)), "ns" if value else "s")
        return f"{seconds / SECONDS[name]:,.3g} {name}"
    if unit == "MiB" and value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:g} GiB"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def workers(number: int) -> str:
    """So many workers: "1 worker", "no workers"."""
    return count(number, "worker") if number else "no workers"


def candidate(scenario: dict, key: str) -> dict:
    """A candidate of the scenario by its key."""
    return next(c for c in scenario["candidates"] if c["key"] == key)


def pair(scenario: dict, comparison: dict) -> tuple[dict, dict]:
    """Who is compared with whom."""
    return candidate(scenario, comparison["numerator"]), candidate(scenario, comparison["denominator"])


def describe(scenario: dict, key: str, with_workers: bool = False, with_case: bool = True) -> str:
    """A candidate in words: "loader threads in the free-threaded build"."""
    c = candidate(scenario, key)
    number = f" x{c['workers']}" if with_workers and c["workers"] else ""
    case = case_title(scenario, c["case"]) if with_case else ""
    return f"{plural(c['variant'])}{number} in the {CONFIG_TITLES[c['config']]}{f' ({case})' if case else ''}"


def target(comparison: dict) -> str:
    """What was wanted of a ratio and what came of it: ">= 1.9x: met"; "" where nothing was wanted."""
    wanted = comparison["target"]
    if wanted is None:
        return ""
    return f"{'>=' if wanted['at'] == 'least' else '<='} {wanted['value']:.3g}x: {wanted['verdict']}"


def resolution(scenario: dict) -> str:
    """What the run could have seen, in a sentence."""
    of = metric(scenario).name
    found = [c["resolution"] for c in scenario["analysis"]["comparisons"] if c["metric"] == of and c["resolution"]]
    if not found:
        return "One round cannot tell a difference from noise."
    ends = dict.fromkeys((change(min(found)), change(max(found))))
    return (
        f"The smallest difference that these {len(scenario['rounds'])} rounds could have shown is "
        f"{' to '.join(ends)}{', depending on the comparison' if len(ends) > 1 else ''}."
    )


def state(document: dict) -> str | None:
    """What is to be said of a run that did not end as planned."""
    if document["status"] == "complete":
        return None
    rounds = sum(len(s["rounds"]) for s in document["scenarios"])
    return f"INCOMPLETE: {document['reason']}; {count(rounds, 'finished round')} reported"


def builds(document: dict) -> list[str]:
    """Each twin's interpreter on a line."""
    lines = []
    for twin, e in document["environment"]["twins"].items():
        python = e["interpreter"]
        kind = "free-threaded" if python["free_threaded"] else "with the GIL"
        lines.append(f"{twin}: Python {python['version']} {kind}, {python['build']}, {python['compiler']}")
    return lines


def picture(scenario: dict) -> bytes | None:
    """The scenario's picture of some samples as PNG, None if it has none."""
    try:
        content = base64.b64decode(scenario.get("picture") or "", validate=True)
    except ValueError:
        return None
    return content if content.startswith(b"\x89PNG\r\n\x1a\n") else None


def usable(document: dict) -> int:
    """How many CPUs a run could use."""
    return min(twin["cpu"]["usable"] for twin in document["environment"]["twins"].values())


def machine(document: dict) -> str:
    """Processor, memory, system, in a line. Twins share a machine; the first one speaks."""
    e = next(iter(document["environment"]["twins"].values()))
    where = f"{e['os']['container']} container" if e["os"]["container"] else "no container"
    return (
        f"{e['cpu']['model']}, {usable(document)} of {e['cpu']['count']} CPUs usable, "
        f"{e['memory']['total'] / 2**30:.0f} GiB, {e['os']['name']}, Linux {e['os']['kernel']}, {where}"
    )


def revision(document: dict) -> str:
    """The source's commit."""
    r = document["environment"]["revision"]
    return r["commit"][:12] + (" with changes" if r["dirty"] else "")


def work(scenario: dict) -> str:
    """What was measured, in a line."""
    data = scenario["dataset"]
    parts = [scenario["description"]]
    if scenario["cases"]:
        parts.append(f"{scenario['case_axis']}: {' · '.join(case['title'] for case in scenario['cases'])}")
    else:
        parts.append(
            f"batches of {scenario['batch_size']}, {scenario['batches_per_worker']} for each worker in a "
            + (f"turn, {scenario['turns']} turns in a trial" if scenario["turns"] > 1 else "trial")
        )
    if data["source"] != "none":
        source = (
            f"generated {data['kind']}" if data["source"] == "generated" else f"{data['kind']} of {data['directory']}"
        )
        parts.append(f"{data['files']} {source}, {data['mean_bytes'] / 1000:.0f} kB on average")
    return "; ".join([*parts, rounds(scenario)])


def rounds(scenario: dict) -> str:
    """How often everything was measured: "5 rounds"."""
    return count(len(scenario["rounds"]), "round")


def disturbed(scenario: dict) -> list[str]:
    """Which rounds something else disturbed and how, in a sentence; none if none was."""
    found = [one for one in scenario["rounds"] if one["disturbance"]["marks"]]
    if not found:
        return []
    number = len(scenario["rounds"])
    which = "; ".join(f"round {one['number']}: {', '.join(one['disturbance']['marks'])}" for one in found[:MOST_ROUNDS])
    more = f"; and {len(found) - MOST_ROUNDS} more" if len(found) > MOST_ROUNDS else ""
    return [f"{len(found)} of {number} rounds {'was' if len(found) == 1 else 'were'} disturbed ({which}{more})."]
