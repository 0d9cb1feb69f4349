"""What changed from one run to another: machines, versions or commits, by their results.json alone.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean

from ftbench.plan.metrics import METRICS
from ftbench.plan.scenario import OWN
from ftbench.stats.statistics import CONFIDENCE, FEWEST_ROUNDS, NEGLIGIBLE, adjusted, logarithms
from ftbench.stats.waterfall import in_each_process

# What a comparison of values supposes to be the same in both runs, with its name for people. Not the turns: they are
# planned from what the machine cost meanwhile, and each is measured for itself.
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


USUAL_COLLATE = "torch's"
# From so many times the turns on, a caution is due: `typical` of 40 turns was seen to be 3% above that of 5.
MANY_TIMES = 2


@dataclass(frozen=True)
class Change:
    """One figure in both runs."""

    scenario: str
    what: str
    """The candidate's title, or the comparison's."""
    metric: str
    is_ratio: bool
    """Whether it is a ratio within a run; else it is a candidate's value in the metric's unit."""
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
    outcomes: list[str] = field(default_factory=list)
    """Scenarios of the thread-safety suite whose outcome changed, in words."""

    @property
    def beyond_noise(self) -> list[Change]:
        """The changes that are more than noise, the largest first."""
        return sorted((c for c in self.changes if c.beyond_noise), key=lambda c: -abs(math.log(c.ratio)))


def compare(a: dict, b: dict) -> Comparison:
    """Compare two documents (ftbench.document.store.load)."""
    result = Comparison(_differences(a, b), [*_cautions("A", a), *_cautions("B", b)])
    if any(what in ("processor", "CPUs usable", "memory") for what, _, _ in result.differences):
        result.cautions.append("A and B ran on different machines: values compare these, and only ratios the software")
    scenarios = [
        {
            s["name"]: {**s, "collate_fn": document["options"]["collate_fn"] or USUAL_COLLATE}
            for s in document["scenarios"]
        }
        for document in (a, b)
    ]
    for name in _in_both(result, "", "measured", scenarios):
        _scenario(result, *(of[name] for of in scenarios))
    _stress(result, a.get("stress"), b.get("stress"))
    for position, q in enumerate(adjusted([c.p for c in result.changes])):
        result.changes[position] = replace(result.changes[position], q=q)
    return result


def _in_both(
    result: Comparison, where: str, done: str, both: Sequence[Mapping[str, object]], titles: Mapping[str, str] = {}
) -> list[str]:
    """The keys that A and B have; notes those of one run alone, after the words of `where`."""
    a, b = both
    for run, alone in (("A", [key for key in a if key not in b]), ("B", [key for key in b if key not in a])):
        if alone:
            what = ", ".join(titles.get(key, key) for key in alone)
            result.left_out.append((f"{where}: {what}".strip(": "), f"{done} in {run} alone"))
    return [key for key in a if key in b]


def _stress(result: Comparison, a: dict | None, b: dict | None) -> None:
    """What the thread-safety suites of two runs, as far as they ran, found that the other did not."""
    if a is None or b is None:
        if a or b:
            result.left_out.append(("thread-safety suite", f"run in {'A' if a else 'B'} alone"))
        return
    outcomes = [{f"{r['scenario']} in {r['configuration']}": r["outcome"] for r in of["results"]} for of in (a, b)]
    for key in _in_both(result, "thread-safety suite", "run", outcomes):
        in_a, in_b = (of[key] for of in outcomes)
        if in_a != in_b:
            result.outcomes.append(f"{key}: {in_a} in A, {in_b} in B")
    for name, part in (("A", a), ("B", b)):
        if part["status"] != "complete":
            result.cautions.append(f"{name}'s thread-safety suite is incomplete: {part['reason']}")


def _scenario(result: Comparison, a: dict, b: dict) -> None:
    name, both = a["name"], (a, b)
    few, many = sorted(s["turns"] for s in both)
    if many >= MANY_TIMES * few:
        more = "A" if a["turns"] == many else "B"
        result.cautions.append(
            f"{name}: turns in a process are {a['turns']} in A and {b['turns']} in B: the faster half of more turns is "
            f"a little faster, so throughput in {more} may read up to 3% higher; ratios hardly change by that"
        )
    cases = _comparable_cases(result, a, b)
    titles = {c["key"]: c["title"] for s in (b, a) for c in s["candidates"]}
    of_case = {c["key"] for c in a["candidates"] if c["case"] in cases}
    measured = [{c["key"]: c for c in s["analysis"]["candidates"]} for s in both]
    keys = _in_both(result, name, "measured", measured, titles)
    pairs = [{(c["metric"], c["numerator"], c["denominator"]): c for c in s["analysis"]["comparisons"]} for s in both]
    for metric in (m for m in a["metrics"] if m in b["metrics"]):
        values = [{key: in_each_process(s, key, metric) for key in keys} for s in both]
        for pair, in_a in pairs[0].items():
            of_metric, numerator, denominator = pair
            in_b = pairs[1].get(pair)
            if in_b and of_metric == metric and numerator in of_case:
                logs = [logarithms(of[numerator], of[denominator]) for of in values]
                title = in_a["title"].split(":")[0]
                result.changes.append(Change(name, title, metric, True, in_a["mean"], in_b["mean"], *welch(*logs)))
        for key in keys:
            if key in of_case:
                logs = [[math.log(value) for value in of[key]] for of in values]
                x, y = (geometric_mean(of[key]) for of in values)
                result.changes.append(Change(name, titles[key], metric, False, x, y, *welch(*logs)))


def _comparable_cases(result: Comparison, a: dict, b: dict) -> set[str]:
    """The names of the cases whose work is the same in both; notes why the others are left out."""
    cases = [{case["name"]: case for case in s["cases"]} or {"": s} for s in (a, b)]
    same = set()
    for name in _in_both(result, a["name"], "measured", cases):
        x, y = (of[name] for of in cases)
        work = dict(WORK)
        if a["name"] == OWN:  # whose batches are as many as a time that was measured asks for
            work["collate_fn"], title = "collate_fn", work.pop("batches_per_worker")
            if x["batches_per_worker"] != y["batches_per_worker"]:
                in_each = f"{x['batches_per_worker']} in A and {y['batches_per_worker']} in B"
                result.cautions.append(f"{OWN}: {title} in a turn are {in_each}, chosen from measured times")
        other = [(title, x.get(key), y.get(key)) for key, title in work.items()]
        if a["name"] == OWN:  # wherever the files lie
            other.append(("dataset", *(s["description"].rpartition("/")[2] for s in (a, b))))
        other += [(title, x["dataset"][key], y["dataset"][key]) for key, title in DATA.items()]
        different = [f"{title} is {u} in A and {v} in B" for title, u, v in other if u != v]
        if different:
            where = f"{a['name']}: {name}" if name else a["name"]
            result.left_out.append((where, f"not the same work: {'; '.join(different)}"))
        else:
            same.add(name)
    return same


def welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None, float | None, float | None]:
    """(ratio, low, high, p) of exp(mean of b - mean of a), for logarithms of independent rounds.

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


def _differences(a: dict, b: dict) -> list[tuple[str, str, str]]:
    """What differs in the environments and options of two runs."""
    in_a, in_b = _described(a), _described(b)
    found = [(what, in_a[what], in_b[what]) for what in in_a if in_a[what] != in_b[what]]
    twins_a, twins_b = a["environment"]["twins"], b["environment"]["twins"]
    for twin in sorted({*twins_a, *twins_b}):
        if twin not in twins_a or twin not in twins_b:
            where = ("measured", "not measured") if twin in twins_a else ("not measured", "measured")
            found.append((f"{twin} twin", *where))
            continue
        found += _twin_differences(twin, twins_a[twin], twins_b[twin])
    return found


def _described(document: dict) -> dict[str, str]:
    """What a run ran on and was asked for, in words."""
    environment, options = document["environment"], document["options"]
    revision, twins = environment["revision"], list(environment["twins"].values())
    first = twins[0]
    system = first["os"]
    return {
        "commit": revision["commit"][:12] + (" with changes" if revision["dirty"] else ""),
        "sources of loader and bench": environment["source"][:12],
        "processor": first["cpu"]["model"],
        "CPUs usable": str(min(twin["cpu"]["usable"] for twin in twins)),
        # The kernel keeps some memory for itself, not always as much.
        "memory": f"{first['memory']['total'] / 2**30:.0f} GiB",
        "system": f"{system['name']}, Linux {system['kernel']}, container: {system['container'] or 'none'}",
        "GPU": ", ".join(first["gpu"]["devices"]) or "none",
        "--quick": "yes" if options["quick"] else "no",
        "--data": options["data"] or "generated",
        "--collate-fn": options["collate_fn"] or USUAL_COLLATE,
        "--requirements": ", ".join(options["requirements"]) or "none",
        "--batch-size": str(options["batch_size"] or "the scenarios'"),
        "--workers": ", ".join(map(str, options["workers"] or ())) or "the scenarios'",
    }


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
