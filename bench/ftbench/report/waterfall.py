"""The waterfalls in words, and what they advise."""

from __future__ import annotations

from dataclasses import dataclass

from ftbench.plan.chain import REMOVED, TODAY
from ftbench.plan.variants import VARIANTS
from ftbench.report import words
from ftbench.report.tables import Table
from ftbench.stats.waterfall import in_each_process, typical_of

CPU = "cpu_per_1000"


@dataclass(frozen=True)
class Row:
    """A place of the chain: what changed, and what came of it."""

    name: str
    config: str
    value: float
    """Samples a second there, by the ratios of the steps so far."""
    before: float
    """Where its bar begins: where the step before ended; nothing at the start and for the whole."""
    ratio: float | None
    """None at the start."""
    throughput: str
    """In words, "" at the start."""
    cpu: str
    dots: tuple[float, ...]
    """Samples a second in each process."""


def scenario_of(document: dict, fall: dict) -> dict:
    """The scenario that a waterfall is of."""
    return next(s for s in document["scenarios"] if s["name"] == fall["scenario"])


def rows(document: dict, fall: dict) -> list[Row]:
    """The chain from its start to its end, and the whole."""
    scenario = scenario_of(document, fall)
    about, cpu_about = words.metric_of("throughput"), words.metric_of(CPU)

    def dots(key: str) -> tuple[float, ...]:
        return tuple(in_each_process(scenario, key, "throughput"))

    start = fall["start"]
    first, value = dots(start["contestant"]), start["value"]
    config = words.contestant(scenario, start["contestant"])["config"]
    found = [Row(start["name"], config, value, 0.0, None, "", "", first)]
    for step, cpu in zip(fall["steps"], fall[CPU]["steps"], strict=True):
        before, value = value, value * step["ratio"]
        config = words.contestant(scenario, step["contestant"])["config"]
        # The column says what it is of.
        texts = words.outcome(about, step), words.outcome(cpu_about, cpu).replace(" CPU time", "")
        found.append(Row(step["name"], config, value, before, step["ratio"], *texts, dots(step["contestant"])))
    texts = words.outcome(about, fall["total"]), words.outcome(cpu_about, fall[CPU]["total"]).replace(" CPU time", "")
    return [*found, Row("in all", config, value, 0.0, fall["total"]["ratio"], *texts, found[-1].dots)]


def table(document: dict, fall: dict) -> Table:
    """The chain as a table, a step in a line."""
    rows_of = [
        (row.name, "" if row.ratio is None else f"x {row.ratio:.2f}", f"{row.value:.0f}", row.throughput, row.cpu)
        for row in rows(document, fall)
    ]
    return Table(("what changes", "factor", "samples/s", "throughput", "CPU time"), tuple(rows_of), frozenset({1, 2}))


def title(document: dict, fall: dict) -> str:
    """What was loaded and by how many workers."""
    scenario = scenario_of(document, fall)
    case = next(
        (f", {case['title']}" for case in scenario["cases"] if case["name"] == fall["case"] and case["name"]), ""
    )
    return words.capital(f"{scenario['description']}{case}: {words.workers(fall['workers'])}")


def sentence(document: dict, fall: dict) -> str:
    """The whole, and the last step, in a sentence."""
    about = words.metric_of("throughput")
    chain = rows(document, fall)
    end = words.contestant(scenario_of(document, fall), fall["steps"][-1]["contestant"])
    start = words.contestant(scenario_of(document, fall), fall["start"]["contestant"])
    against = "torch's DataLoader with processes"
    if start["variant"] != TODAY:
        against = words.describe(scenario_of(document, fall), start["key"], with_case=False)
    who = {"ft": "threads without the GIL", "ft-gil": "threads in the free-threaded build, GIL on"}
    text = (
        f"{fall['workload']}: {who.get(end['config'], 'threads with the GIL')} against {against}: "
        f"{chain[-1].throughput}, {about.write(chain[-1].value)} against "
        f"{about.write(chain[0].value)} samples/s"
    )
    last = fall["steps"][-1]
    if last["name"] == REMOVED:  # and nothing else besides, which could not be measured on the way
        more = words.settles(scenario_of(document, fall), last)
        text += f"; removing the GIL by itself: {words.outcome(about, last)}{f' ({more})' if more else ''}"
    return text + "."


def ends(document: dict, fall: dict) -> str:
    """Memory and first batch at both ends, and the CPU time."""
    parts = []
    cpu = fall[CPU]
    about = words.metric_of(CPU)
    parts.append(
        f"CPU time for 1,000 samples {about.write(cpu['start']['value'])} s to {about.write(cpu['end'])} s, "
        f"{words.outcome(about, cpu['total'])}"
    )
    for name, (start, end) in fall["ends"].items():
        metric = words.metric_of(name)
        parts.append(f"{metric.noun} {metric.write(start)} {metric.unit} to {metric.write(end)} {metric.unit}")
    return "From first to last: " + "; ".join(parts) + "."


def missing(fall: dict) -> str:
    """Which steps could not be measured, "" if all were."""
    if not fall["missing"]:
        return ""
    parts = ", ".join(words.CONFIG_TITLES.get(each, each) for each in fall["missing"])
    return f"Missing here: {parts}. The steps that need them are not in this chain."


def advice(document: dict, fall: dict) -> tuple[str, str]:
    """The best measured setting of a workload in words, and the line of code for it."""
    scenario = scenario_of(document, fall)
    titles = {c["key"]: c for c in scenario["contestants"]}
    measured = [
        (typical_of(scenario, c["key"], "throughput"), titles[c["key"]])
        for c in scenario["analysis"]["contestants"]
        if titles[c["key"]]["case"] == fall["case"]
    ]
    # The free-threaded build with its GIL on is there to be compared, not to be used.
    best, who = max(
        (each for each in measured if each[1]["config"] != "ft-gil"), key=lambda each: each[0], default=measured[0]
    )
    python = {
        "gil": "ordinary Python (gil)",
        "ft": "free-threaded Python (ft)",
        "ft-gil": "free-threaded Python, GIL on",
    }
    text = (
        f"Best measured here for {fall['workload']}: {words.workers_of(who['variant'])} in {python[who['config']]}, "
        f"num_workers={who['workers']} ({best:.0f} samples/s)."
    )
    ours = who["variant"].startswith("loader")
    method = f', worker_method="{"process" if VARIANTS[who["variant"]].processes else "thread"}"' if ours else ""
    return text, (
        f"from {'ftloader' if ours else 'torch.utils.data'} import DataLoader; "
        f"DataLoader(dataset, batch_size={scenario['batch_size']}, num_workers={who['workers']}{method})"
    )
