"""The scenarios that can be measured, by name, and their groups.

A scenario (ftbench.plan.scenario.Scenario) defines its samples, the amount of work in a
measurement, and the candidates to compare. The controller imports these files and has no torch, so
a file imports the libraries of its dataset only when a trial builds the dataset. A dataset does not
change after its construction, so threads may share it. No attribute of a dataset is a module, since
start methods other than fork pickle the dataset.
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
"""Every file of scenarios, in the order of ``bench --list`` and of reports. A new scenario is
entered only here.

A file defines SCENARIO. The file of a group defines SCENARIOS, NAME and DESCRIPTION instead.
"""

_MODULES = [importlib.import_module(f"{__name__}.{file}") for file in FILES]
_GROUPS = [module for module in _MODULES if hasattr(module, "SCENARIOS")]
SCENARIOS: dict[str, Scenario] = {}
for _module in _MODULES:
    for _scenario in _module.SCENARIOS if _module in _GROUPS else (_module.SCENARIO,):
        SCENARIOS[_scenario.name] = _scenario
GROUPS: dict[str, str] = {group.NAME: group.DESCRIPTION for group in _GROUPS}
DEFAULT = ("pillow", "text")
"""Scenarios that are measured by default: work that releases the GIL, and work that holds it."""


def find(name: str) -> Scenario:
    """Return the scenario called *name*, which may be one of
    those in ftbench.scenarios.own; raises KeyError.

    The name "module:NAME" stands for the object NAME of any module,
    such as one in evaluation/trust.
    """
    module, elsewhere, attribute = name.partition(":")
    if elsewhere:
        return getattr(importlib.import_module(module), attribute)
    return {
        **SCENARIOS,
        own.SCENARIO.name: own.SCENARIO,
        own.LOOK.name: own.LOOK,
        own.SEARCH.name: own.SEARCH,
        own.COPY.name: own.COPY,
        own.WHY.name: own.WHY,
    }[name]


def members(name: str) -> list[Scenario]:
    """Return the scenarios for a name on the command line: a scenario,
    a group or "all"; [] if it is unknown.
    """
    return [
        scenario
        for scenario in SCENARIOS.values()
        if name and name in ("all", scenario.group, scenario.name)
    ]
