"""What all tests share."""

import os
import sys
from pathlib import Path

import pytest

# What the runner of the tests set for its own twin, and what would choose other twins.
_OWN = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHON_GIL", "FT_PYTHON", "GIL_PYTHON", "PYTHON_SERIES", "PYTHON_SUITE")


@pytest.fixture(scope="session")
def shell_environment():
    """The variables of a user's shell: outside the environment that runs the tests."""
    variables = {name: value for name, value in os.environ.items() if name not in _OWN}
    own = str(Path(sys.prefix) / "bin")
    variables["PATH"] = os.pathsep.join(part for part in variables["PATH"].split(os.pathsep) if part != own)
    return variables
