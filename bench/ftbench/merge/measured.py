"""The data that a merge takes from one run: the run's machine, and the effects in each of the run's waterfalls."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ftbench.document.model import MeasuredCase, Results, Scenario, Verdict, Waterfall
from ftbench.merge.collect import Unusable
from ftbench.plan.candidates import VARIANTS
from ftbench.plan.scenario import OWN
from ftbench.report import compare, run_words, verdict_words
from ftbench.stats import turns
from ftbench.stats.analysis import AnalysedScenario, Analysis, analyse
from ftbench.stats.comparisons import CPU
from ftbench.stats.statistics import FEWEST_ROUNDS, logarithms, spread

# Packages with which scenarios load and decode. A user's dataset may use any package.
LOADING = {"torch", "numpy", "pillow", "nvidia-nvimgcodec-cu12", *(p for v in VARIANTS.values() for p in v.packages)}


class Machine(NamedTuple):
    """Hardware of a machine. It is equal in all machines of one kind, but memory may differ a little (kinds.ALIKE)."""

    model: str
    cpus: int
    usable: int
    gpus: tuple[str, ...]
    memory: int
    """In bytes."""


class Figure(NamedTuple):
    """Logarithm of a ratio or throughput over the rounds: its mean, variance between rounds, and number of rounds."""

    mean: float
    variance: float
    degrees: int
    """Degrees of freedom of the variance."""
    rounds: int


@dataclass(frozen=True)
class Measured:
    """One waterfall of one run, as logarithms of ratios."""

    run: str
    machine: Machine
    fall: Waterfall
    contestants: str
    """The first and the last candidate in words: "threads without the GIL against ..."."""
    sides: tuple[str, ...]
    """"configuration/variant" of the first candidate, and of the candidate after each step."""
    steps: dict[str, Figure]
    """The change in throughput by the name of the step."""
    total: Figure
    cpu: Figure
    """The total change in CPU time for 1,000 samples."""
    speed: Figure
    """The machine's speed: the mean logarithm of the throughput of all candidates of the waterfall."""
    setting: tuple[tuple[str, str], ...]
    """Pairs (title, words) of what has to be equal in all runs that are merged: software and work."""
    named: dict[str, str]
    """{title: words} of what may differ between runs that are merged, and is named then."""
    disturbed: str
    """The number of rounds that other load disturbed, in words; empty if there were none."""
    warnings: tuple[str, ...]
    """The warnings of the run."""


def machine(results: Results) -> Machine:
    """Return the machine of a run, as the record of the run's first twin describes it."""
    first = next(iter(results.environment.twins.values()))
    return Machine(
        first.cpu.model, first.cpu.count, run_words.usable(results), tuple(first.gpu.devices), first.memory.total
    )


def measured(name: str, results: Results) -> Iterator[Measured | Unusable]:
    """Yield the waterfalls of the run called *name*, or the reasons why they cannot be merged."""
    run = analyse(results)
    if others := run.others:
        what = ", ".join(scenario.name for scenario in others)
        yield Unusable(f"{what}: without a waterfall; `compare` puts two such runs side by side")
    for fall in run.waterfalls:
        scenario = run.scenario(fall.scenario)
        if len(scenario.rounds) < FEWEST_ROUNDS:
            yield Unusable(f"{fall.workload}: {run_words.rounds(scenario)}, and {FEWEST_ROUNDS} are needed")
        elif fall.total.verdict == Verdict.OTHER_SAMPLES or any(
            step.verdict == Verdict.OTHER_SAMPLES for step in fall.steps
        ):
            yield Unusable(f"{fall.workload}: candidates of this run loaded different samples")
        else:
            yield _measured(name, run, scenario, fall)


def _measured(name: str, run: Analysis, scenario: AnalysedScenario, fall: Waterfall) -> Measured:
    chain = [fall.start.candidate, *(step.candidate for step in fall.steps)]
    values = {key: scenario.in_each_process(key, "throughput") for key in chain}
    cpu = [scenario.in_each_process(key, CPU) for key in (chain[-1], chain[0])]

    def throughput(key: str, other: str) -> Figure:
        return _figure(logarithms(values[key], values[other]), turns.predicted(scenario, "throughput", key, other))

    return Measured(
        run=name,
        machine=machine(run.results),
        fall=fall,
        contestants=verdict_words.contestants(run, fall),
        sides=tuple(key.rpartition("/")[0] for key in chain),
        steps={
            step.name: throughput(after, before)
            for step, before, after in zip(fall.steps, chain, chain[1:], strict=False)
        },
        total=throughput(chain[-1], chain[0]),
        cpu=_figure(logarithms(*cpu)),
        speed=_figure([fmean(map(math.log, one)) for one in zip(*values.values(), strict=True)]),
        setting=_setting(run, scenario, fall),
        named=_named(run, scenario, fall),
        disturbed=f"{disturbed} of {run_words.rounds(scenario)}" if (disturbed := _disturbed(scenario)) else "",
        warnings=tuple(run.results.warnings),
    )


def _figure(logs: Sequence[float], predicted: turns.Predicted | None = None) -> Figure:
    return Figure(fmean(logs), *spread(logs, predicted), len(logs))


def _setting(run: Analysis, scenario: AnalysedScenario, fall: Waterfall) -> tuple[tuple[str, str], ...]:
    results, options = run.results, run.results.options
    chain = [fall.start.candidate, *(step.candidate for step in fall.steps)]
    found = {
        **compare.work(results, scenario, _case(scenario, fall)),
        "sources of loader and bench": results.environment.source[:12],
        **_software(results, scenario.name == OWN),
        "--requirements": ", ".join(options.requirements) or "none",
        "kind of run": "quick" if options.quick else "full",
        "container": ", ".join(
            dict.fromkeys(twin.os.container or "none" for twin in results.environment.twins.values())
        ),
        "configurations": ", ".join(dict.fromkeys(key.partition("/")[0] for key in chain)),
        "--workers": ", ".join(map(str, options.workers or ())) or "as many as CPUs",
        "workers of the waterfall": _workers(run, scenario, fall),
        "first candidate": fall.start.name,
        "changes": "; then ".join(step.name for step in fall.steps),
        "first samples": _checksums(scenario, fall),
    }
    return tuple((title, "none" if value is None else str(value)) for title, value in found.items())


def _case(scenario: AnalysedScenario, fall: Waterfall) -> MeasuredCase | Scenario:
    return next((case for case in scenario.cases if case.name == fall.case), scenario)


def _workers(run: Analysis, scenario: AnalysedScenario, fall: Waterfall) -> str:
    """Return the number of workers of a waterfall in words; the same words for machines that differ in their CPUs."""
    usual = run.results.options.workers or [max(1, run_words.usable(run.results) // (scenario.ranks or 1))]
    return "the most" if fall.workers == max(usual) else str(fall.workers)


def _named(run: Analysis, scenario: AnalysedScenario, fall: Waterfall) -> dict[str, str]:
    options = run.results.options
    return {
        "the number of workers": str(fall.workers),
        "the number of turns": str(_case(scenario, fall).load.turns),
        "--budget": f"{options.budget:g} s",
        "--rounds": str(options.rounds or "as many as fit"),
        "--precision": f"{100 * options.precision:g}%",
    }


def _disturbed(scenario: AnalysedScenario) -> int:
    return sum(bool(run_words.marked(one)) for one in scenario.rounds)


def _software(results: Results, everything: bool) -> dict[str, str]:
    """Return {title: version} of Python and of all packages, or if not *everything*, only of the packages LOADING."""
    found: dict[str, dict[str, str]] = {}
    for name, twin in results.environment.twins.items():
        values = compare.python(twin.interpreter)
        values |= {each: version for each, version in sorted(twin.packages.items()) if everything or each in LOADING}
        for title, value in values.items():
            if title not in compare.OURS:
                found.setdefault(title, {})[name] = value
    several = len(results.environment.twins)
    return {
        title: value
        if len(of) == several and len({*of.values()}) == 1
        else ", ".join(f"{each} in {twin}" for twin, each in of.items())
        for title, of in found.items()
        for value in [next(iter(of.values()))]
    }


def _checksums(scenario: AnalysedScenario, fall: Waterfall) -> str:
    """Return checksums of a waterfall's first batches, or "different in each round" if the rounds do not agree."""
    found = {(trial.first_batch, *trial.rows[:1]) for trial in scenario.trials_of(fall.start.candidate)}
    return " and ".join(f"{each or 0:08x}" for each in found.pop()) if len(found) == 1 else "different in each round"
