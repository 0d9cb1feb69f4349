"""results.json documents of more kinds than one short run gives, grown from that of a real run.

The figures are drawn from known distributions; plan.comparisons and stats.statistics choose and compare, as in a run.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict

from ftbench.document.check import seal
from ftbench.measure import epochs
from ftbench.plan.candidates import CONFIGS, Candidate
from ftbench.plan.case import Case
from ftbench.plan.comparisons import ComparisonPlan, grid
from ftbench.plan.waterfall import WaterfallPlan
from ftbench.stats.statistics import adjust, analyse
from ftbench.stats.waterfall import waterfalls
from tests.hostile_text import HOSTILE_TEXTS

ROUNDS = 5
SIZES = tuple(Case(f"{kib}-KiB", f"{kib} KiB samples", value=kib * 1024) for kib in (64, 512, 4096))
WORK = (Case("decode", "decode only"), Case("resize", "decode and resize"))
# What each configuration and variant makes of a scenario, against processes in the GIL build.
SPEED = {("ft", "loader-thread"): 2.0, ("ft-gil", "loader-thread"): 0.8, ("gil", "loader-thread"): 1.0}


def throughput(candidate: Candidate) -> float:
    """Samples per second without noise: threads without the GIL are twice as fast as processes with it."""
    return 500 * candidate.workers**0.8 * SPEED.get((candidate.config, candidate.variant), 1.0)


def scenario(
    like: dict,
    name: str,
    cases: Sequence[Case] = (),
    axis: str = "",
    unit: str = "",
    workers: Sequence[int] = (1, 2),
    metrics: Sequence[str] = ("throughput", "pss_mib"),
    steps: bool = False,
    kept: Callable[[Candidate, random.Random], dict] | None = None,
    value: Callable[[Candidate], float] = throughput,
    noise: float = 0.01,
    plan: ComparisonPlan | None = None,
) -> dict:
    """A scenario's entry of all candidates; the metrics beyond the first are about memory."""
    draw = random.Random(name)
    entry = copy.deepcopy(like)
    shared = {
        key: entry[key]
        for key in ("sample_bytes", "dataset", "batch_size", "requested_batch_size", "batches_per_worker", "turns")
    }
    entry.update(name=name, question=f"What does {name} answer?", case_axis=axis, case_unit=unit, metrics=list(metrics))
    entry["cases"] = [{"name": c.name, "title": c.title, "parameters": {}, "value": c.value, **shared} for c in cases]
    plan = plan or grid(tuple(cases))
    candidates = [c for _, c in plan.ranked(CONFIGS, workers, quick=False)]
    entry["candidates"] = [{"key": c.key, "title": c.title, **asdict(c)} for c in candidates]
    trial, disturbance = entry["rounds"][0]["trials"][0], {**entry["rounds"][0]["disturbance"], "marks": []}
    entry["rounds"] = []
    values: dict[str, dict[str, list[float]]] = {metric: {c.key: [] for c in candidates} for metric in metrics}
    for number in range(1, ROUNDS + 1):
        trials = []
        for c in candidates:
            found = {
                metric: (value(c) if place == 0 else 300.0) * draw.lognormvariate(0, noise)
                for place, metric in enumerate(metrics)
            }
            for metric in metrics:
                values[metric][c.key].append(found[metric])
            inside = (
                {"step-times": {"unit": "ms", "values": [draw.lognormvariate(2, 0.6) for _ in range(50)]}}
                if steps
                else kept(c, draw)
                if kept
                else {}
            )
            trials.append({**trial, "candidate": c.key, "metrics": found, "distributions": inside})
        entry["rounds"].append({"number": number, "seconds": 10.0, "disturbance": disturbance, "trials": trials})
    entry["analysis"] = analyse(
        values,
        plan.pairs(candidates),
        {
            c.key: [
                trial["distributions"]
                for one in entry["rounds"]
                for trial in one["trials"]
                if trial["candidate"] == c.key
            ]
            for c in candidates
        },
    )
    return entry


def finished(document: dict) -> dict:
    """The document with what a run makes of all its scenarios together."""
    adjust(each["analysis"] for each in document["scenarios"])
    document["waterfalls"] = waterfalls(document["scenarios"])
    document["seal"] = seal(document)
    return document


def many(document: dict) -> dict:
    """The run's document with a scenario of each kind: cases on an axis or by name, workers, distributions, a chain."""
    grown = copy.deepcopy(document)
    like = grown["scenarios"][0]
    grown["scenarios"] += [
        scenario(like, "sizes", SIZES, "sample size", "bytes"),
        scenario(like, "kinds", WORK, "work"),
        scenario(like, "workers", workers=(1, 2, 4, 8)),
        scenario(like, "steps", WORK, "work", workers=(2,), metrics=("throughput",), steps=True),
        scenario(like, "chain", metrics=epochs.METRICS, plan=WaterfallPlan()),
    ]
    return finished(grown)


def inside(candidate: Candidate, draw: random.Random) -> dict:
    """What a trial may keep: curves that differ and one that does not, a step with its parts, a single value."""
    load, train = 8.0 / candidate.workers, 5.0
    step = max(load, train) + (0 if candidate.config == "ft" else min(load, train))
    times = {
        name: {"unit": "ms", "values": [value * draw.lognormvariate(0, 0.02) for _ in range(3)]}
        for name, value in (("step", step), ("load", load), ("train", train))
    }
    loaded = [1000.0 * (n + 1) for n in range(20)]
    memory = [300 + 10 * n * candidate.workers * draw.lognormvariate(0, 0.01) for n in range(20)]
    return {
        **times,
        "rate": {"unit": "batches/s", "values": [100.0 * candidate.workers]},
        "pss_mib": {"unit": "MiB", "values": memory, "over": {"title": "samples loaded", "values": loaded}},
        "loss": {
            "unit": "nats",
            "values": [1 / n for n in range(1, 31)],
            "over": {"title": "step", "values": list(range(1, 31))},
        },
    }


def with_inside(document: dict) -> dict:
    """The document with one more scenario, whose trials kept all that."""
    grown = copy.deepcopy(document)
    first = grown["scenarios"][0]
    grown["scenarios"].append(scenario(first, "inside", WORK, "work", metrics=("throughput",), kept=inside))
    return finished(grown)


# What is no text is refused when a document is loaded.
HOSTILE = " ".join(HOSTILE_TEXTS).encode(errors="ignore").decode()


def hostile(document: dict) -> dict:
    """The document with every text that is free to choose ending in HOSTILE."""
    spoilt = with_stress(document, failing=True)
    spoilt["stress"].update(
        status="incomplete", reason=HOSTILE, scenarios=[name + HOSTILE for name in spoilt["stress"]["scenarios"]]
    )
    for result in spoilt["stress"]["results"]:
        result.update(
            scenario=result["scenario"] + HOSTILE,
            known=HOSTILE,
            failures=[text + HOSTILE for text in result["failures"]],
        )
    spoilt.update(
        reason=HOSTILE,
        status="incomplete",
        started=HOSTILE,
        warnings=[HOSTILE],
        skipped=[{"what": HOSTILE, "why": HOSTILE}],
    )
    spoilt["options"].update(data=HOSTILE, out=HOSTILE, scenarios=[HOSTILE])
    spoilt["environment"]["revision"]["commit"] = HOSTILE
    spoilt["environment"]["source"] = HOSTILE
    for twin in spoilt["environment"]["twins"].values():
        for part, names in (
            ("interpreter", ("version", "executable", "build", "config_args", "cflags", "compiler")),
            ("cpu", ("model",)),
            ("os", ("name", "kernel", "container")),
            ("gpu", ("reason",)),
        ):
            twin[part].update(dict.fromkeys(names, HOSTILE))
        twin["packages"] = {HOSTILE: HOSTILE}
    for entry in spoilt["scenarios"]:
        for key in ("name", "description", "sample", "question", "note", "case_axis", "case_unit"):
            entry[key] += HOSTILE
        entry["dataset"].update(source="own", directory=HOSTILE)
        for each in (*entry["cases"], *entry["candidates"], *entry["analysis"]["comparisons"]):
            each["title"] += HOSTILE
        for one in entry["rounds"]:
            for trial in one["trials"]:
                for distribution in trial["distributions"].values():
                    distribution["unit"] += HOSTILE
    spoilt["waterfalls"] = waterfalls(spoilt["scenarios"])
    for fall in spoilt["waterfalls"]:
        for step in (fall["start"], *fall["steps"]):
            step["name"] += HOSTILE
    return spoilt


def with_stress(document: dict, failing: bool = False) -> dict:
    """The document with an outcome of the thread-safety suite in every configuration, `failing` in the last of them."""
    grown = copy.deepcopy(document)
    configs = grown["options"]["configs"]
    results = [
        {
            "scenario": scenario,
            "configuration": config,
            "threads": 4,
            "seed": 0,
            "known": known,
            "iterations": 1234,
            "seconds": 0.5,
            "failures": [],
            "outcome": "passed",
        }
        for config in configs
        for scenario, known in (
            ("containers.Slots", ""),
            ("files.SharedZip", "no lock, https://github.com/python/cpython/issues/86535"),
            ("loaders.Left", ""),
        )
    ]
    if failing:
        results[-2].update(failures=["round 7, thread 1:\nBadZipFile"], outcome="failed")
        results[-1].update(failures=["crashed: SIGSEGV\nin step"], outcome="crashed", iterations=None)
    grown["stress"] = {
        "status": "complete",
        "reason": None,
        "minutes": None,
        "seed": 0,
        "source": "0" * 64,
        "scenarios": ["containers.Slots", "files.SharedZip", "loaders.Left"],
        "results": results,
    }
    grown["options"].update(stress=True, stress_minutes=None)
    grown["seal"] = seal(grown)
    return grown
