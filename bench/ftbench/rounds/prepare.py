"""Before a scenario is measured: who can take part, with how many workers, and with which batches."""

from __future__ import annotations

from collections.abc import Sequence

from ftbench.data.sources import Sources
from ftbench.plan import sizing
from ftbench.plan.contestants import Contestant
from ftbench.plan.scenario import Case, Scenario
from ftbench.plan.variants import VARIANTS
from ftbench.rounds.notes import Notes
from ftbench.rounds.options import Options
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR, CaseWork, Work
from ftrun.configurations import TWIN

# More workers than this for each CPU make sense only where a scenario is about waiting.
WORKERS_PER_CPU = 4


def source(scenario: Scenario, case: Case) -> str:
    """The name of what a case's dataset reads."""
    return case.source or scenario.source


def warn_of_options(options: Options, notes: Notes) -> None:
    """Say which scenarios cannot do anything with an option that others of the run can."""
    for given, name, use, used in (
        (options.data, "--data", "images", lambda s: s.takes_data),
        (options.batch_size, "--batch-size", "what loads batches", lambda s: s.batched),
    ):
        others = [s.name for s in options.scenarios if not used(s)]
        if given and others:
            notes.warn(f"{name} is for {use}, and changes nothing in {', '.join(others)}")


def candidates(
    options: Options, scenario: Scenario, configs: Sequence[str], twins: Twins, notes: Notes
) -> list[tuple[int, Contestant]]:
    """The scenario's contestants that the twins can measure, with their ranks; notes those that they cannot."""
    ranked = []
    lacking: dict[str, list[str]] = {}
    workers = _workers(options, scenario, twins.usable_cpus(), notes)
    for rank, c in scenario.contest.candidates(configs, workers, options.quick):
        why = twins.lacks(TWIN[c.config], c.variant)
        if why is None:
            ranked.append((rank, c))
        else:
            lacking.setdefault(why, []).append(c.title)
    for why, titles in lacking.items():
        notes.skip(f"{scenario.name}: {', '.join(titles)}", why)
    return ranked


def _workers(options: Options, scenario: Scenario, cpus: int, notes: Notes) -> list[int]:
    """The numbers of workers that were asked for, or the scenario's own."""
    own = list(scenario.workers(cpus))
    if options.workers is None:
        return own
    most = max(options.workers)
    if most > max(WORKERS_PER_CPU * cpus, *own):
        notes.warn(
            f"{scenario.name}: {most} workers share {cpus} CPU{'s' if cpus != 1 else ''}: what is "
            "compared is how they get in each other's way (--workers asks for fewer)"
        )
    return list(options.workers)


def work(
    options: Options,
    scenario: Scenario,
    contestants: Sequence[Contestant],
    memory: dict[str, dict],
    sources: Sources,
    notes: Notes,
) -> tuple[Work, list[Contestant]]:
    """What the trials have to do, for each case that takes part, and the contestants for whom there is room.

    Warns of batches that are smaller than wanted, and notes cases and worker processes that do not fit; raises
    sizing.DoesNotFit if nothing of the most important case does.
    """
    result, found = Work(scenario, {}, sizing.room(memory)), []
    for case in scenario.every_case:
        of_case = [c for c in contestants if c.case == case.name]
        if not of_case:
            continue
        threads = [c for c in of_case if not VARIANTS[c.variant].processes]
        try:
            fitted, warnings = _fit(options, scenario, case, of_case, memory, sources)
        except sizing.DoesNotFit as error:
            try:
                if not threads:
                    raise
                # They hand nothing over in /dev/shm.
                fitted, warnings = _fit(options, scenario, case, threads, memory, sources)
            except sizing.DoesNotFit:
                # The others may fit.
                if case == scenario.every_case[0]:
                    raise
                notes.skip(f"{scenario.name}: {case.title}", str(error))
                continue
            of_case = threads
            notes.skip(": ".join([scenario.name, *([case.title] if case.name else []), "worker processes"]), str(error))
        where = [scenario.name] if len(options.scenarios) > 1 else []
        for warning in warnings:
            notes.warn(": ".join([*where, *([case.title] if case.title else []), warning]))
        result.cases[case.name] = fitted
        found += of_case
    return result, found


def _fit(
    options: Options,
    scenario: Scenario,
    case: Case,
    contestants: Sequence[Contestant],
    memory: dict[str, dict],
    sources: Sources,
) -> tuple[CaseWork, list[str]]:
    """What these have to do, with batches that fit, and the warnings of sizing.fit; raises sizing.DoesNotFit."""
    amount = scenario.amount(options.quick, case)
    requested = options.batch_size if options.batch_size and scenario.batched else amount.batch_size
    sample_bytes = case.sample_bytes or scenario.sample_bytes
    variants = [VARIANTS[c.variant] for c in contestants]
    batch_size, warnings = sizing.fit(
        requested,
        sample_bytes,
        max(c.workers for c in contestants),
        PREFETCH_FACTOR,
        any(v.processes for v in variants),
        memory,
        max(v.queued_per_worker for v in variants),
        case.dataset_bytes,
    )
    paths, dataset = sources.get(source(scenario, case))
    return (
        CaseWork(
            paths,
            batch_size,
            amount.batches_per_worker,
            amount.turns,
            sample_bytes,
            case.dataset_bytes,
            requested,
            dataset,
        ),
        warnings,
    )
