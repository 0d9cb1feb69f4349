"""Changes from one run to another: of machines, versions or commits, from their results.json alone.

Two kinds of figures are compared. Ratios within a run (threads against processes, say) have the machine
and its mood taken out already; a change of them is one of the software, or of what the machines are good
at. Values of candidates are absolute: between machines they compare the machines, and on one machine its
mood from run to run is in them, which no run can measure on its own.

A change is the ratio of the geometric means of B and A, with Welch's t on the logarithms (B. L. Welch,
"The generalization of Student's problem", Biometrika 34, 1947). It is one beyond the noise if its p-value,
adjusted for the number of all changes that were looked at (Benjamini and Hochberg), is below 0.05, and it is
more than ftbench.stats.statistics.NEGLIGIBLE.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from ftbench.document.model import Results, Scenario, Stress
from ftbench.plan.metrics import METRICS
from ftbench.plan.scenario import OWN
from ftbench.report import run_words
from ftbench.stats.statistics import CONFIDENCE, FEWEST_ROUNDS, NEGLIGIBLE, adjusted, logarithms

# Fields that must be the same in both runs to compare values, with their names for people. Turns may differ: they are
# planned from measured costs, and each is measured by itself.
WORK = {
    "batch_size": "batch size",
    "batches_per_worker": "batches a worker",
    "sample_bytes": "bytes a sample",
    "parameters": "parameters",
}
DATA = {
    "kind": "kind of data",
    "source": "source of the data",
    "version": "version of the data",
    "files": "files",
    "mean_bytes": "mean size of a file",
}
PYTHON = "version", "build", "compiler"
USUAL_COLLATE = "torch's"
# From this factor between the turns on, a caution is due: `typical` of 40 turns was up to 3% above that of 5.
MANY_TIMES = 2


@dataclass(frozen=True)
class FigureChange:
    """One figure in both runs."""

    scenario: str
    what: str
    """The candidate's title, or the comparison's."""
    metric: str
    is_ratio: bool
    """True for a ratio within a run. Otherwise a candidate's value in the metric's unit."""
    a: float
    """The geometric mean of a ratio's rounds, or of a candidate's processes."""
    b: float
    ratio: float
    """B over A."""
    low: float | None
    """Its 95% confidence interval, None if a run has too few rounds."""
    high: float | None
    p: float | None
    q: float | None = None
    """The p-value adjusted for the number of changes."""

    @property
    def beyond_noise(self) -> bool:
        """True if the change is more than noise."""
        return self.q is not None and self.q < 1 - CONFIDENCE and max(self.ratio, 1 / self.ratio) > NEGLIGIBLE

    @property
    def better(self) -> bool:
        """True if the value in B is the better one."""
        return (self.ratio > 1) == (METRICS[self.metric].best == "higher")


@dataclass
class RunComparison:
    """The result of comparing two runs."""

    differences: list[tuple[str, str, str]] = field(default_factory=list)
    """(what, in A, in B): machine, interpreters, packages, commit, options."""
    cautions: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """(what, why): not in both runs, or not the same work."""
    changes: list[FigureChange] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """Scenarios of the thread-safety suite whose outcome changed, in words."""

    @property
    def beyond_noise(self) -> list[FigureChange]:
        """The changes that are more than noise, the largest first."""
        return sorted((c for c in self.changes if c.beyond_noise), key=lambda c: -abs(math.log(c.ratio)))


def compare(a: Results, b: Results) -> RunComparison:
    """Compare two runs."""
    result = RunComparison(_differences(a, b), [*_cautions("A", a), *_cautions("B", b)])
    if any(what in ("processor", "CPUs usable", "memory") for what, _, _ in result.differences):
        result.cautions.append("A and B ran on different machines: values compare these, and only ratios the software")
    scenarios = [{s.name: s for s in run.scenarios} for run in (a, b)]
    collate_fns = a.options.collate_fn or USUAL_COLLATE, b.options.collate_fn or USUAL_COLLATE
    for name in _in_both(result, "", "measured", scenarios):
        _scenario(result, scenarios[0][name], scenarios[1][name], collate_fns)
    _stress(result, a.stress, b.stress)
    for position, q in enumerate(adjusted([c.p for c in result.changes])):
        result.changes[position] = replace(result.changes[position], q=q)
    return result


def _in_both(
    result: RunComparison, where: str, done: str, both: Sequence[Mapping[str, object]], titles: Mapping[str, str] = {}
) -> list[str]:
    """Return the keys that both runs have; note those of one run alone, after the words of `where`."""
    a, b = both
    for run, alone in (("A", [key for key in a if key not in b]), ("B", [key for key in b if key not in a])):
        if alone:
            what = ", ".join(titles.get(key, key) for key in alone)
            result.left_out.append((f"{where}: {what}".strip(": "), f"{done} in {run} alone"))
    return [key for key in a if key in b]


def _stress(result: RunComparison, a: Stress | None, b: Stress | None) -> None:
    """Note the thread-safety suite's outcomes that differ between the runs."""
    if a is None or b is None:
        if a or b:
            result.left_out.append(("thread-safety suite", f"run in {'A' if a else 'B'} alone"))
        return
    outcomes = [{f"{r.scenario} in {r.configuration}": r.outcome for r in of.results} for of in (a, b)]
    for key in _in_both(result, "thread-safety suite", "run", outcomes):
        in_a, in_b = (of[key] for of in outcomes)
        if in_a != in_b:
            result.outcomes.append(f"{key}: {in_a} in A, {in_b} in B")
    for name, part in (("A", a), ("B", b)):
        if part.status != "complete":
            result.cautions.append(f"{name}'s thread-safety suite is incomplete: {part.reason}")


def _scenario(result: RunComparison, a: Scenario, b: Scenario, collate_fns: tuple[str, str]) -> None:
    name, both = a.name, (a, b)
    few, many = sorted(s.turns for s in both)
    if many >= MANY_TIMES * few:
        more = "A" if a.turns == many else "B"
        result.cautions.append(
            f"{name}: turns in a process are {a.turns} in A and {b.turns} in B: the faster half of more turns is "
            f"a little faster, so throughput in {more} may read up to 3% higher; ratios hardly change by that"
        )
    cases = _comparable_cases(result, a, b, collate_fns)
    titles = {c.key: c.title for s in (b, a) for c in s.candidates}
    of_case = {c.key for c in a.candidates if c.case in cases}
    keys = _in_both(result, name, "measured", [{c.key: c for c in s.whole} for s in both], titles)
    in_b = {(p.numerator, p.denominator) for p in b.pairs}
    pairs = [p for p in a.pairs if (p.numerator, p.denominator) in in_b and p.numerator in of_case]
    for metric in (m for m in a.metrics if m in b.metrics):
        values = [{key: s.in_each_process(key, metric) for key in keys} for s in both]
        found = [
            (
                run_words.title(a, a.candidate(pair.numerator), a.candidate(pair.denominator), with_case=True),
                True,
                [logarithms(of[pair.numerator], of[pair.denominator]) for of in values],
            )
            for pair in pairs
            if not pair.first_only or metric == a.metrics[0]
        ]
        found += [(titles[key], False, [[*map(math.log, of[key])] for of in values]) for key in keys if key in of_case]
        for what, is_ratio, logs in found:
            x, y = (math.exp(fmean(of)) for of in logs)
            result.changes.append(FigureChange(name, what, metric, is_ratio, x, y, *welch(*logs)))


def _comparable_cases(result: RunComparison, a: Scenario, b: Scenario, collate_fns: tuple[str, str]) -> set[str]:
    """Return the names of the cases whose work is the same in both; note why the others are left out."""
    cases: list[dict[str, Any]] = [{case.name: case for case in s.cases} or {"": s} for s in (a, b)]
    same = set()
    for name in _in_both(result, a.name, "measured", cases):
        x, y = (of[name] for of in cases)
        other: list[tuple] = [(title, getattr(x, key, None), getattr(y, key, None)) for key, title in WORK.items()]
        if a.name == OWN:  # whose turns are as long as a measured time asks for
            other = [each for each in other if each[0] != WORK["batches_per_worker"]]
            if x.batches_per_worker != y.batches_per_worker:
                in_each = f"{x.batches_per_worker} in A and {y.batches_per_worker} in B"
                result.cautions.append(
                    f"{OWN}: {WORK['batches_per_worker']} in a turn are {in_each}, chosen from measured times"
                )
            # Its files may have moved.
            other += [("collate_fn", *collate_fns)]
            other += [("dataset", *(s.description.rpartition("/")[2] for s in (a, b)))]
        other += [(title, getattr(x.dataset, key), getattr(y.dataset, key)) for key, title in DATA.items()]
        different = [f"{title} is {u} in A and {v} in B" for title, u, v in other if u != v]
        if different:
            where = f"{a.name}: {name}" if name else a.name
            result.left_out.append((where, f"not the same work: {'; '.join(different)}"))
        else:
            same.add(name)
    return same


def welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None, float | None, float | None]:
    """Return (ratio, low, high, p) of exp(mean of b - mean of a), for logarithms of independent rounds.

    Without FEWEST_ROUNDS in both, the ratio alone is given.
    """
    ratio = math.exp(fmean(b) - fmean(a))
    if min(len(a), len(b)) < FEWEST_ROUNDS:
        return ratio, None, None, None
    if len({*a}) == len({*b}) == 1:  # certain whatever they say
        return ratio, ratio, ratio, float(ratio == 1)
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():  # that one of them does not vary at all
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ttest_ind(b, a, equal_var=False)
    low, high = (math.exp(end) for end in found.confidence_interval(CONFIDENCE))
    return ratio, low, high, float(found.pvalue)


def _differences(a: Results, b: Results) -> list[tuple[str, str, str]]:
    """Return (what, in A, in B) of differing environments and options."""
    both = a.environment.twins.keys() & b.environment.twins.keys()
    in_a, in_b = (_described(results, both) for results in (a, b))
    found = [(what, in_a.get(what, "none"), in_b.get(what, "none")) for what in {**in_a, **in_b}]
    return [each for each in found if each[1] != each[2]]


def _described(results: Results, compared: Set[str]) -> dict[str, str]:
    """Return a run's environment and options in words; interpreters and packages of the *compared* twins alone."""
    environment, options = results.environment, results.options
    first = next(iter(environment.twins.values()))
    system = first.os
    found = {
        "commit": run_words.revision(results),
        "sources of loader and bench": environment.source[:12],
        "processor": first.cpu.model,
        "CPUs usable": str(run_words.usable(results)),
        # The kernel keeps some memory for itself, not always as much.
        "memory": f"{first.memory.total / 2**30:.0f} GiB",
        "system": f"{system.name}, Linux {system.kernel}, container: {system.container or 'none'}",
        "GPU": ", ".join(first.gpu.devices) or "none",
        "--quick": "yes" if options.quick else "no",
        "--data": options.data or "generated",
        "--collate-fn": options.collate_fn or USUAL_COLLATE,
        "--requirements": ", ".join(options.requirements) or "none",
        "--batch-size": str(options.batch_size or "the scenarios'"),
        "--workers": ", ".join(map(str, options.workers or ())) or "the scenarios'",
        **{f"{twin} twin": "measured" if twin in environment.twins else "not measured" for twin in ("ft", "gil")},
    }
    for name, twin in environment.twins.items():
        if name not in compared:
            continue
        found |= {f"{name}: Python's {what}": getattr(twin.interpreter, what) for what in PYTHON}
        found |= {f"{name}: {package}": version for package, version in sorted(twin.packages.items())}
    return found


def _cautions(name: str, results: Results) -> Iterator[str]:
    if results.status != "complete":
        yield f"{name} is incomplete: {results.reason}"
    for scenario in results.scenarios:
        rounds = scenario.rounds
        marked = sum(bool(run_words.marked(one)) for one in rounds)
        if marked:
            yield f"{name}: {scenario.name}: {marked} of {len(rounds)} rounds were disturbed by other load"
        if len(rounds) < FEWEST_ROUNDS:
            few = f"{FEWEST_ROUNDS} are needed to tell a change from noise"
            yield f"{name}: {scenario.name} has {run_words.rounds(scenario)}: {few}"
