"""Every scenario of tests/stress/scenarios, each in its own process.

Default: a moment each. `--minutes 30` shares that time among them; `--seed` chooses other random
numbers; `--stress-report FILE` collects what each did.
"""

import pytest

from tests.stress import engine
from tests.stress.scenarios import containers, files, libraries, loaders, storms

SCENARIOS = [
    cls
    for module in (containers, libraries, files, loaders, storms)
    for name, cls in vars(module).items()
    if isinstance(cls, type)
    and issubclass(cls, engine.Scenario)
    and cls.__module__ == module.__name__
    and not name.startswith("_")
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=engine.name_of)
def test_scenario(stress, scenario):
    stress(scenario)
