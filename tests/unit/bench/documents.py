"""Records of more kinds of runs than one short run gives, grown from that of a real run.

The figures are drawn from known distributions; plan.comparisons and stats.statistics choose and
compare, as in a run.
"""

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from ftbench.document import model
from ftbench.measure import epochs
from ftbench.plan.candidates import CONFIGS, Candidate
from ftbench.plan.case import Case
from ftbench.plan.comparisons import ComparisonPlan, grid
from ftbench.plan.waterfall import COPIES, THREADS, WaterfallPlan
from ftbench.stats.analysis import analyse
from tests.hostile_text import HOSTILE_TEXTS
from tests.unit.bench import simulated

ROUNDS = 5
SIZES = tuple(Case(f"{kib}-KiB", f"{kib} KiB samples", value=kib * 1024) for kib in (64, 512, 4096))
WORK = (Case("decode", "decode only"), Case("resize", "decode and resize"))
# What each configuration and variant makes of a scenario, against processes in the GIL build.
SPEED = {
    ("ft", "loader-thread"): 2.0,
    ("ft-gil", "loader-thread"): 0.8,
    ("gil", "loader-thread"): 1.0,
}


def throughput(candidate: Candidate) -> float:
    """Samples per second without noise: threads without the GIL are twice
    as fast as processes with it.
    """
    return (
        500
        * max(1, candidate.workers) ** 0.8
        * SPEED.get((candidate.config, candidate.variant), 1.0)
    )


def scenario(
    like: model.MeasuredScenario,
    name: str,
    cases: Sequence[Case] = (),
    axis: str = "",
    unit: str = "",
    workers: Sequence[int] = (1, 2),
    metrics: Sequence[str] = ("throughput", "memory_mib"),
    kept: Callable[[Candidate, random.Random], dict] | None = None,
    value: Callable[[Candidate], float] = throughput,
    noise: float = 0.01,
    plan: ComparisonPlan | None = None,
) -> model.MeasuredScenario:
    """A scenario of all candidates; the metrics beyond the first are about memory."""
    draw = random.Random(name)
    plan = plan or grid(tuple(cases))
    candidates = [c for _, c in plan.ranked(CONFIGS, workers, quick=False)]
    rounds = []
    for number in range(1, ROUNDS + 1):
        trials = []
        for c in candidates:
            found = {
                metric: (value(c) if place == 0 else 300.0) * draw.lognormvariate(0, noise)
                for place, metric in enumerate(metrics)
            }
            trials.append(simulated.trial(c, found, distributions=kept(c, draw) if kept else {}))
        rounds.append(model.Round(number, 10.0, trials, simulated.quiet()))
    return replace(
        like,
        name=name,
        question=f"What does {name} answer?",
        case_axis=axis,
        case_unit=unit,
        metrics=list(metrics),
        cases=[
            model.MeasuredCase(
                name=c.name, title=c.title, parameters={}, value=c.value, load=replace(like.load)
            )
            for c in cases
        ],
        candidates=candidates,
        pairs=plan.pairs(candidates),
        rounds=rounds,
    )


def with_copies(like: model.MeasuredScenario, gain: float) -> model.MeasuredScenario:
    """A chain, and threads with a copy of the dataset each, which are *gain* times as fast."""

    def value(candidate: Candidate) -> float:
        if candidate.variant == COPIES:
            return gain * throughput(replace(candidate, variant=THREADS))
        return throughput(candidate)

    plan = WaterfallPlan(copies=True)
    return scenario(like, "chain", metrics=epochs.METRICS, value=value, plan=plan)


def many(document: model.Results) -> model.Results:
    """The run's document with a scenario of each kind:
    cases on an axis or by name, workers, a chain.
    """
    grown = copy.deepcopy(document)
    like = grown.scenarios[0]
    grown.scenarios += [
        scenario(like, "sizes", SIZES, "sample size", "bytes"),
        scenario(like, "kinds", WORK, "work"),
        scenario(like, "workers", workers=(1, 2, 4, 8)),
        scenario(like, "steps", WORK, "work", workers=(2,), metrics=("throughput",)),
        scenario(like, "chain", metrics=epochs.METRICS, plan=WaterfallPlan()),
    ]
    grown.waterfalls = analyse(grown).waterfalls
    return grown


def inside(candidate: Candidate, draw: random.Random) -> dict:
    """What a trial may keep: curves that differ, and one that does not."""
    loaded = [1000.0 * (n + 1) for n in range(20)]
    memory = [300 + 10 * n * candidate.workers * draw.lognormvariate(0, 0.01) for n in range(20)]
    return {
        "memory_mib": {
            "unit": "MiB",
            "values": memory,
            "over": {"title": "samples loaded", "values": loaded},
        },
        "loss": {
            "unit": "nats",
            "values": [1 / n for n in range(1, 31)],
            "over": {"title": "step", "values": list(range(1, 31))},
        },
    }


def with_inside(document: model.Results) -> model.Results:
    grown = copy.deepcopy(document)
    first = grown.scenarios[0]
    grown.scenarios.append(
        scenario(first, "inside", WORK, "work", metrics=("throughput",), kept=inside)
    )
    grown.waterfalls = analyse(grown).waterfalls
    return grown


# What is no text is refused when a document is loaded.
HOSTILE = " ".join(HOSTILE_TEXTS).encode(errors="ignore").decode()


def hostile(document: model.Results) -> model.Results:
    """The run with every string that is free to choose ending in HOSTILE."""
    spoilt = with_stress(document, failing=True)
    part = spoilt.stress
    part.status, part.reason = "incomplete", HOSTILE
    part.scenarios = [name + HOSTILE for name in part.scenarios]
    for result in part.results:
        result.scenario += HOSTILE
        result.known = HOSTILE
        result.failures = [text + HOSTILE for text in result.failures]
    spoilt.reason = spoilt.started = HOSTILE
    spoilt.status, spoilt.warnings, spoilt.skipped = (
        "incomplete",
        [HOSTILE],
        [model.SkippedPart(HOSTILE, HOSTILE)],
    )
    spoilt.options = replace(spoilt.options, data=HOSTILE, out=HOSTILE, scenarios=[HOSTILE])
    spoilt.environment.revision.commit = spoilt.environment.source = HOSTILE
    for twin in spoilt.environment.twins.values():
        for part, names in (
            (
                twin.interpreter,
                ("version", "executable", "build", "config_args", "cflags", "compiler"),
            ),
            (twin.cpu, ("model",)),
            (twin.os, ("name", "kernel", "container")),
            (twin.gpu, ("reason",)),
        ):
            for name in names:
                setattr(part, name, HOSTILE)
        twin.packages = {HOSTILE: HOSTILE}
    for entry in spoilt.scenarios:
        for name in ("name", "description", "question", "note", "case_axis", "case_unit"):
            setattr(entry, name, getattr(entry, name) + HOSTILE)
        entry.load.dataset = replace(entry.load.dataset, source="own", directory=HOSTILE)
        entry.failures = [model.Failure("failed", entry.candidates[0].key, HOSTILE)]
        entry.pairs = [replace(pair, why=HOSTILE) for pair in entry.pairs]
        for case in entry.cases:
            case.title += HOSTILE
        for one in entry.rounds:
            for trial in one.trials:
                for distribution in trial.distributions.values():
                    distribution.unit += HOSTILE
    return spoilt


def with_stress(document: model.Results, failing: bool = False) -> model.Results:
    """The run with an outcome of the thread-safety suite in every configuration, `failing` in the
    last of them.
    """
    grown = copy.deepcopy(document)
    results = [
        model.StressResult(scenario, config, 4, 0, known, 1234, 0.5, [], "passed")
        for config in grown.options.configs
        for scenario, known in (
            ("containers.Slots", ""),
            ("files.SharedZip", "no lock, https://github.com/python/cpython/issues/86535"),
            ("loaders.Left", ""),
        )
    ]
    if failing:
        results[-2] = replace(
            results[-2], failures=["round 7, thread 1:\nBadZipFile"], outcome="failed"
        )
        crashed = {
            "failures": ["crashed: SIGSEGV\nin step"],
            "outcome": "crashed",
            "iterations": None,
        }
        results[-1] = replace(results[-1], **crashed)
    names = ["containers.Slots", "files.SharedZip", "loaders.Left"]
    grown.stress = model.Stress("complete", None, None, 0, "0" * 64, names, results)
    grown.options.stress = True
    return grown
