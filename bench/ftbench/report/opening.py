"""What removing the GIL did on this machine, in a few sentences, and the comparisons that they rest on.

The three questions are told apart by who is compared, not by what a scenario calls it: threads without the
GIL against processes with it, the same threads in the same build with and without the GIL, and the same
threads in both builds with the GIL on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftbench.plan.variants import VARIANTS
from ftbench.report import waterfall, words
from ftbench.report.findings import Finding, result, tell

THREADS, LOCK, BUILD = "threads", "lock", "build"
# What is told instead where a run has no answer: threads against processes of the same build, and threads of
# both builds, in which the lock's effect and the build's cost are one.
SAME_BUILD, BOTH = "same build", "both"


def question(scenario: dict, comparison: dict) -> str | None:
    """Which of the questions a comparison answers, None for none."""
    a, b = (words.contestant(scenario, comparison[side]) for side in ("numerator", "denominator"))
    if a.get("case") != b.get("case"):
        return None
    processes = [_processes(c["variant"]) for c in (a, b)]
    same = a["variant"] == b["variant"] and a["workers"] == b["workers"]
    configs = a["config"], b["config"]
    if configs == ("ft", "gil") and processes == [False, True] and a["workers"] == b["workers"]:
        return THREADS
    if configs == ("ft", "ft") and processes == [False, True] and a["workers"] == b["workers"]:
        return SAME_BUILD
    if same and not any(processes):
        return {("ft", "ft-gil"): LOCK, ("ft-gil", "gil"): BUILD, ("ft", "gil"): BOTH}.get(configs)
    return None


def _processes(variant: str) -> bool:
    """Whether a variant's workers are processes; what loads nothing says so in its name alone."""
    return variant.endswith("process") or variant in VARIANTS and VARIANTS[variant].processes


def findings(document: dict, which: str) -> list[Finding]:
    """Each scenario's and case's answer to a question: by its own metric, at the most workers, the first there is.

    A scenario that compares its cases in the first place (steps beside a loader at work and an idle one) knows
    more of these than of builds and workers, and only speaks where no other does.
    """
    among = [s for s in document["scenarios"] if not _about_cases(s)]
    return _findings(among, which) or _findings(document["scenarios"], which)


def _about_cases(scenario: dict) -> bool:
    """Whether the most important comparison of a scenario is between two of its cases."""
    first = next(iter(scenario["analysis"]["comparisons"]), None)
    return (
        first is not None
        and len({words.contestant(scenario, first[side])["case"] for side in ("numerator", "denominator")}) == 2
    )


def _findings(scenarios: Sequence[dict], which: str) -> list[Finding]:
    found: list[Finding] = []
    for scenario in scenarios:
        answers: dict[str, Finding] = {}
        own = [c for c in words.comparisons(scenario, scenario["metrics"][0]) if question(scenario, c) == which]
        most = max((words.contestant(scenario, c["numerator"])["workers"] for c in own), default=0)
        for c in own:
            numerator = words.contestant(scenario, c["numerator"])
            if numerator["workers"] == most:
                answers.setdefault(numerator.get("case", ""), Finding(scenario, c))
        found += answers.values()
    return found


def sentences(document: dict) -> list[str]:
    """A sentence for each waterfall; where other scenarios were measured, three more for all of them together.

    These say what threads gained, what part of it is the lock's, and what the build costs.
    """
    falls = document["waterfalls"]
    told = {fall["scenario"] for fall in falls}
    others = {**document, "scenarios": [s for s in document["scenarios"] if s["name"] not in told]}
    found = [waterfall.sentence(document, fall) for fall in falls]
    return found + ([_threads(others), _lock(others), _build(others)] if others["scenarios"] else [])


def _missing(document: dict, *needed: str) -> str:
    measured = {c["config"] for s in document["scenarios"] for c in s["contestants"]}
    lacking = [words.CONFIG_TITLES[config] for config in needed if config not in measured]
    if not lacking:
        return "no scenario of this run compares them"
    # What was asked for and yet not measured is what a quick run goes without.
    quick = document["options"]["quick"] and set(needed) <= set(document["options"]["configs"])
    return f"the {' and the '.join(lacking)} took no part" + (" (it does in a run without --quick)" if quick else "")


def _threads(document: dict) -> str:
    found = findings(document, THREADS)
    if found:
        return _tell(found, "threads in the free-threaded build", "processes in the GIL build", _cores(document))
    found = findings(document, SAME_BUILD)
    if found:
        return _tell(found, "threads in the free-threaded build", "processes in that same build", _cores(document))
    return (
        "What threads without the GIL do against processes with it, this run does not say: "
        f"{_missing(document, 'ft', 'gil')}."
    )


def _lock(document: dict) -> str:
    found = findings(document, LOCK)
    if found:
        return "The lock alone: " + _tell(
            found, "the free-threaded build's threads without the GIL", "the same threads with the GIL forced on"
        )
    found = findings(document, BOTH)
    if found:
        return "The lock and the build together: " + _tell(
            found, "threads in the free-threaded build", "threads in the GIL build"
        )
    return f"How much of that is the lock's own doing is not known: {_missing(document, 'ft', 'ft-gil')}."


def _build(document: dict) -> str:
    found = findings(document, BUILD)
    if not found:
        return f"What the free-threaded build costs by itself is not known: {_missing(document, 'ft-gil', 'gil')}."
    return "The build alone: " + _tell(
        found, "threads in the free-threaded build with its GIL on", "threads in the GIL build"
    )


def _cores(document: dict) -> str:
    usable = min(t["cpu"]["usable"] for t in document["environment"]["twins"].values())
    return f"On this machine ({usable} CPU{'s' if usable != 1 else ''}), "


def _tell(found: Sequence[Finding], ours: str, theirs: str, before: str = "") -> str:
    """A question's answers in a sentence: of one, what it is; of several, how many went which way, and the extremes."""
    if len(found) == 1:
        return before + _one(found[0], ours, theirs)
    return tell(found, ours, theirs, before)


def _one(finding: Finding, ours: str, theirs: str) -> str:
    c, scenario = finding.comparison, finding.scenario
    workers = words.contestant(scenario, c["numerator"])["workers"]
    about = words.metric_of(c["metric"])
    at = f"{finding.where}, {workers} worker{'s' if workers != 1 else ''}"
    if finding.outcome == "unknown":
        return (
            f"{ours} measured {words.times(c['mean'])} the {about.noun} of {theirs} ({at}), "
            "of too few rounds for a verdict."
        )
    if finding.outcome == "same":
        return f"no difference in {about.noun} was shown between {ours} and {theirs} ({at}: {result(finding)})."
    return f"{ours} {about.verb} {result(finding)} than {theirs} ({at})."
