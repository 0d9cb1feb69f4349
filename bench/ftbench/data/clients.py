"""Clients that read an object from a web server: one function (address, path) -> bytes for each, safe under threads.

A process makes its client when it first reads: a process that has read with obstore crashes if it forks workers
that read with it, too (obstore 0.10.1).
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

_own = threading.local()


def read_fsspec(address: str, path: str) -> bytes:
    """Read with fsspec, which sends all requests of a process through the one thread of its event loop."""
    import fsspec

    return fsspec.filesystem("http").cat_file(f"{address}/{path}")


def read_requests(address: str, path: str) -> bytes:
    """Read with requests (urllib3): each thread has a session of its own, and with it a connection."""
    if not hasattr(_own, "session"):
        import requests

        _own.session = requests.Session()
        # Proxies of the environment are looked up for each request otherwise.
        _own.session.trust_env = False
    answer = _own.session.get(f"{address}/{path}")
    answer.raise_for_status()
    return answer.content


@functools.cache
def _store(address: str) -> Any:
    from obstore.store import HTTPStore

    return HTTPStore.from_url(address, client_options={"allow_http": True})


def read_obstore(address: str, path: str) -> Any:
    """Read with obstore, a client in Rust that waits without the GIL. Returns its bytes, which support buffers."""
    return _store(address).get(path).bytes()


READ: dict[str, Callable[[str, str], Any]] = {"fsspec": read_fsspec, "requests": read_requests, "obstore": read_obstore}
MODULES = {"fsspec": "fsspec.implementations.http", "requests": "requests", "obstore": "obstore.store"}


def prepare(client: str) -> None:
    """Import a client's library, before workers are forked, so that they do not import it again."""
    importlib.import_module(MODULES[client])
