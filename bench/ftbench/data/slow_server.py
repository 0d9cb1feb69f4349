"""A web server that answers late, in a process of its own: remote storage without a network.

``python -m ftbench.data.slow_server --delay 0.05 --size 100000`` listens on a free port of 127.0.0.1, prints
it, and serves ``/samples/I``: `size` bytes that only depend on I. The first byte of every answer leaves
`delay` seconds after its request has come, however many are waiting, as with a store that is far away
and never busy. HTTP/1.1 with persistent connections and GET, which is what fsspec reads with.

The process is one event loop in one thread. It ends with its standard input, whose other end the
process holds that started it, and by the kernel with that process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import cast

from ftrun.parent_death import die_with_parent

# A client that sends no end of a request's head is no client of ours.
LONGEST_HEAD = 1 << 16
# Samples that are kept once made: no more than this in all.
KEPT_BYTES = 256 << 20

_CLOSE = re.compile(rb"\r\nconnection:[^\r\n]*\bclose\b", re.IGNORECASE)
_PATH = re.compile(r"/samples/(\d{1,9})")


def content(number: int, size: int) -> bytes:
    """Sample `number`: `size` bytes that no compressor makes smaller, the same everywhere."""
    return hashlib.shake_128(f"sample {number}".encode()).digest(size)


class _Answers(asyncio.Protocol):
    """One connection. Owned by the event loop's thread."""

    def __init__(self, delay: float, body: Callable[[int], bytes]):
        self._delay, self._body = delay, body
        self._received = bytearray()
        self._later: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        for handle in self._later:
            handle.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[: end + 2])
            del self._received[: end + 4]
            # Answers of one connection leave in the order of their requests, since all wait as long.
            self._later = [h for h in self._later if h.when() > asyncio.get_running_loop().time()]
            self._later.append(asyncio.get_running_loop().call_later(self._delay, self._answer, head))
        if len(self._received) > LONGEST_HEAD:
            self._transport.abort()

    def _answer(self, head: bytes) -> None:
        if self._transport.is_closing():
            return
        status, body = self._choose(head)
        headers = f"HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.writelines([headers.encode(), body])
        if _CLOSE.search(head):
            self._transport.close()

    def _choose(self, head: bytes) -> tuple[str, bytes]:
        """(status, body) for a request's head."""
        try:
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        except ValueError:
            return "400 Bad Request", b""
        if method != "GET":
            return "405 Method Not Allowed\r\nAllow: GET", b""
        found = _PATH.fullmatch(target)
        return ("200 OK", self._body(int(found.group(1)))) if found else ("404 Not Found", b"")


async def _serve(delay: float, size: int) -> None:
    loop = asyncio.get_running_loop()
    body = functools.lru_cache(max(1, KEPT_BYTES // size))(lambda number: content(number, size))
    server = await loop.create_server(lambda: _Answers(delay, body), "127.0.0.1", 0, backlog=1024)
    ended = loop.create_future()

    def read() -> None:
        if not os.read(0, 4096) and not ended.done():
            ended.set_result(None)

    loop.add_reader(0, read)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended
    server.close()


class SlowServer:
    """The server as a child process of this one. Holds nothing that changes, so threads may share it."""

    def __init__(self, pid: int, port: int):
        self.pid = pid
        self.address = f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def slow_server(delay: float, size: int) -> Iterator[SlowServer]:
    """A server that answers `delay` seconds late with samples of `size` bytes; it ends with the context.

    Raises RuntimeError if it does not start; the reason is on stderr then, which it shares.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "ftbench.data.slow_server",
            "--delay",
            str(delay),
            "--size",
            str(size),
            "--parent",
            str(os.getpid()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        line = process.stdout.readline()
        if not line.strip().isdecimal():
            raise RuntimeError(f"the server of remote samples did not start: {line.strip() or 'see above'}")
        yield SlowServer(process.pid, int(line))
    finally:
        # It has nothing to lose, and forked workers that are still there hold its standard input open.
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def main(arguments: list[str] | None = None) -> int:
    """Serve until standard input ends; returns the exit status."""
    result = argparse.ArgumentParser(prog="python -m ftbench.data.slow_server", description=__doc__.split("\n\n")[0])
    result.add_argument("--delay", type=float, required=True, metavar="SECONDS", help="how late an answer begins")
    result.add_argument("--size", type=int, required=True, metavar="BYTES", help="of one sample")
    result.add_argument("--parent", type=int, metavar="PID", help="end when this process, which started it, ends")
    options = result.parse_args(arguments)
    if options.delay < 0 or options.size < 1:
        result.error("--delay is 0 or more, --size 1 or more")
    if options.parent is not None:
        die_with_parent(options.parent)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.delay, options.size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
