"""The wording of facts about a run: candidates, machine, rounds,
failures. (verdict_words has the verdicts.)
"""

import math
import re
from dataclasses import replace

from ftbench.document.model import Failure, MeasuredScenario, Results, Round
from ftbench.machine.disturbance import marks
from ftbench.plan.candidates import Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import MeasuredComparison
from ftbench.stats.turns import ENOUGH_TURNS, UNSEEN, too_few_of_all
from ftrun.configurations import CONFIGURATIONS

# The number of disturbed rounds that are listed one by one.
MOST_ROUNDS = 5


def capital(sentence: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 round", "5 rounds"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def slug(name: str) -> str:
    """Convert a name to one that has only a-z, 0-9 and dashes, for ids and file names."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def subject(run: Analysis) -> str:
    """Return the subject of a run, for its headings.
    Removing the GIL is the subject of waterfalls.
    """
    return (
        "What removing the GIL does to data loading"
        if run.waterfalls
        else "Data loading by threads and processes"
    )


def label(config: str, variant: str) -> str:
    """Return the name of a curve in a chart's legend: "free-threaded, GIL on: loader threads"."""
    return f"{CONFIGURATIONS[config].short}: {plural(variant)}"


def title(scenario: MeasuredScenario, a: Candidate, b: Candidate, with_case: bool = False) -> str:
    """Return a comparison's title: "ft loader threads / gil loader processes,
    x2". Shared parts are named once.
    """
    of_a, of_b = (f"{candidate.config} {plural(candidate.variant)}" for candidate in (a, b))
    cases = [case_title(scenario, candidate.case) for candidate in (a, b)]
    where = f", {cases[0]}" if a.case and with_case else ""
    if (a.workers, a.case) == (b.workers, b.case):
        return f"{of_a} / {of_b}" + (f", x{a.workers}" if a.workers else "") + where
    if of_a == of_b and a.case == b.case:
        return f"{of_a}: {workers(a.workers)} / {workers(b.workers)}{where}"
    if of_a == of_b and a.workers == b.workers:
        return f"{of_a} x{a.workers}: {cases[0]} / {cases[1]}"
    return f"{full_title(scenario, a)} / {full_title(scenario, b)}"


def title_with_why(scenario: MeasuredScenario, c: MeasuredComparison) -> str:
    """Return the title of a comparison, with its case,
    and its subject (MeasuredComparison.why) after a colon.
    """
    return ": ".join(
        filter(None, (title(scenario, c.numerator, c.denominator, with_case=True), c.why))
    )


def case_title(scenario: MeasuredScenario, name: str) -> str:
    """Return the title of the case with this name; "" if the scenario has no cases."""
    return next((case.title for case in scenario.cases if case.name == name), name)


def own_title(c: Candidate) -> str:
    """Return a candidate's title without the name of its case: "ft loader threads x2"."""
    return replace(c, case="").title


def full_title(scenario: MeasuredScenario, candidate: Candidate) -> str:
    """Return a candidate's title with the title of its case."""
    return ", ".join(filter(None, (own_title(candidate), case_title(scenario, candidate.case))))


def workers(number: int) -> str:
    """Return a number of workers in words: "1 worker", "no workers"."""
    return count(number, "worker") if number else "no workers"


def each_with(scenario: MeasuredScenario, number: int) -> str:
    """Return *number* workers in words, with the ranks if there are several:
    "2 ranks of 1 worker each".
    """
    return (
        f"{scenario.ranks} ranks of {workers(number)} each" if scenario.ranks else workers(number)
    )


def describe(
    scenario: MeasuredScenario, c: Candidate, with_workers: bool = False, with_case: bool = True
) -> str:
    """Return a candidate in words: "loader threads in the free-threaded build"."""
    number = f" x{c.workers}" if with_workers and c.workers else ""
    case = case_title(scenario, c.case) if with_case else ""
    return (
        f"{plural(c.variant)}{number} in the "
        f"{CONFIGURATIONS[c.config].title}{f' ({case})' if case else ''}"
    )


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
    e = next(iter(results.environment.twins.values()))
    where = f"{e.os.container} container" if e.os.container else "no container"
    return (
        f"{e.cpu.model}, {usable(results)} of {e.cpu.count} CPUs usable, "
        f"{e.memory.total / 2**30:.0f} GiB, {e.os.name}, Linux {e.os.kernel}, {where}"
    )


def revision(results: Results) -> str:
    """Return the commit of the sources, abbreviated,
    with a note if the checkout had uncommitted changes.
    """
    r = results.environment.revision
    return r.commit[:12] + (" with changes" if r.dirty else "")


def work(scenario: MeasuredScenario) -> str:
    """Return a line about a scenario's work: description,
    cases (or batches if it has no cases), files, rounds.
    """
    data, load = scenario.load.dataset, scenario.load
    parts = [scenario.description]
    if scenario.ranks:
        parts.append(
            f"{scenario.ranks} ranks, each a process with its own loader, workers and share of "
            f"the batches"
        )
    if scenario.cases:
        parts.append(f"{scenario.case_axis}: {' · '.join(case.title for case in scenario.cases)}")
    else:
        parts.append(
            f"batches of {load.batch_size}, {load.batches_per_worker} for each worker in a "
            + (f"turn, {load.turns} turns in a trial" if load.turns > 1 else "trial")
        )
    if data.source != "none":
        source = (
            f"generated {data.kind}"
            if data.source == "generated"
            else f"{data.kind} of {data.directory}"
        )
        parts.append(f"{data.files} {source}, {data.mean_bytes / 1000:.0f} kB on average")
    return "; ".join([*parts, rounds(scenario)])


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
    trials = [trial for measured in scenario.rounds for trial in measured.trials]
    left_out = sum(len(trial.turns_left_out) for trial in trials)
    if left_out:
        turns = count(sum(len(trial.turn_loads) for trial in trials), "turn")
        sentences.append(f"{left_out} of {turns} do not count: others took CPUs in their cycles.")
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
    words = [(measured.number, marked(measured)) for measured in scenario.rounds]
    disturbed = [f"round {number}: {', '.join(texts)}" for number, texts in words if texts]
    if not disturbed:
        return []
    which = "; ".join(disturbed[:MOST_ROUNDS])
    if len(disturbed) > MOST_ROUNDS:
        which += f"; and {len(disturbed) - MOST_ROUNDS} more"
    were = "was" if len(disturbed) == 1 else "were"
    return [
        f"{len(disturbed)} of {len(scenario.rounds)} rounds {were} disturbed ({which}). What comes "
        "and goes widens the intervals; what stays favours those that need less CPU time."
    ]


def failed(scenario: MeasuredScenario, failure: Failure) -> str:
    """Return a sentence with the reason why a candidate could not be measured."""
    return f"the trial of {scenario.candidate(failure.candidate).title} failed: {failure.reason}"


def left_out(results: Results) -> list[str]:
    """Return one line for each part of the run that should have been measured and was not,
    with the reason.
    """
    lines = [f"{skipped.what}: {skipped.why}" for skipped in results.skipped]
    return lines + [
        f"{s.name}: {failed(s, failure)}" for s in results.scenarios for failure in s.failures
    ]
