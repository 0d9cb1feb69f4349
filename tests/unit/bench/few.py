"""`python -m ftbench` with few candidates that do little: a real run of the command within seconds.

``python -m tests.unit.bench.few [--warm-up] SCENARIO=CANDIDATE,... [SCENARIO=...] -- ARGUMENT
...``; candidates without their configuration, such as ``loader-thread/2@idle``.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ftbench import cli
from ftbench.plan.candidates import Candidate, Pair, Ranking
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import ComparisonPlan
from ftbench.plan.scenario import OWN, Scenario
from ftbench.rounds.controller import Controller
from ftbench.scenarios import SCENARIOS, own
from ftbench.stats.allocation import Costs

MOST_BATCHES = {"cache": 60}
"""Batches for each worker, by scenario; 2 in all others."""


@dataclass(frozen=True)
class Few:
    """Some candidates of a plan, the plan's comparisons of them, and cases of few batches."""

    plan: ComparisonPlan
    cases: tuple[Case, ...]
    names: tuple[str, ...]

    def ranked(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> Ranking:
        ranked = self.plan.ranked(configs, workers, quick)
        few = [c for c in ranked.candidates if c.key.partition("/")[2] in self.names]
        assert {c.key.partition("/")[2] for c in few} == {*self.names}, (
            "they have to be of the plan"
        )
        return Ranking((0, c) for c in few)

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        return self.plan.pairs(candidates)


def shortened(scenario: Scenario, names: Iterable[str]) -> Scenario:
    """Return the scenario with these candidates, and few batches in a turn."""
    most = MOST_BATCHES.get(scenario.name, 2)

    def little(amount: Amount | None) -> Amount | None:
        return amount and replace(amount, batches_per_worker=min(most, amount.batches_per_worker))

    cases = tuple(
        replace(case, quick=little(case.quick or case.full)) for case in scenario.plan.cases
    )
    return replace(
        scenario, quick=little(scenario.quick), plan=Few(scenario.plan, cases, tuple(names))
    )


def main(arguments: list[str]) -> int:
    """Run the command with the ARGUMENTs after "--"; return its exit status."""
    split = arguments.index("--")
    plans = arguments[:split]
    if "--warm-up" in plans:
        plans.remove("--warm-up")
    else:
        Controller.warm_up = lambda *_: Costs(1.0, 0.0, 0.1)
    for each in plans:
        name, _, names = each.partition("=")
        if name == OWN:
            real = own.scenario
            own.scenario = lambda *given, names=names: shortened(real(*given), names.split(","))
            own.TURN_SECONDS = 0.02
        else:
            SCENARIOS[name] = shortened(SCENARIOS[name], names.split(","))
    return cli.main(arguments[split + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
