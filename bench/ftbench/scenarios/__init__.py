"""The scenarios that can be measured, by name, and their groups.

A scenario is a ftbench.plan.scenario.Scenario, made by a file of this package; the file of a group makes several. It
says what a sample is, how much work makes a measurement, and which candidates are compared. It knows nothing of
rounds, statistics or reports. The controller imports these files and has no torch, so a file imports the libraries of
its dataset only when a trial builds the dataset.

A dataset changes nothing after its construction, so threads may share it. It keeps no modules, since start methods
other than fork pickle it.
"""

from __future__ import annotations

import importlib

from ftbench.plan.scenario import Scenario
from ftbench.scenarios import own

FILES = (
    "pillow",
    "text",
    "nvimgcodec",
    "augment",
    "raw",
    "interference",
    "overlap",
    "memory",
    "startup",
    "latency",
    "cache",
    "contention",
    "training",
    "peers",
)
"""Every file of scenarios, in the order of ``bench --list`` and of reports. A new scenario is entered here alone.

A file has SCENARIO; that of a group has SCENARIOS, NAME and DESCRIPTION instead. One of these may be outside the group.
"""

_MODULES = [importlib.import_module(f"{__name__}.{file}") for file in FILES]
_GROUPS = [module for module in _MODULES if hasattr(module, "SCENARIOS")]
SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for module in _MODULES
    for scenario in (module.SCENARIOS if module in _GROUPS else (module.SCENARIO,))
}
GROUPS: dict[str, str] = {group.NAME: group.DESCRIPTION for group in _GROUPS}
DEFAULT = ("pillow", "text")
"""What is measured when nothing is named: work that releases the GIL, and work that holds it."""


def find(name: str) -> Scenario:
    """Return the scenario of this name; raises KeyError.

    Besides SCENARIOS it finds those that no command line names: the user's dataset, and "module:NAME", which another
    module makes (evaluation/trust).
    """
    module, elsewhere, attribute = name.partition(":")
    if elsewhere:
        return getattr(importlib.import_module(module), attribute)
    return {**SCENARIOS, own.SCENARIO.name: own.SCENARIO, own.LOOK.name: own.LOOK}[name]


def members(name: str) -> list[Scenario]:
    """Return the scenarios that a name on the command line stands for: one, a group's, or all; [] if unknown."""
    return [each for each in SCENARIOS.values() if name and name in ("all", each.group, each.name)]
