"""Functions that download a file from a web server,
one for each client library. Threads may call them.

A process makes its client only when it downloads for the first time, so that forked workers inherit
no client. With obstore 0.10.1, a forked worker crashes if it downloads after its parent process has
downloaded.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

_own = threading.local()


def read_fsspec(address: str, path: str) -> bytes:
    """Download with fsspec, which sends all requests
    of a process through the one thread of its event loop.
    """
    import fsspec

    return fsspec.filesystem("http").cat_file(f"{address}/{path}")


def read_requests(address: str, path: str) -> bytes:
    """Download with requests (urllib3). Each thread has its own session,
    and so its own connection.
    """
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
    """Download with obstore, which waits in Rust without the GIL.
    Returns an object with the buffer protocol.
    """
    return _store(address).get(path).bytes()


READ: dict[str, Callable[[str, str], Any]] = {
    "fsspec": read_fsspec,
    "requests": read_requests,
    "obstore": read_obstore,
}
MODULES = {
    "fsspec": "fsspec.implementations.http",
    "requests": "requests",
    "obstore": "obstore.store",
}


def prepare(client: str) -> None:
    """Import a client's library. Called before workers are forked,
    so that no worker has to import it again.
    """
    importlib.import_module(MODULES[client])
