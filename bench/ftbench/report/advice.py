"""Advice that follows from a waterfall: the loader to use, and the line of code that creates the loader."""

from collections.abc import Iterator
from typing import NamedTuple

from ftbench.document.model import Verdict, Waterfall
from ftbench.plan.candidates import VARIANTS, Candidate, plural
from ftbench.plan.metrics import METRICS
from ftbench.report import hour_words, run_words, verdict_words
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import of_two
from ftbench.stats.statistics import FEWEST_ROUNDS

PYTHONS = {"gil": "ordinary Python (gil)", "ft": "free-threaded Python (ft)", "ft-gil": "free-threaded Python, GIL on"}


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
    for fall in run.waterfalls:
        sentence = run_words.capital(verdict_words.sentence(run, fall))
        remarks = [*hour_words.sentences(run, fall), *run_words.limits(run.scenario(fall.scenario))]
        yield Opening(sentence, *advice(run, fall), remarks)


def advice(run: Analysis, fall: Waterfall) -> tuple[str, str]:
    """Return (advice, line of code) for the workload of a waterfall; the code is "" if too little was measured.

    The advice is the fastest candidate among those shown to be faster than the waterfall's start (its first candidate)
    on the same samples. If there is none, the advice is the start. The advice also names the best candidate of the
    other Python if it was not shown to be slower.
    """
    scenario, workload = run.scenario(fall.scenario), fall.workload
    start = scenario.candidate(fall.start.candidate)
    if len(scenario.rounds) < FEWEST_ROUNDS:
        few = f"{run_words.rounds(scenario)}, and at least {FEWEST_ROUNDS} are needed"
        return f"Too little was measured to advise for {workload}: {few}.", ""
    about = METRICS["throughput"]
    # The free-threaded build with its GIL on is measured only for comparison.
    usable = [c for c in scenario.whole if c.case == fall.case and c.config != "ft-gil" and c.key not in fall.others]

    found = {c: of_two(scenario, c.key, start.key, about.name) for c in usable}
    # A noisy candidate must not hide another that is surely faster than the start.
    faster = [c for c in usable if c != start and found[c].verdict == Verdict.ABOVE]
    best = max(faster or usable, key=lambda c: scenario.typical(c.key, about.name), default=start)

    def say(c: Candidate) -> str:
        speed = scenario.typical(c.key, about.name)
        return f"{plural(c.variant)} in {PYTHONS[c.config]}, num_workers={c.workers} ({speed:.0f} samples/s)"

    text = f"Best measured here for {workload}: {say(best)}."
    if best != start and found[best].verdict == Verdict.NO_DIFFERENCE:
        text = (
            f"Keep {say(start)} for {workload}: the best measured here, {say(best)}, is not told apart from it "
            f"({verdict_words.outcome(about, found[best])})."
        )
        best = start
    else:
        others = [c for c in usable if c.config != best.config]
        other = max(others, key=lambda c: scenario.typical(c.key, about.name), default=best)
        if other != best and of_two(scenario, best.key, other.key, about.name).verdict == Verdict.NO_DIFFERENCE:
            text += f" Not shown to be slower: {say(other)}."
    if fall.others:
        titles = ", ".join(scenario.candidate(key).title for key in fall.others)
        text += f" Left out, for they gave other samples: {titles}."
    ours = best.variant.startswith("loader")
    method = f', worker_method="{"process" if VARIANTS[best.variant].processes else "thread"}"' if ours else ""
    return text, (
        f"from {'ftloader' if ours else 'torch.utils.data'} import DataLoader; "
        f"DataLoader(dataset, ..., num_workers={best.workers}{method})"
    )
