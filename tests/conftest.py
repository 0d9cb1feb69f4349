"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

import pytest

# A background job of a non-interactive shell, and some CI runners, start with SIGINT ignored, and all
# their children inherit that. The programs under test are to be interrupted as at a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What the runner of the tests set for its own twin, and what would choose other twins.
_OWN = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHON_GIL", "FT_PYTHON", "GIL_PYTHON", "PYTHON_SERIES", "PYTHON_SUITE")


@pytest.fixture(scope="session")
def shell_environment():
    """The variables of a user's shell: outside the environment that runs the tests."""
    variables = {name: value for name, value in os.environ.items() if name not in _OWN}
    own = str(Path(sys.prefix) / "bin")
    variables["PATH"] = os.pathsep.join(part for part in variables["PATH"].split(os.pathsep) if part != own)
    return variables
