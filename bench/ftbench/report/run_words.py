"""The wording of facts about a run: candidates, machine, rounds,
failures. (verdict_words has the verdicts.)
"""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import replace

from ftbench.document.model import Dataset, Failure, Load, MeasuredScenario, Results, Round
from ftbench.machine.disturbance import marks
from ftbench.plan.candidates import Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.unit import RUN, Unit
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import MeasuredComparison
from ftbench.stats.turns import ENOUGH_TURNS, UNSEEN, too_few_of_all
from ftrun.configurations import CONFIGURATIONS

# What the short names of the configurations mean.
CONFIGURATION_WORDS = {
    "gil": "Python with the GIL",
    "ft-gil": "free-threaded Python, its GIL forced on",
    "ft": "free-threaded Python, without the GIL",
}
# The number of disturbed rounds that are listed one by one.
MOST_ROUNDS = 5


def capital(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def opening(unit: Unit, sentence: str) -> str:
    """Return a sentence that begins with a scenario's work: a command line stays as it is typed."""
    return sentence if unit is RUN else capital(sentence)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 round", "5 rounds"."""
    ending = "" if number == 1 else "s"
    return f"{number} {noun}{ending}"


def join(*parts: str, separator: str = ", ") -> str:
    """Join the parts that are not empty."""
    return separator.join(filter(None, parts))


def slug(name: str) -> str:
    """Convert a name to one that has only a-z, 0-9 and dashes, for ids and file names."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def subject(run: Analysis) -> str:
    """Return the subject of a run, for its headings.
    Removing the GIL is the subject of waterfalls.
    """
    if run.results.options.command:
        return f"What removing the GIL does to {run.results.scenarios[0].description}"
    if run.waterfalls:
        return "What removing the GIL does to data loading"
    return "Data loading by threads and processes"


def label(config: str, variant: str) -> str:
    """Return the name of a curve in a chart's legend: "free-threaded, GIL on: loader threads"."""
    return f"{CONFIGURATIONS[config].short}: {plural(variant)}"


def title(scenario: MeasuredScenario, a: Candidate, b: Candidate, with_case: bool = False) -> str:
    """Return a comparison's title: "ft loader threads / gil loader processes,
    x2". Shared parts are named once.
    """
    loader_a, loader_b = _loader(a), _loader(b)
    case_a, case_b = case_title(scenario, a.case), case_title(scenario, b.case)
    case = f", {case_a}" if a.case and with_case else ""
    if (a.workers, a.case) == (b.workers, b.case):
        return f"{loader_a} / {loader_b}{_times(', ', a)}{case}"
    if loader_a == loader_b and a.case == b.case:
        return f"{loader_a}: {workers(a.workers)} / {workers(b.workers)}{case}"
    if loader_a == loader_b and a.workers == b.workers:
        return f"{loader_a} x{a.workers}: {case_a} / {case_b}"
    return f"{full_title(scenario, a)} / {full_title(scenario, b)}"


def _loader(candidate: Candidate) -> str:
    return f"{candidate.config} {plural(candidate.variant)}"


def _times(separator: str, candidate: Candidate) -> str:
    """Return a candidate's number of workers after a separator: " x2"; "" if it has none."""
    return f"{separator}x{candidate.workers}" if candidate.workers else ""


def title_with_why(scenario: MeasuredScenario, c: MeasuredComparison) -> str:
    """Return the title of a comparison, with its case,
    and its subject (MeasuredComparison.why) after a colon.
    """
    compared = title(scenario, c.numerator, c.denominator, with_case=True)
    return join(compared, c.why, separator=": ")


def case_title(scenario: MeasuredScenario, name: str) -> str:
    """Return the title of the case with this name; "" if the scenario has no cases."""
    return next((case.title for case in scenario.cases if case.name == name), name)


def own_title(c: Candidate) -> str:
    """Return a candidate's title without the name of its case: "ft loader threads x2"."""
    return replace(c, case="").title


def full_title(scenario: MeasuredScenario, candidate: Candidate) -> str:
    """Return a candidate's title with the title of its case."""
    return join(own_title(candidate), case_title(scenario, candidate.case))


def workers(number: int) -> str:
    """Return a number of workers in words: "1 worker", "no workers"."""
    return count(number, "worker") if number else "no workers"


def each_with(scenario: MeasuredScenario, number: int) -> str:
    """Return *number* workers in words, with the ranks if there are several:
    "2 ranks of 1 worker each".
    """
    if scenario.ranks:
        return f"{scenario.ranks} ranks of {workers(number)} each"
    return workers(number)


def describe(
    scenario: MeasuredScenario, c: Candidate, with_workers: bool = False, with_case: bool = True
) -> str:
    """Return a candidate in words: "loader threads in the free-threaded build"."""
    number = _times(" ", c) if with_workers else ""
    words = f"{plural(c.variant)}{number} in the {CONFIGURATIONS[c.config].title}"
    case = case_title(scenario, c.case) if with_case else ""
    return f"{words} ({case})" if case else words


def configurations(names: Iterable[str]) -> dict[str, str]:
    """Return {short name: its meaning} of the configurations with these names."""
    measured = {*names}
    return {name: words for name, words in CONFIGURATION_WORDS.items() if name in measured}


def state(results: Results) -> str | None:
    """Return a sentence that says why the run is incomplete; None if the run is complete."""
    if results.status == "complete":
        return None
    rounds = sum(len(s.rounds) for s in results.scenarios)
    return f"INCOMPLETE: {results.reason}; {count(rounds, 'finished round')} reported"


def builds(results: Results) -> list[str]:
    """Return one line about each Python interpreter that was measured."""
    lines = []
    for twin, e in results.environment.twins.items():
        python = e.interpreter
        kind = "free-threaded" if python.free_threaded else "with the GIL"
        lines.append(f"{twin}: Python {python.version} {kind}, {python.build}, {python.compiler}")
    return lines


def usable(results: Results) -> int:
    """Return the number of CPUs that a run could use."""
    return min(twin.cpu.usable for twin in results.environment.twins.values())


def machine(results: Results) -> str:
    """Return a line about the machine: processor, memory and system, as the first interpreter of
    the run saw them.
    """
    twin = next(iter(results.environment.twins.values()))
    system, memory = twin.os, twin.memory.total / 2**30
    cpus = f"{twin.cpu.model}, {usable(results)} of {twin.cpu.count} CPUs usable"
    container = f"{system.container or 'no'} container"
    return f"{cpus}, {memory:.0f} GiB, {system.name}, Linux {system.kernel}, {container}"


def revision(results: Results) -> str:
    """Return the commit of the sources, abbreviated,
    with a note if the checkout had uncommitted changes.
    """
    revision = results.environment.revision
    changes = " with changes" if revision.dirty else ""
    return revision.commit[:12] + changes


def work(scenario: MeasuredScenario) -> str:
    """Return a line about a scenario's work: description,
    cases (or batches if it has no cases), files, rounds.
    """
    ranks = ""
    if scenario.ranks:
        ranks = (
            f"{scenario.ranks} ranks, each a process with its own loader, workers and share of "
            f"the batches"
        )
    batches = _batches(scenario.load)
    if scenario.unit is RUN:
        batches = f"{count(scenario.load.turns, 'run')} in a trial"
    if scenario.cases:
        batches = f"{scenario.case_axis}: {' · '.join(case.title for case in scenario.cases)}"
    files = _files(scenario.load.dataset)
    return join(scenario.description, ranks, batches, files, rounds(scenario), separator="; ")


def _batches(load: Load) -> str:
    """Return the size and number of a trial's batches in words."""
    batches = f"batches of {load.batch_size}, {load.batches_per_worker} for each worker in a"
    if load.turns > 1:
        return f"{batches} turn, {load.turns} turns in a trial"
    return f"{batches} trial"


def _files(data: Dataset) -> str:
    """Return the number, source and mean size of a dataset's files in words; "" if it has none."""
    if data.source == "none":
        return ""
    source = f"{data.kind} of {data.directory}"
    if data.source == "generated":
        source = f"generated {data.kind}"
    return f"{data.files} {source}, {data.mean_bytes / 1000:.0f} kB on average"


def rounds(scenario: MeasuredScenario) -> str:
    """Return a scenario's number of rounds in words: "5 rounds"."""
    return count(len(scenario.rounds), "round")


def marked(measured: Round) -> list[str]:
    """Return the disturbances of a round in words; an empty list if there were none."""
    return marks(measured.disturbance, measured.disturbance.before.affinity)


def limits(scenario: MeasuredScenario) -> list[str]:
    """Return texts on disturbed rounds, on cycles that left for other load, and on too few turns;
    [] without any.
    """
    sentences = _disturbed(scenario)
    turns = left_out = 0
    for trial in itertools.chain.from_iterable(measured.trials for measured in scenario.rounds):
        turns += len(trial.turn_loads)
        left_out += len(trial.turns_left_out)
    if left_out:
        of_all = f"{left_out} of {count(turns, 'turn')}"
        sentences.append(f"{of_all} do not count: others took CPUs in their cycles.")
    few = too_few_of_all(scenario)
    if few:
        sentences.append(
            f"A candidate with {count(few, 'turn')} may have had none of its rare long ones (one "
            f"in ten, twice as long): intervals of {METRICS[scenario.metrics[0]].noun} are "
            f"{math.expm1(UNSEEN):.0%} wider than with {ENOUGH_TURNS} turns."
        )
    return sentences


def _disturbed(scenario: MeasuredScenario) -> list[str]:
    """Return a list of one text on the disturbed rounds, or an empty list if there are none."""
    disturbed = []
    for measured in scenario.rounds:
        if disturbances := marked(measured):
            disturbed.append(f"round {measured.number}: {', '.join(disturbances)}")
    if not disturbed:
        return []
    number, listed = len(disturbed), disturbed[:MOST_ROUNDS]
    if number > MOST_ROUNDS:
        listed.append(f"and {number - MOST_ROUNDS} more")
    were = "was" if number == 1 else "were"
    return [
        f"{number} of {len(scenario.rounds)} rounds {were} disturbed ({'; '.join(listed)}). What "
        "comes and goes widens the intervals; what stays favours those that need less CPU time."
    ]


def failed(scenario: MeasuredScenario, failure: Failure) -> str:
    """Return a sentence with the reason why a candidate could not be measured."""
    return f"the trial of {scenario.candidate(failure.candidate).title} failed: {failure.reason}"


def left_out(results: Results) -> list[str]:
    """Return one line for each part of the run that should have been measured and was not,
    with the reason.
    """
    lines = [f"{skipped.what}: {skipped.why}" for skipped in results.skipped]
    for scenario in results.scenarios:
        for failure in scenario.failures:
            lines.append(f"{scenario.name}: {failed(scenario, failure)}")
    return lines
