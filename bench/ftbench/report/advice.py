"""Advice that follows from a waterfall: the loader to use,
and the line of code that creates the loader.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ftbench.document.model import MeasuredScenario, Verdict, Waterfall
from ftbench.plan.candidates import VARIANTS, Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.unit import RUN
from ftbench.plan.waterfall import COPIES, RUNS, THREADS
from ftbench.report import hour_words, run_words, verdict_words
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import of_two
from ftbench.stats.statistics import FEWEST_ROUNDS, Ratio

THROUGHPUT = METRICS["throughput"]
PYTHONS = {
    "gil": "ordinary Python (gil)",
    "ft": "free-threaded Python (ft)",
    "ft-gil": "free-threaded Python, GIL on",
}


class Opening(NamedTuple):
    """First lines of every report on a waterfall."""

    sentence: str
    """The answer: the speed of the waterfall's last candidate against that of its first."""
    advice: str
    code: str
    remarks: list[str]
    """Limits of the answer: what other hours do, other load, and too few turns."""


def openings(run: Analysis) -> Iterator[Opening]:
    """Yield the first lines of the report on each waterfall."""
    with_limits = set()
    for fall in run.waterfalls:
        sentence = run_words.opening(fall.unit, verdict_words.sentence(run, fall))
        remarks = hour_words.sentences(run, fall)
        if fall.scenario not in with_limits:  # of all its cases alike
            remarks += run_words.limits(run.scenario(fall.scenario))
        with_limits.add(fall.scenario)
        yield Opening(sentence, *advice(run, fall), remarks)


def advice(run: Analysis, fall: Waterfall) -> tuple[str, str]:
    """Return (advice, line of code) for the workload of a waterfall;
    the code is "" if too little was measured.

    The advice is the fastest candidate among those shown to be faster than the waterfall's start
    (its first candidate) on the same samples. If there is none, the advice is the start. The advice
    also names the best candidate of the other Python if it was not shown to be slower. Threads with
    copies of the dataset, which take memory, are advised only if they were shown to be faster than
    threads that share it, or the latter cannot be used.
    """
    scenario, workload = run.scenario(fall.scenario), fall.workload
    start = scenario.candidate(fall.throughput.start.candidate)
    if len(scenario.rounds) < FEWEST_ROUNDS:
        few = f"{run_words.rounds(scenario)}, and at least {FEWEST_ROUNDS} are needed"
        return f"Too little was measured to advise for {workload}: {few}.", ""
    text, advised = _advised(scenario, workload, start, _usable(scenario, fall))
    if fall.others:
        titles = ", ".join(scenario.candidate(key).title for key in fall.others)
        text += f" Left out, for they gave other samples: {titles}."
    return text, _code(advised)


def _advised(
    scenario: MeasuredScenario, workload: str, start: Candidate, usable: Sequence[Candidate]
) -> tuple[str, Candidate]:
    """Return (advice, the candidate that it is for)."""
    faster = [c for c in usable if _has_verdict(Verdict.ABOVE, scenario, c, start)]
    # A noisy candidate must not hide another that is surely faster than the start.
    best = _fastest(scenario, faster or usable, start)
    if _has_verdict(Verdict.NO_DIFFERENCE, scenario, best, start):
        keep = f"Keep {_described(scenario, start)} for {workload}"
        measured = f"the best measured here, {_described(scenario, best)}"
        difference = verdict_words.outcome(THROUGHPUT, _ratio(scenario, best, start))
        return f"{keep}: {measured}, is not told apart from it ({difference}).", start
    text = f"Best measured here for {workload}: {_described(scenario, best)}."
    other = _fastest(scenario, [c for c in usable if c.config != best.config], best)
    if _has_verdict(Verdict.NO_DIFFERENCE, scenario, best, other):
        text += f" Not shown to be slower: {_described(scenario, other)}."
    return text, best


def _usable(scenario: MeasuredScenario, fall: Waterfall) -> list[Candidate]:
    """Return the candidates that loaded the waterfall's samples in all rounds."""
    # The free-threaded build with its GIL on is measured only for comparison.
    candidates = [candidate for candidate in scenario.whole if candidate.config != "ft-gil"]
    of_case = [candidate for candidate in candidates if candidate.case == fall.case]
    usable = [candidate for candidate in of_case if candidate.key not in fall.others]
    return [c for c in usable if not _has_needless_copies(scenario, c, usable)]


def _has_needless_copies(
    scenario: MeasuredScenario, candidate: Candidate, usable: Sequence[Candidate]
) -> bool:
    """True if threads that share the dataset would do: those with copies are not shown to be faster
    than them.
    """
    shared = replace(candidate, variant=THREADS)
    return (
        candidate.variant == COPIES
        and shared in usable
        and not _has_verdict(Verdict.ABOVE, scenario, candidate, shared)
    )


def _ratio(scenario: MeasuredScenario, candidate: Candidate, other: Candidate) -> Ratio:
    return of_two(scenario, candidate.key, other.key, THROUGHPUT.name)


def _has_verdict(
    verdict: Verdict, scenario: MeasuredScenario, candidate: Candidate, other: Candidate
) -> bool:
    """True if the two candidates differ, and their ratio has this verdict."""
    return candidate != other and _ratio(scenario, candidate, other).verdict == verdict


def _fastest(
    scenario: MeasuredScenario, candidates: Sequence[Candidate], default: Candidate
) -> Candidate:
    def speed(candidate: Candidate) -> float:
        return scenario.typical(candidate.key, THROUGHPUT.name)

    return max(candidates, key=speed, default=default)


def _described(scenario: MeasuredScenario, candidate: Candidate) -> str:
    speed = scenario.typical(candidate.key, THROUGHPUT.name)
    if scenario.unit is RUN:
        return f"{PYTHONS[candidate.config]}, {RUN.speed(speed)}"
    where = f"{PYTHONS[candidate.config]}, num_workers={candidate.workers}"
    return f"{plural(candidate.variant)} in {where} ({speed:.0f} samples/s)"


def _code(candidate: Candidate) -> str:
    """Return the line of code that creates the loader of a candidate; "" for a command."""
    if candidate.variant == RUNS:
        return ""
    module, method = "torch.utils.data", ""
    if candidate.variant.startswith("loader"):
        kind = "process" if VARIANTS[candidate.variant].processes else "thread"
        module, method = "ftloader", f', worker_method="{kind}"'
    if candidate.variant == COPIES:
        method += ", copy_dataset=True"
    loader = f"DataLoader(dataset, ..., num_workers={candidate.workers}{method})"
    return f"from {module} import DataLoader; {loader}"
