"""Makes processes that ``multiprocessing`` starts afresh, by spawn or forkserver, install the class
before they import the program's ``__main__``. Forked ones have it.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

from ftloader.drop_in.installed import DropInSettings, install


class _Installs:
    """Object that installs the class in the process that unpickles it."""

    def __init__(self, settings: DropInSettings) -> None:
        self._settings = settings

    def __reduce__(self) -> tuple[Callable, tuple]:
        settings = self._settings
        return install, (settings.workers, settings.worker_method, settings.copy_dataset)


def install_in_children(settings: DropInSettings) -> None:
    """Install the class, with *settings*, in each process that is started from now on."""
    original = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        # A child unpickles this before it uses any of it, and passes over keys that it does not
        # know.
        return original(name) | {"ftloader": _Installs(settings)}

    spawn.get_preparation_data = get_preparation_data
    # Not "__main__", the default: it would be imported before anything is installed.
    multiprocessing.set_forkserver_preload(["ftloader"])
