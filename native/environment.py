"""Under which variables a command runs in a twin."""

from __future__ import annotations

import os

from .build import SOURCES, Twin


def environment(twin: Twin) -> dict:
    """The environment variables under which a command runs in `twin`."""
    variables = dict(os.environ)
    variables["VIRTUAL_ENV"] = str(twin.directory)
    variables["PATH"] = f"{twin.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
    # The packages come from the checkout, which the environment, shared by all clones, does not name.
    variables["PYTHONPATH"] = os.pathsep.join([*SOURCES, *filter(None, [variables.get("PYTHONPATH")])])
    variables.pop("PYTHONHOME", None)
    return variables
