"""What comparisons say, in sentences: one by one, and many in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ftbench.report import series, words
from ftbench.stats.statistics import FEWEST_ROUNDS, NO_DIFFERENCE, TOO_FEW, median

# A scenario's conclusion.
MOST_SENTENCES = 3
# So many outcomes have a middle that is worth a word.
FEWEST_TYPICAL = 3


@dataclass(frozen=True)
class Finding:
    """A scenario's comparison that answers one of the questions."""

    scenario: dict
    comparison: dict

    @property
    def where(self) -> str:
        """The scenario, with its case."""
        c = words.contestant(self.scenario, self.comparison["numerator"])
        case = series.case_title(self.scenario, c["case"])
        return f"{self.scenario['name']}, {case}" if case else self.scenario["name"]

    @property
    def result(self) -> str:
        """ "21% faster (18% to 25%)"."""
        return words.short(self.scenario, self.comparison)

    @property
    def advantage(self) -> float:
        """The ratio, turned so that above 1 the first is better."""
        best = words.metric_of(self.comparison["metric"]).best
        return self.comparison["mean"] if best == "higher" else 1 / self.comparison["mean"]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ratio's interval, turned alike."""
        low, high = self.comparison["low"], self.comparison["high"]
        if low is None:
            return None
        return (low, high) if words.metric_of(self.comparison["metric"]).best == "higher" else (1 / high, 1 / low)

    @property
    def outcome(self) -> str:
        """ "better", "worse", "same" or "unknown" (too few rounds)."""
        if self.comparison["verdict"] == TOO_FEW:
            return "unknown"
        if self.comparison["verdict"] == NO_DIFFERENCE:
            return "same"
        return "better" if self.advantage > 1 else "worse"


def tell(
    found: Sequence[Finding],
    ours: str,
    theirs: str,
    before: str = "",
    where: Callable[[Finding], str] = lambda finding: finding.where,
) -> str:
    """Several comparisons in a sentence: how many went which way, and the extremes; `where` says of one which it is."""
    outcomes = {name: [f for f in found if f.outcome == name] for name in ("better", "worse", "same", "unknown")}
    number = len(found)
    if len(outcomes["unknown"]) == number:
        low, high = (words.times(which(f.comparison["mean"] for f in found)) for which in (min, max))
        return (
            f"{before}{ours} and {theirs} met in {number} comparisons ({low} to {high}), all of too few rounds "
            f"for a verdict ({FEWEST_ROUNDS} are needed)."
        )
    parts = []
    for name, verb in (("better", "did better"), ("worse", "did worse")):
        if outcomes[name]:
            extreme = (max if name == "better" else min)(outcomes[name], key=lambda f: f.advantage)
            most = "most" if len(outcomes[name]) > 1 else "namely"
            if len(outcomes[name]) >= FEWEST_TYPICAL:
                middle = median([max(f.advantage, 1 / f.advantage) for f in outcomes[name]])
                most = f"typically by a factor of {middle:.{1 if middle < 10 else 0}f}, {most}"
            count = "all" if len(outcomes[name]) == number else len(outcomes[name])
            parts.append(f"{verb} in {count} ({most} {extreme.result} in {where(extreme)})")
    if outcomes["same"]:
        count = "any" if len(outcomes["same"]) == number else len(outcomes["same"])
        parts.append(f"were not shown to differ in {count}")
    if outcomes["unknown"]:
        parts.append(f"had too few rounds in {len(outcomes['unknown'])}")
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"{before}of {number} comparisons with {theirs}, {ours} {listed}."


def conclusion(scenario: dict, comparison: dict) -> str:
    """One comparison of the scenario's metric, as a sentence."""
    pair = [words.contestant(scenario, comparison[side]) for side in ("numerator", "denominator")]
    same_case, same_workers = (pair[0][what] == pair[1][what] for what in ("case", "workers"))
    if not same_case and all(pair[0][what] == pair[1][what] for what in ("config", "variant", "workers")):
        return _of_cases(scenario, comparison, *pair)
    a, b = (words.describe(scenario, c["key"], not same_workers, not same_case) for c in pair)
    head = f"with {words.workers(pair[0]['workers'])}, " if same_workers and pair[0]["workers"] else ""
    case = series.case_title(scenario, pair[0]["case"]) if same_case else ""
    more = words.settles(scenario, comparison)
    after = f" ({more})" if more else ""
    target = f"; target {words.target(comparison)}" if comparison["target"] else ""
    about = words.metric(scenario)
    of = "" if about.above in ("faster", "more memory") else f"{about.noun} "
    return words.capital(
        f"{head}{a} against {b}{f', {case}' if case else ''}: {of}{words.short(scenario, comparison)}{after}{target}."
    )


def _of_cases(scenario: dict, comparison: dict, a: dict, b: dict) -> str:
    """One contestant under two cases, as a sentence."""
    who = words.describe(scenario, a["key"], with_case=False)
    cases = " against ".join(series.case_title(scenario, c["case"]) for c in (a, b))
    return (
        f"{words.capital(who)} with {words.workers(a['workers'])}, {cases}: {words.metric(scenario).noun} "
        f"{words.short(scenario, comparison)}."
    )


def verdict(scenario: dict) -> list[str]:
    """The conclusion in sentences: of what has targets, one for each; else at most three, the most important first.

    At the most workers measured. What was compared under several cases is told in one sentence.
    """
    found = words.comparisons(scenario, words.metric(scenario).name)
    wanted = [c for c in found if c["target"] is not None]
    if wanted:
        return [conclusion(scenario, c) for c in wanted]
    return [_of_group(scenario, group) for group in _chosen(scenario, found)[:MOST_SENTENCES]]


def _chosen(scenario: dict, found: Sequence[dict]) -> list[list[dict]]:
    """Comparisons in groups of one question each: two of the most important kind, one of each other, then the rest."""
    kinds: dict[str, dict[tuple, list[dict]]] = {}
    for c in found:
        pair = [words.contestant(scenario, c[side]) for side in ("numerator", "denominator")]
        who = tuple((p["config"], p["variant"], p["workers"]) for p in pair)
        kinds.setdefault(c["kind"], {}).setdefault(who, []).append(c)
    # How a contestant scales is in the charts; threads against processes is what a headline says, too.
    left_out = {"scaling"} | ({"method"} if "headline" in kinds else set())
    chosen = []
    for kind, groups in kinds.items():
        most = max(who[0][2] for who in groups)
        if kind not in left_out or len(kinds) == 1:
            chosen.append([group for who, group in groups.items() if who[0][2] == most])
    if not chosen:
        return []
    first, *others = chosen
    return [*first[:2], *(groups[0] for groups in others), *first[2:], *(g for groups in others for g in groups[1:])]


def _of_group(scenario: dict, group: Sequence[dict]) -> str:
    first = group[0]
    pair = [words.contestant(scenario, first[side]) for side in ("numerator", "denominator")]
    if len(group) == 1 or pair[0]["case"] != pair[1]["case"]:
        return conclusion(scenario, first)
    same = pair[0]["workers"] == pair[1]["workers"]
    ours, theirs = (words.describe(scenario, c["key"], with_workers=not same, with_case=False) for c in pair)
    before = f"With {words.workers(pair[0]['workers'])}, " if same and pair[0]["workers"] else ""
    return words.capital(
        tell(
            [Finding(scenario, c) for c in group],
            ours,
            theirs,
            before,
            lambda f: series.case_title(scenario, words.contestant(scenario, f.comparison["numerator"])["case"]),
        )
    )
