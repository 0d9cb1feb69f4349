"""The scenarios that can be measured, by name, and their groups.

A scenario is one file of this package (or of a group's package) that makes a ftbench.plan.scenario.Scenario,
entered below. It says what a sample is, how much of it makes a measurement and who takes part; it
knows nothing of rounds, statistics or reports. The modules are imported by the controller, which has
no torch, so whatever a dataset needs is imported when the trial builds it.
"""

from __future__ import annotations

from ftbench.plan.scenario import Scenario
from ftbench.scenarios import (
    augment,
    cache,
    combined,
    contention,
    interference,
    latency,
    memory,
    nvimgcodec,
    overlap,
    own,
    peers,
    pillow,
    raw,
    startup,
    text,
    training,
    trust,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        pillow.SCENARIO,
        text.SCENARIO,
        *nvimgcodec.SCENARIOS,
        combined.SCENARIO,
        *augment.SCENARIOS,
        *raw.SCENARIOS,
        interference.SCENARIO,
        overlap.SCENARIO,
        memory.SCENARIO,
        startup.SCENARIO,
        latency.SCENARIO,
        cache.SCENARIO,
        contention.SCENARIO,
        training.SCENARIO,
        *peers.SCENARIOS,
    )
}
# What is measured when nothing is named: work that releases the GIL, and work that holds it.
DEFAULT = (pillow.SCENARIO.name, text.SCENARIO.name)
GROUPS: dict[str, str] = {group.NAME: group.DESCRIPTION for group in (nvimgcodec, augment, raw, peers)}


def find(name: str) -> Scenario:
    """A scenario by its name, also one that no command line names: the user's own, the suite's own test.

    Raises KeyError.
    """
    return {**SCENARIOS, **{each.name: each for each in (trust.SCENARIO, own.SCENARIO, own.LOOK)}}[name]


def members(name: str) -> list[Scenario]:
    """The scenarios that a name on the command line stands for: one, a group's, or all; none if unknown."""
    if name == "all":
        return list(SCENARIOS.values())
    if name in GROUPS:
        return [scenario for scenario in SCENARIOS.values() if scenario.group == name]
    return [SCENARIOS[name]] if name in SCENARIOS else []
