"""The environment variables for commands in a twin."""

from __future__ import annotations

import os

from .build import SOURCES, Twin


def environment(twin: Twin) -> dict:
    """The environment variables under which a command runs in `twin`."""
    variables = dict(os.environ)
    variables["VIRTUAL_ENV"] = str(twin.directory)
    variables["PATH"] = f"{twin.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
    # Our packages come from this checkout. The environment does not hold them: all clones share it.
    variables["PYTHONPATH"] = os.pathsep.join([*SOURCES, *filter(None, [variables.get("PYTHONPATH")])])
    variables.pop("PYTHONHOME", None)
    # A notebook names a module of its own environment, without which matplotlib cannot be imported in another one.
    if variables.get("MPLBACKEND", "").startswith("module://"):
        del variables["MPLBACKEND"]
    return variables
