"""Two runs side by side, as text on a terminal or in a pipe."""

from collections.abc import Iterator

from ftbench.document.model import Change, Results, Verdict
from ftbench.plan.metrics import METRICS
from ftbench.report import run_words, verdict_words
from ftbench.report.compare import FigureChange, RunComparison
from ftrun.escape import one_line


def _head(name: str, where: str, results: Results) -> Iterator[str]:
    yield f"{name}: {where}"
    yield f"   {results.started}, revision {run_words.revision(results)}, {results.status}"
    yield f"   {run_words.machine(results)}"
    for line in run_words.builds(results):
        yield f"   {line}"


def text(comparison: RunComparison, a: tuple[str, Results], b: tuple[str, Results]) -> str:
    """Word the whole comparison; `a` and `b` are (path, results)."""
    lines = [*_head("A", *a), *_head("B", *b), ""]
    if comparison.differences:
        lines.append("What differs in the runs themselves:")
        lines += [f"  {what}: {x} in A, {y} in B" for what, x, y in comparison.differences]
    else:
        lines.append("The runs themselves differ in nothing that they recorded.")
    lines += [f"caution: {each}" for each in comparison.cautions]
    lines += [f"not compared: {what}: {why}" for what, why in comparison.left_out]
    if comparison.outcomes:
        lines += ["", "thread-safety suite:", *(f"  changed   {each}" for each in comparison.outcomes)]
    elif a[1].stress and b[1].stress:
        lines += ["", "thread-safety suite: the same outcome in both of every scenario that ran in both"]
    for scenario in dict.fromkeys(c.scenario for c in comparison.changes):
        of = [c for c in comparison.changes if c.scenario == scenario]
        for is_ratio, title in ((True, "ratios within the runs"), (False, "values")):
            lines += _block(f"{scenario}, {title}", [c for c in of if c.is_ratio == is_ratio])
    lines += ["", conclusion(comparison)]
    return "\n".join(map(one_line, lines))


def _block(title: str, changes: list[FigureChange]) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield f"{title}:"
    changed = [c for c in changes if c.beyond_noise]
    for c in sorted(changed, key=lambda c: -max(c.ratio, 1 / c.ratio)):
        yield f"  changed   {describe(c)}"
    for metric in dict.fromkeys(c.metric for c in changes):
        rest = [c for c in changes if c.metric == metric and not c.beyond_noise]
        if not rest:
            continue
        untold = [c for c in rest if c.low is None]
        far = max(max(c.ratio, 1 / c.ratio) for c in rest)
        why = "too few rounds to tell" if untold else "no change that can be told from noise"
        yield (
            f"  {'unknown  ' if untold else 'unchanged'} {run_words.count(len(rest), 'figure')} of "
            f"{METRICS[metric].noun}, at most {verdict_words.change(far)} apart: {why}"
        )


def describe(change: FigureChange) -> str:
    """Word a change: "ft loader threads x2: 14% faster (8% to 20%): 1512 samples/s in A, 1720 in B"."""
    metric = METRICS[change.metric]
    known = Change(ratio=change.ratio, low=change.low, high=change.high, n=1, resolution=None, verdict=Verdict.ABOVE)
    said = verdict_words.outcome(metric, known)
    if change.is_ratio:
        return f"{change.what}, {metric.noun}: {change.a:.2f}x in A, {change.b:.2f}x in B: {said}"
    of = "" if metric.name == "throughput" else f"{metric.noun} "
    return f"{change.what}: {of}{said}: {metric.write(change.a)} {metric.unit} in A, {metric.write(change.b)} in B"


def conclusion(comparison: RunComparison) -> str:
    """Word the comparison's conclusion in a sentence."""
    if not comparison.changes:
        return "Nothing could be compared."
    changed = comparison.beyond_noise
    of = run_words.count(len(comparison.changes), "figure")
    if not any(c.low is not None for c in comparison.changes):
        return f"Of {of} none can be told from noise: three rounds are needed in both runs."
    if not changed:
        return f"Of {of} none changed beyond the noise; that is not to say that nothing changed."
    values = [c for c in changed if not c.is_ratio]
    better = sum(c.better for c in values)
    ratios = run_words.count(len(changed) - len(values), "ratio")
    return (
        f"Of {of} {len(changed)} changed beyond the noise: {ratios} within the runs, and "
        f"{run_words.count(len(values), 'value')} ({better} better in B, {len(values) - better} worse)."
    )
