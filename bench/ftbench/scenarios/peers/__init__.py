"""The group `peers`: this project's loader against torch's, torchdata.nodes', spdl's and none.

Each file makes scenarios; who takes part, who is compared and what the project wants is beside them.
"""

from __future__ import annotations

from ftbench.plan.scenario import Scenario
from ftbench.scenarios.peers import memory, pillow, samples, startup

NAME = "peers"
DESCRIPTION = "this loader against torch's DataLoader, torchdata.nodes, spdl and a bare loop, with targets"

SCENARIOS: tuple[Scenario, ...] = (*pillow.SCENARIOS, *samples.SCENARIOS, startup.SCENARIO, memory.SCENARIO)
