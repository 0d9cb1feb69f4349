"""The environment variables for commands in a twin."""

from __future__ import annotations

import os

from .build import SOURCES, Twin


def environment(twin: Twin) -> dict:
    """Return the environment variables for a command that runs in `twin`."""
    variables = dict(os.environ)
    variables["VIRTUAL_ENV"] = str(twin.directory)
    variables["PATH"] = f"{twin.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
    # Our packages come from this checkout, not from the environment, which all clones share.
    variables["PYTHONPATH"] = os.pathsep.join([*SOURCES, *filter(None, [variables.get("PYTHONPATH")])])
    variables.pop("PYTHONHOME", None)
    # A notebook names a module of its own environment. Elsewhere matplotlib cannot be imported with this setting.
    if variables.get("MPLBACKEND", "").startswith("module://"):
        del variables["MPLBACKEND"]
    return variables
