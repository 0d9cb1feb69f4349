"""The parts of a merge, each one waterfall of one run:
what has to be equal, and what may differ.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ftbench.compare.identity import identity
from ftbench.compare.waterfalls import ComparableWaterfall, Incomparable, case_of, waterfalls
from ftbench.document.model import MeasuredScenario, Results, Waterfall
from ftbench.merge.collect import Found, listed
from ftbench.merge.model import Machine
from ftbench.plan.candidates import VARIANTS
from ftbench.plan.scenario import OWN
from ftbench.report import run_words, verdict_words
from ftbench.stats.analysis import Analysis, analyse
from ftrun import host

# Packages with which scenarios load and decode. A user's dataset may use any package.
LOADING = {"torch", "numpy", "pillow", "nvidia-nvimgcodec-cu12"}.union(
    *(variant.packages for variant in VARIANTS.values())
)
# Titles of a run's identity that have to be equal, and those that are named where they differ.
EQUAL = "sources of loader and bench", "--quick", "--configs", "--requirements", "--workers"
NAMED = "--budget", "--rounds", "--precision"
ALIKE = 1.05
"""Largest ratio of memory within a kind, from one machine to the next: kernels keep some of it."""


class Hardware(NamedTuple):
    """Hardware of a machine. It is equal in all machines of one kind, but for some memory."""

    processor: str
    gpus: str
    memory: int
    """In bytes."""


@dataclass(frozen=True)
class Part:
    """One waterfall of one run."""

    machine: Machine
    hardware: Hardware
    measured: ComparableWaterfall
    candidates: str
    """The last and the first candidate in words: "threads without the GIL against ..."."""
    setting: dict[str, str]
    """{title: words} of what has to be equal in runs that are merged: software and work."""
    options: dict[str, str]
    """{title: words} of what may differ between runs that are merged, and is named then."""
    disturbed: str
    """The number of rounds that other load disturbed, in words; empty if there were none."""
    warnings: Sequence[str]

    @property
    def place(self) -> tuple[str, str]:
        """The names of the waterfall's scenario and case."""
        return self.measured.waterfall.scenario, self.measured.waterfall.case


def parts(run_found: Found) -> Iterator[Part | Incomparable]:
    """Yield the waterfalls of a run, or the reasons why they, or the run, cannot be merged."""
    if isinstance(run_found.results, Incomparable):
        yield run_found.results
        return
    run = analyse(run_found.results)
    if run.others:
        names = ", ".join(scenario.record.name for scenario in run.others)
        yield Incomparable(
            f"{names}: without a waterfall; `compare` puts two such runs side by side"
        )
    for measured in waterfalls(run):
        yield measured if isinstance(measured, Incomparable) else _part(run_found, run, measured)


def _part(found: Found, run: Analysis, measured: ComparableWaterfall) -> Part:
    results, fall, facts = run.results, measured.waterfall, identity(run.results)
    scenario = run.scenario(fall.scenario)
    disturbed = sum(bool(run_words.marked(measured_round)) for measured_round in scenario.rounds)
    path, revision = host.path(str(found.path)), run_words.revision(results)
    return Part(
        machine=Machine(found.name, path, revision, fall, 0.0),
        hardware=_hardware(results),
        measured=measured,
        candidates=verdict_words.last_against_first(run, fall),
        setting={
            **measured.workload,
            **_setting(results, facts, scenario, fall),
            **_software(facts, scenario),
        },
        options={
            "the number of workers": str(fall.workers),
            "the number of turns": str(case_of(scenario, fall).load.turns),
            **{title: facts[title] for title in NAMED},
        },
        disturbed=f"{disturbed} of {run_words.rounds(scenario)}" if disturbed else "",
        warnings=results.warnings,
    )


def _setting(
    results: Results, facts: Mapping[str, str], scenario: MeasuredScenario, fall: Waterfall
) -> dict[str, str]:
    usable = max(1, run_words.usable(results) // (scenario.ranks or 1))
    # Machines that differ in their CPUs have other numbers of workers, but the same words.
    most = fall.workers == max(results.options.workers or [usable])
    containers = {twin.os.container or "none": None for twin in results.environment.twins.values()}
    return {title: facts[title] for title in EQUAL} | {
        "container": ", ".join(containers),
        "workers of the waterfall": "the most" if most else str(fall.workers),
    }


def _software(facts: Mapping[str, str], scenario: MeasuredScenario) -> dict[str, str]:
    """Return the facts on each twin's Python and packages, as far as they matter."""
    software = {}
    for title, words in facts.items():
        _, of_twin, name = title.partition(": ")
        loads = name in LOADING or name.startswith(("Python", "MIMALLOC"))
        if of_twin and (loads or scenario.name == OWN):
            software[title] = words
    return software


def _hardware(results: Results) -> Hardware:
    """Return the hardware of a run, as the record of the run's first twin describes it."""
    twin, usable = next(iter(results.environment.twins.values())), run_words.usable(results)
    cpus = run_words.count(twin.cpu.count, "CPU")
    if usable != twin.cpu.count:
        cpus = f"{usable} of {cpus}"
    gpus = Counter(twin.gpu.devices)
    names = [f"{number} x {name}" if number > 1 else name for name, number in gpus.items()]
    processor = f"{twin.cpu.model or 'unknown processor'}, {cpus}"
    return Hardware(processor, ", ".join(names), twin.memory.total)


def kinds(machines: Iterable[Hardware]) -> dict[Hardware, str]:
    """Return {hardware: name of its kind}, such as "AMD EPYC, 2 CPUs, 24 GiB"."""
    names: dict[Hardware, str] = {}
    before = Hardware("", "", 0)
    for machine in sorted(set(machines)):
        if machine[:-1] == before[:-1] and machine.memory <= ALIKE * before.memory:
            names[machine] = names[before]
        else:
            gib = machine.memory / 2**30
            memory = f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"
            names[machine] = ", ".join(filter(None, (machine.processor, memory, machine.gpus)))
        before = machine
    return names


def notes(groups: Iterable[Sequence[Part]]) -> list[str]:
    """Return notes that name runs: options that differ in a group, disturbed rounds, warnings."""
    texts, warned = list[str](), dict[str, list[str]]()
    for group in groups:
        workload = group[0].measured.waterfall.workload
        for title in group[0].options:
            runs: dict[str, list[str]] = {}
            for part in group:
                runs.setdefault(part.options[title], []).append(part.machine.run)
            if len(runs) > 1:
                largest_first = sorted(runs.items(), key=lambda item: -len(item[1]))
                values = "; ".join(f"{value} in {listed(names)}" for value, names in largest_first)
                texts.append(f"{workload}: {title} differs: {values}")
        disturbed = [f"{part.machine.run} ({part.disturbed})" for part in group if part.disturbed]
        if disturbed:
            texts.append(f"{workload}: other load disturbed {listed(disturbed)}")
        for part in group:
            for warning in part.warnings:
                warned.setdefault(warning, []).append(part.machine.run)
    for warning, names in warned.items():
        texts.append(f"warning of {listed([*dict.fromkeys(names)])}: {warning}")
    return texts
