"""What changed from one run to another: machines, versions or commits, by their results.json alone.

Two kinds of figures are compared. Ratios within a run (threads against processes, say) have the machine
and its mood taken out already; a change of them is one of the software, or of what the machines are good
at. Values of contestants are absolute: between machines they compare the machines, and on one machine its
mood from run to run is in them, which no run can measure on its own.

A change is the ratio of the geometric means of B and A, with Welch's t on the logarithms (B. L. Welch,
"The generalization of Student's problem", Biometrika 34, 1947). It is one beyond the noise if its p-value,
adjusted for the number of all changes that were looked at (Benjamini and Hochberg), is below 0.05, and it is
more than ftbench.stats.statistics.NEGLIGIBLE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ftbench.plan.metrics import METRICS
from ftbench.stats.statistics import CONFIDENCE, FEWEST_ROUNDS, NEGLIGIBLE, adjusted, logarithms, variance
from ftbench.stats.waterfall import in_each_process, typical_of

# What a comparison of values supposes to be the same in both runs, with its name for people.
WORK = {
    "batch_size": "batch size",
    "batches_per_worker": "batches a worker",
    "turns": "turns a trial",
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


@dataclass(frozen=True)
class Change:
    """One figure in both runs."""

    scenario: str
    what: str
    """The contestant's title, or the comparison's."""
    metric: str
    is_ratio: bool
    """Whether it is a ratio within a run; else it is a contestant's value in the metric's unit."""
    a: float
    """The geometric mean of a ratio's rounds, or of a contestant's processes."""
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
        """Whether the figure has changed, as far as can be told."""
        return self.q is not None and self.q < 1 - CONFIDENCE and max(self.ratio, 1 / self.ratio) > NEGLIGIBLE

    @property
    def better(self) -> bool:
        """Whether the value in B is the better one."""
        return (self.ratio > 1) == (METRICS[self.metric].best == "higher")


@dataclass
class Comparison:
    """Everything that there is to say of two runs."""

    differences: list[tuple[str, str, str]] = field(default_factory=list)
    """(what, in A, in B): machine, interpreters, packages, commit, options."""
    cautions: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """(what, why): not in both runs, or not the same work."""
    changes: list[Change] = field(default_factory=list)
    same_machine: bool = True
    outcomes: list[str] = field(default_factory=list)
    """Scenarios of the thread-safety suite whose outcome changed, in words."""

    @property
    def beyond_noise(self) -> list[Change]:
        """The changes that are more than noise, the largest first."""
        return sorted((c for c in self.changes if c.beyond_noise), key=lambda c: -abs(math.log(c.ratio)))


def compare(a: dict, b: dict) -> Comparison:
    """Compare two documents (ftbench.document.results.load)."""
    result = Comparison(_differences(a, b), [*_cautions("A", a), *_cautions("B", b)])
    result.same_machine = not any(what in ("processor", "CPUs usable", "memory") for what, _, _ in result.differences)
    if not result.same_machine:
        result.cautions.append("A and B ran on different machines: values compare these, and only ratios the software")
    in_a, in_b = ({s["name"]: s for s in document["scenarios"]} for document in (a, b))
    for name in {**in_a, **in_b}:
        if name not in in_a or name not in in_b:
            result.left_out.append((name, f"measured in {'A' if name in in_a else 'B'} alone"))
            continue
        _scenario(result, in_a[name], in_b[name])
    _stress(result, a.get("stress"), b.get("stress"))
    for position, q in enumerate(adjusted([c.p for c in result.changes])):
        result.changes[position] = replace(result.changes[position], q=q)
    return result


def _stress(result: Comparison, a: dict | None, b: dict | None) -> None:
    """What the thread-safety suites of two runs, as far as they ran, found that the other did not."""
    if a is None or b is None:
        if a or b:
            result.left_out.append(("thread-safety suite", f"run in {'A' if a else 'B'} alone"))
        return
    in_a, in_b = ({(r["scenario"], r["configuration"]): r for r in part["results"]} for part in (a, b))
    for key in {**in_a, **in_b}:
        scenario, config = key
        if key not in in_a or key not in in_b:
            result.left_out.append(
                (f"thread-safety suite: {scenario} in {config}", f"run in {'A' if key in in_a else 'B'} alone")
            )
        elif in_a[key]["outcome"] != in_b[key]["outcome"]:
            result.outcomes.append(f"{scenario} in {config}: {in_a[key]['outcome']} in A, {in_b[key]['outcome']} in B")
    for name, part in (("A", a), ("B", b)):
        if part["status"] != "complete":
            result.cautions.append(f"{name}'s thread-safety suite is incomplete: {part['reason']}")


def _scenario(result: Comparison, a: dict, b: dict) -> None:
    name = a["name"]
    cases = _comparable_cases(result, a, b)
    values_a, values_b = ({c["key"]: c for c in s["contestants"]} for s in (a, b))
    summed_up = [{c["key"] for c in s["analysis"]["contestants"]} for s in (a, b)]
    both = [key for key in values_a if key in values_b and key in summed_up[0] and key in summed_up[1]]
    for where, ours, theirs in (("A", values_a, summed_up[1]), ("B", values_b, summed_up[0])):
        alone = [c["title"] for key, c in ours.items() if key not in theirs]
        if alone:
            result.left_out.append((f"{name}: {', '.join(alone)}", f"measured in {where} alone"))
    for metric in (m for m in a["metrics"] if m in b["metrics"]):
        found = [
            [
                c
                for c in s["analysis"]["comparisons"]
                if c["metric"] == metric and values_a.get(c["numerator"], {}).get("case") in cases
            ]
            for s in (a, b)
        ]
        in_b = {(c["numerator"], c["denominator"]): c for c in found[1]}
        pairs = [
            (c, in_b[c["numerator"], c["denominator"]]) for c in found[0] if (c["numerator"], c["denominator"]) in in_b
        ]
        logs = [
            [logarithms(*(in_each_process(s, c[side], metric) for side in ("numerator", "denominator"))) for c in of]
            for s, of in ((a, [x for x, _ in pairs]), (b, [y for _, y in pairs]))
        ]
        for at, (x, y) in enumerate(pairs):
            result.changes.append(
                Change(
                    name, x["title"].split(":")[0], metric, True, x["mean"], y["mean"], *welch(logs[0][at], logs[1][at])
                )
            )
        for key in both:
            if values_a[key]["case"] in cases:
                x, y = (in_each_process(s, key, metric) for s in (a, b))
                result.changes.append(
                    Change(
                        name,
                        values_a[key]["title"],
                        metric,
                        False,
                        typical_of(a, key, metric),
                        typical_of(b, key, metric),
                        *welch([math.log(v) for v in x], [math.log(v) for v in y]),
                    )
                )


def _comparable_cases(result: Comparison, a: dict, b: dict) -> set[str]:
    """The names of the cases whose work is the same in both; notes why the others are left out."""
    in_a, in_b = ({case["name"]: case for case in s["cases"]} or {"": s} for s in (a, b))
    same = set()
    for name in {**in_a, **in_b}:
        where = f"{a['name']}: {name}" if name else a["name"]
        if name not in in_a or name not in in_b:
            result.left_out.append((where, f"measured in {'A' if name in in_a else 'B'} alone"))
            continue
        x, y = in_a[name], in_b[name]
        other = [(title, x.get(key), y.get(key)) for key, title in WORK.items()]
        other += [(title, x["dataset"][key], y["dataset"][key]) for key, title in DATA.items()]
        different = [f"{title} is {u} in A and {v} in B" for title, u, v in other if u != v]
        if different:
            result.left_out.append((where, f"not the same work: {'; '.join(different)}"))
        else:
            same.add(name)
    return same


def welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None, float | None, float | None]:
    """(ratio, low, high, p) of exp(mean of b - mean of a), for logarithms of independent rounds.

    Without FEWEST_ROUNDS in both, the ratio alone is given.
    """
    difference = math.fsum(b) / len(b) - math.fsum(a) / len(a)
    if min(len(a), len(b)) < FEWEST_ROUNDS:
        return math.exp(difference), None, None, None
    from scipy.special import stdtr, stdtrit

    part_a, part_b = variance(a) / len(a), variance(b) / len(b)
    error = math.sqrt(part_a + part_b)
    if not error:
        same = math.exp(difference)
        return same, same, same, float(difference == 0)
    freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return (
        math.exp(difference),
        math.exp(difference - half),
        math.exp(difference + half),
        2 * float(stdtr(freedom, -abs(difference) / error)),
    )


def _differences(a: dict, b: dict) -> list[tuple[str, str, str]]:
    """What differs in the environments and options of two runs."""

    def first(document: dict) -> dict:
        return next(iter(document["environment"]["twins"].values()))

    looked_at: list[tuple[str, Callable[[dict], object]]] = [
        (
            "commit",
            lambda d: (
                d["environment"]["revision"]["commit"][:12]
                + (" with changes" if d["environment"]["revision"]["dirty"] else "")
            ),
        ),
        ("sources of loader and bench", lambda d: d["environment"]["source"][:12]),
        ("processor", lambda d: first(d)["cpu"]["model"]),
        ("CPUs usable", lambda d: min(t["cpu"]["usable"] for t in d["environment"]["twins"].values())),
        # The kernel keeps some memory for itself, not always as much.
        ("memory", lambda d: f"{first(d)['memory']['total'] / 2**30:.0f} GiB"),
        (
            "system",
            lambda d: (
                f"{first(d)['os']['name']}, Linux {first(d)['os']['kernel']}, "
                f"container: {first(d)['os']['container'] or 'none'}"
            ),
        ),
        ("GPU", lambda d: ", ".join(first(d)["gpu"]["devices"]) or "none"),
        ("--quick", lambda d: "yes" if d["options"]["quick"] else "no"),
        ("--data", lambda d: d["options"]["data"] or "generated"),
    ]
    found = [(what, str(of(a)), str(of(b))) for what, of in looked_at if of(a) != of(b)]
    twins_a, twins_b = a["environment"]["twins"], b["environment"]["twins"]
    for twin in sorted({*twins_a, *twins_b}):
        if twin not in twins_a or twin not in twins_b:
            where = ("measured", "not measured") if twin in twins_a else ("not measured", "measured")
            found.append((f"{twin} twin", *where))
            continue
        found += _twin_differences(twin, twins_a[twin], twins_b[twin])
    return found


def _twin_differences(twin: str, a: dict, b: dict) -> Iterator[tuple[str, str, str]]:
    for what in ("version", "build", "compiler"):
        if a["interpreter"][what] != b["interpreter"][what]:
            yield f"{twin}: Python's {what}", a["interpreter"][what], b["interpreter"][what]
    for name in sorted({*a["packages"], *b["packages"]}):
        x, y = a["packages"].get(name, "none"), b["packages"].get(name, "none")
        if x != y:
            yield f"{twin}: {name}", x, y


def _cautions(name: str, document: dict) -> Iterator[str]:
    if document["status"] != "complete":
        yield f"{name} is incomplete: {document['reason']}"
    for scenario in document["scenarios"]:
        rounds = scenario["rounds"]
        marked = sum(bool(one["disturbance"]["marks"]) for one in rounds)
        if marked:
            yield f"{name}: {scenario['name']}: {marked} of {len(rounds)} rounds were disturbed by other load"
        if len(rounds) < FEWEST_ROUNDS:
            yield (
                f"{name}: {scenario['name']} has {len(rounds)} round{'s' if len(rounds) != 1 else ''}: "
                f"{FEWEST_ROUNDS} are needed to tell a change from noise"
            )
