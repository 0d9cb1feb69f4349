"""The scenarios that can be measured, by name, and their groups.

A scenario is a ftbench.plan.scenario.Scenario that a file of this package makes, entered below; the file of a group
makes several. It says what a sample is, how much of it makes a measurement and who takes part; it
knows nothing of rounds, statistics or reports. The modules are imported by the controller, which has
no torch, so whatever a dataset needs is imported when the trial builds it.

A dataset changes nothing after its construction, so threads may share it. It keeps no modules, since start methods
other than fork pickle it.
"""

from __future__ import annotations

import importlib

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
    """Return a scenario by its name, also one that no command line names; raises KeyError.

    "module:NAME" is one that another module makes (evaluation/trust).
    """
    module, elsewhere, attribute = name.partition(":")
    if elsewhere:
        return getattr(importlib.import_module(module), attribute)
    return {**SCENARIOS, **{each.name: each for each in (own.SCENARIO, own.LOOK)}}[name]


def members(name: str) -> list[Scenario]:
    """The scenarios that a name on the command line stands for: one, a group's, or all; none if unknown."""
    return [each for each in SCENARIOS.values() if name and name in ("all", each.group, each.name)]
