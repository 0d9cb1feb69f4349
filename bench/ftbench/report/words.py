"""Sentences and labels that terminal, picture and page have in common."""

from __future__ import annotations

import base64
import math
import re

from ftbench.plan.contestants import CONFIG_TITLES, plural
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.variants import VARIANTS
from ftbench.stats.statistics import NEGLIGIBLE, NO_DIFFERENCE, TOO_FEW
from ftrun.escape import one_line

# With no more CPUs than these, contention between workers hardly shows.
FEW_CPUS = 4
# Of more disturbed rounds only so many are told one by one.
MOST_ROUNDS = 5
# From this factor on, "by a factor of 2.6" is read more easily than "160% faster".
FACTOR = 2.5
# More than so many times the rounds that a run had is no advice.
MOST_MORE = 10


def without_controls(text: str) -> str:
    """One line of text, of which a terminal obeys nothing."""
    return one_line(str(text))


def capital(sentence: str) -> str:
    """A sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def probability(p: float) -> str:
    """A p-value: "0.012", "<0.001"."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def slug(name: str) -> str:
    """A name as part of an id or a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def times(value: float) -> str:
    """A ratio: "1.43x"."""
    return f"{_figure(value)}x"


def _figure(value: float) -> str:
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def interval(comparison: dict) -> str:
    """A ratio's confidence interval, or a dash where one round gives none."""
    if comparison["low"] is None:
        return "-"
    return f"{_figure(comparison['low'])} to {_figure(comparison['high'])}"


def change(ratio: float, factor: bool = False) -> str:
    """How far a ratio is from 1, without a direction: "57%"; as a factor "3.4"."""
    far = max(ratio, 1 / ratio)
    if factor:
        return "more than 100" if far > 100 else f"{far:.1f}"
    part = abs(ratio - 1)
    if 0.995 < part < 1:
        return "more than 99%"
    return f"{100 * part:.1f}%" if part < 0.0095 else f"{100 * part:,.0f}%"


def as_factor(ratio: float) -> bool:
    """Whether a ratio is told as a factor."""
    return max(ratio, 1 / ratio) >= FACTOR


def directed(metric: Metric, ratio: float) -> str:
    """A ratio in words: "57% faster", "14% less memory", "faster by a factor of 3.4"."""
    word = metric.above if ratio > 1 else metric.below
    return f"{word} by a factor of {change(ratio, True)}" if as_factor(ratio) else f"{change(ratio)} {word}"


def span(low: float, high: float, factor: bool) -> str:
    """An interval on one side of 1 in words, as what it belongs to: "48% to 66%", as factors "2.4 to 4.1"."""
    near, far = sorted((low, high), key=lambda ratio: abs(math.log(ratio)))
    return f"{change(near, factor)} to {change(far, factor)}"


def outcome(metric: Metric, c: dict) -> str:
    """A ratio's outcome: "57% faster (48% to 66%)", "between 23% slower and 92% faster".

    `c` has mean (or ratio), low, high and verdict, as comparisons and steps of results.json.
    """
    mean = c["mean"] if "mean" in c else c["ratio"]
    if c["verdict"] == TOO_FEW or c["low"] is None:
        return f"{directed(metric, mean)} (too few rounds to be sure)"
    low, high = c["low"], c["high"]
    if c["verdict"] != NO_DIFFERENCE:
        return f"{directed(metric, mean)} ({span(low, high, as_factor(mean))})"
    if low <= 1 <= high:
        return f"between {change(low)} {metric.below} and {change(high)} {metric.above}"
    if max(high, 1 / low) <= NEGLIGIBLE or max(mean, 1 / mean) <= NEGLIGIBLE:
        return f"the same within {change(max(high, 1 / low))}"
    return f"{directed(metric, mean)} ({span(low, high, as_factor(mean))}), not certain among so many comparisons"


def short(scenario: dict, comparison: dict) -> str:
    """A comparison's outcome: "57% faster (48% to 66%)"; see `outcome`."""
    return outcome(metric_of(comparison["metric"]), comparison)


def more_minutes(scenario: dict, c: dict) -> int | None:
    """How long a run would settle an undecided comparison; None if nothing is open, 0 if it would take too long.

    So many rounds as make the interval as narrow as the ratio is far from 1.
    """
    mean = c["mean"] if "mean" in c else c["ratio"]
    if c["verdict"] != NO_DIFFERENCE or c["low"] is None or not c["low"] <= 1 <= c["high"]:
        return None
    half, far = math.log(c["high"] / c["low"]) / 2, abs(math.log(mean))
    if far * math.sqrt(MOST_MORE) < half:
        return 0
    more = ((half / far) ** 2 - 1) * sum(one["seconds"] for one in scenario["rounds"])
    return max(1, math.ceil(more / 60))


def settles(scenario: dict, c: dict) -> str | None:
    """What would settle an undecided comparison: "5 more minutes would settle it"; None where nothing is open."""
    minutes = more_minutes(scenario, c)
    if minutes == 0:
        return f"less than {change(c['resolution'])} cannot be seen in {rounds(scenario)}"
    return f"{minutes} more minute{'s' if minutes != 1 else ''} would settle it" if minutes else None


def comparisons(scenario: dict, metric: str) -> list[dict]:
    """The scenario's comparisons of one metric."""
    return [c for c in scenario["analysis"]["comparisons"] if c["metric"] == metric]


def metric_of(name: str) -> Metric:
    """A metric by name; of a bench that knows more metrics than this one, as far as its name tells."""
    return METRICS.get(name) or Metric(name, name.replace("_", " "), "?", "higher", "lower", ".4g", "higher")


def metric(scenario: dict) -> Metric:
    """The metric that the scenario is about."""
    return metric_of(scenario["metrics"][0])


def workers_of(variant: str) -> str:
    """A variant's workers in words, the variant's name if this bench does not know it."""
    return plural(variant) if variant in VARIANTS else variant


# For legends, which a phone has little room for.
SHORT_TITLES = {"gil": "GIL build", "ft-gil": "free-threaded, GIL on", "ft": "free-threaded"}


def label(config: str, variant: str) -> str:
    """A series of a chart: "free-threaded, GIL on: loader threads"."""
    return f"{SHORT_TITLES[config]}: {workers_of(variant)}"


def pictured(scenario: dict) -> list[dict]:
    """The comparisons of the scenario's metric that a picture has room for.

    Those with targets; the headline and chosen ones for every number of workers; the GIL's effect, the
    build's cost and threads against processes at the most workers alone. Of a scenario with cases, the
    headline and chosen ones too are those of the most workers, and stand for threads against processes.
    """
    found = comparisons(scenario, metric(scenario).name)
    workers = {c["numerator"]: contestant(scenario, c["numerator"])["workers"] for c in found}
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
    a, b = (contestant(scenario, comparison[side]).get("case") for side in ("numerator", "denominator"))
    if a != b:
        return comparison["title"]  # what follows a colon may say which cases
    case = next((f", {each['title']}" for each in scenario["cases"] if each["name"] == a), "")
    return title(scenario, comparison) + case


def workers(count: int) -> str:
    """So many workers: "1 worker", "no workers"."""
    return f"{count or 'no'} worker{'s' if count != 1 else ''}"


def contestant(scenario: dict, key: str) -> dict:
    """A contestant of the scenario by its key."""
    return next(c for c in scenario["contestants"] if c["key"] == key)


def describe(scenario: dict, key: str, with_workers: bool = False, with_case: bool = True) -> str:
    """A contestant in words: "loader threads in the free-threaded build"."""
    c = contestant(scenario, key)
    number = f" x{c['workers']}" if with_workers and c["workers"] else ""
    case = next((f" ({case['title']})" for case in scenario["cases"] if with_case and case["name"] == c["case"]), "")
    return f"{workers_of(c['variant'])}{number} in the {CONFIG_TITLES[c['config']]}{case}"


def target(comparison: dict) -> str:
    """What was wanted of a ratio and what came of it: ">= 1.9x: met"; "" where nothing was wanted."""
    wanted = comparison["target"]
    if wanted is None:
        return ""
    return f"{'>=' if wanted['at'] == 'least' else '<='} {wanted['value']:.3g}x: {wanted['verdict']}"


def resolution(scenario: dict) -> str:
    """What the run could have seen, in a sentence."""
    found = [c["resolution"] for c in comparisons(scenario, metric(scenario).name) if c["resolution"]]
    if not found:
        return "One round cannot tell a difference from noise."
    return (
        f"The smallest difference that these {len(scenario['rounds'])} rounds could have shown is "
        f"{change(min(found))} to {change(max(found))}, by comparison."
    )


def state(document: dict) -> str | None:
    """What is to be said of a run that did not end as planned."""
    if document["status"] == "complete":
        return None
    rounds = sum(len(s["rounds"]) for s in document["scenarios"])
    return f"INCOMPLETE: {document['reason']}; {rounds} finished round{'s' if rounds != 1 else ''} reported"


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


def machine(document: dict) -> str:
    """Processor, memory, system, in a line. Twins share a machine; the first one speaks."""
    e = next(iter(document["environment"]["twins"].values()))
    where = f"{e['os']['container']} container" if e["os"]["container"] else "no container"
    usable = min(t["cpu"]["usable"] for t in document["environment"]["twins"].values())
    return (
        f"{e['cpu']['model']}, {usable} of {e['cpu']['count']} CPUs usable, "
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
            f"batches of {scenario['batch_size']}, {scenario['batches_per_worker']} a worker and "
            + (f"turn, {scenario['turns']} turns a trial" if scenario["turns"] > 1 else "trial")
        )
    if data["source"] != "none":
        source = (
            f"generated {data['kind']}" if data["source"] == "generated" else f"{data['kind']} of {data['directory']}"
        )
        parts.append(f"{data['files']} {source}, {data['mean_bytes'] / 1000:.0f} kB on average")
    return "; ".join([*parts, rounds(scenario)])


def rounds(scenario: dict) -> str:
    """How often everything was measured: "5 rounds"."""
    number = len(scenario["rounds"])
    return f"{number} round{'s' if number != 1 else ''}"


def disturbed(scenario: dict) -> list[str]:
    """Which rounds something else disturbed and how, in a sentence; none if none was."""
    found = [
        (one["number"], one["disturbance"]["marks"])
        for one in scenario["rounds"]
        if one["disturbance"] and one["disturbance"].get("marks")
    ]
    if not found:
        return []
    number = len(scenario["rounds"])
    which = "; ".join(f"round {n}: {', '.join(marks)}" for n, marks in found[:MOST_ROUNDS])
    more = f"; and {len(found) - MOST_ROUNDS} more" if len(found) > MOST_ROUNDS else ""
    return [f"{len(found)} of {number} rounds {'was' if len(found) == 1 else 'were'} disturbed ({which}{more})."]


def limits(document: dict) -> list[str]:
    """What this machine cannot show, in sentences."""
    e = next(iter(document["environment"]["twins"].values()))
    usable = min(t["cpu"]["usable"] for t in document["environment"]["twins"].values())
    found = []
    if usable <= FEW_CPUS:
        found.append(
            f"{usable} CPUs cannot show what many workers do to each other: contention for locks, for "
            "reference counts and for memory grows with their number."
        )
    if e["cpu"]["quota"] is not None:
        found.append(
            f"A cgroup limits this run to the time of {e['cpu']['quota']:g} of {e['cpu']['count']} CPUs; it "
            "is held back whenever it has used its share."
        )
    elif e["cpu"]["affinity"] < e["cpu"]["count"]:
        found.append(
            f"This run may use {e['cpu']['affinity']} of {e['cpu']['count']} CPUs; the others' load is not its own."
        )
    if e["os"]["container"]:
        found.append("It ran in a container: what else the host does shows in the noise alone.")
    return found
