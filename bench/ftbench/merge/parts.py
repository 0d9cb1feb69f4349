"""The parts of a merge, each one waterfall of one run:
what has to be equal, and what may differ.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ftbench.compare.identity import identity
from ftbench.compare.waterfalls import ComparableWaterfall, Incomparable, case_of, waterfalls
from ftbench.document.model import MeasuredScenario, Results, Waterfall
from ftbench.merge.collect import CollectedRun, listed
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

    @property
    def name(self) -> str:
        """The hardware in words: "AMD EPYC, 2 CPUs, 24 GiB"."""
        gib = self.memory / 2**30
        memory = f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"
        return ", ".join(filter(None, (self.processor, memory, self.gpus)))

    def is_like(self, smaller: "Hardware") -> bool:
        """True if this is of the kind of a machine with as much memory or less."""
        if (self.processor, self.gpus) != (smaller.processor, smaller.gpus):
            return False
        return self.memory <= ALIKE * smaller.memory


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


def parts(run: CollectedRun) -> Iterator[Part | Incomparable]:
    """Yield the waterfalls of a run, or the reasons why they, or the run, cannot be merged."""
    if isinstance(run.results, Incomparable):
        yield run.results
        return
    analysis = analyse(run.results)
    if analysis.others:
        names = ", ".join(scenario.record.name for scenario in analysis.others)
        yield Incomparable(
            f"{names}: without a waterfall; `compare` puts two such runs side by side"
        )
    for measured in waterfalls(analysis):
        if isinstance(measured, Incomparable):
            yield measured
        else:
            yield _part(run, analysis, measured)


def _part(run: CollectedRun, analysis: Analysis, measured: ComparableWaterfall) -> Part:
    results = analysis.results
    fall = measured.waterfall
    scenario = analysis.scenario(fall.scenario)
    facts = identity(results)
    machine = Machine(
        run=run.name,
        path=host.path(str(run.path)),
        revision=run_words.revision(results),
        waterfall=fall,
        speed=1.0,
    )
    return Part(
        machine=machine,
        hardware=_hardware(results),
        measured=measured,
        candidates=verdict_words.last_against_first(analysis, fall),
        setting={
            **measured.workload,
            **_setting(results, facts, scenario, fall),
            **_software(facts, scenario),
        },
        options=_options(facts, scenario, fall),
        disturbed=_disturbed(scenario),
        warnings=results.warnings,
    )


def _setting(
    results: Results, facts: Mapping[str, str], scenario: MeasuredScenario, fall: Waterfall
) -> dict[str, str]:
    usable = max(1, run_words.usable(results) // (scenario.ranks or 1))
    most = max(results.options.workers or [usable])
    workers = str(fall.workers)
    if fall.workers == most:
        # Machines that differ in their CPUs have other numbers of workers, but the same words.
        workers = "the most"
    containers: dict[str, None] = {}
    for twin in results.environment.twins.values():
        containers[twin.os.container or "none"] = None
    setting = {title: facts[title] for title in EQUAL}
    setting["container"] = ", ".join(containers)
    setting["workers of the waterfall"] = workers
    return setting


def _options(
    facts: Mapping[str, str], scenario: MeasuredScenario, fall: Waterfall
) -> dict[str, str]:
    options = {
        "the number of workers": str(fall.workers),
        "the number of turns": str(case_of(scenario, fall).load.turns),
    }
    for title in NAMED:
        options[title] = facts[title]
    return options


def _disturbed(scenario: MeasuredScenario) -> str:
    """Return the number of disturbed rounds in words; "" for none."""
    number = len([*filter(run_words.marked, scenario.rounds)])
    return f"{number} of {run_words.rounds(scenario)}" if number else ""


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
    twin = next(iter(results.environment.twins.values()))
    usable = run_words.usable(results)
    cpus = run_words.count(twin.cpu.count, "CPU")
    if usable != twin.cpu.count:
        cpus = f"{usable} of {cpus}"
    gpus = []
    for name, number in Counter(twin.gpu.devices).items():
        gpus.append(f"{number} x {name}" if number > 1 else name)
    processor = f"{twin.cpu.model or 'unknown processor'}, {cpus}"
    return Hardware(processor, ", ".join(gpus), twin.memory.total)


def kind_names(groups: Iterable[Sequence[Part]]) -> dict[Hardware, str]:
    """Return {hardware: name of its kind}, such as "AMD EPYC, 2 CPUs, 24 GiB"."""
    machines: set[Hardware] = set()
    for group in groups:
        machines.update(part.hardware for part in group)
    names: dict[Hardware, str] = {}
    before = Hardware("", "", 0)
    for machine in sorted(machines):
        names[machine] = names[before] if machine.is_like(before) else machine.name
        before = machine
    return names


def notes(groups: Iterable[Sequence[Part]]) -> list[str]:
    """Return notes that name runs: options that differ in a group, disturbed rounds, warnings."""
    texts = []
    # The runs of each warning, each once.
    warned: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        workload = group[0].measured.waterfall.workload
        for words in (*_differing_options(group), *_disturbed_runs(group)):
            texts.append(f"{workload}: {words}")
        for part in group:
            for warning in part.warnings:
                warned[warning][part.machine.run] = None
    for warning, runs in warned.items():
        texts.append(f"warning of {listed([*runs])}: {warning}")
    return texts


def _differing_options(group: Sequence[Part]) -> Iterator[str]:
    for title in group[0].options:
        runs: defaultdict[str, list[str]] = defaultdict(list)
        for part in group:
            runs[part.options[title]].append(part.machine.run)
        if len(runs) > 1:
            values = []
            for value in sorted(runs, key=lambda value: -len(runs[value])):
                values.append(f"{value} in {listed(runs[value])}")
            yield f"{title} differs: {'; '.join(values)}"


def _disturbed_runs(group: Sequence[Part]) -> Iterator[str]:
    disturbed = [f"{part.machine.run} ({part.disturbed})" for part in group if part.disturbed]
    if disturbed:
        yield f"other load disturbed {listed(disturbed)}"
