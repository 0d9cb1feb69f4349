"""A web server that answers late, in a process of its own: remote storage without a network.

``python -m ftbench.data.slow_server 0.05 100000`` listens on a free port of 127.0.0.1, prints the port, and serves
``/samples/I``: 100,000 bytes that depend on I alone. The first byte of every answer leaves 0.05 s after the request
came, however many connections wait, as with a store that is far away and never busy. It speaks what fsspec uses:
HTTP/1.1 with GET, one request at a time on a persistent connection.

The process is one event loop in one thread. It ends when its standard input is closed, whose other end the parent
process holds, and with the parent.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ftrun.parent_death import die_with_parent

# Bytes of finished samples that are kept.
KEPT_BYTES = 256 << 20

_PATH = re.compile(r"/samples/(\d{1,9})")


def content(number: int, size: int) -> bytes:
    """Return sample `number`: `size` incompressible bytes, the same everywhere."""
    return hashlib.shake_128(f"sample {number}".encode()).digest(size)


def _answer(head: bytes, sample: Callable[[int], bytes]) -> tuple[str, bytes]:
    """Return (status, body) for a request's head."""
    try:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    except ValueError:
        return "400 Bad Request", b""
    if method != "GET":
        return "405 Method Not Allowed\r\nAllow: GET", b""
    found = _PATH.fullmatch(target)
    return ("200 OK", sample(int(found.group(1)))) if found else ("404 Not Found", b"")


async def _serve(delay: float, size: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    sample = functools.lru_cache(max(1, KEPT_BYTES // size))(lambda number: content(number, size))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # For clients that disconnect, or send a head without an end.
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(delay)
                status, body = _answer(head, sample)
                about = f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}"
                writer.writelines([f"HTTP/1.1 {status}\r\n{about}\r\n\r\n".encode(), body])
                await writer.drain()
                if b"connection: close" in head.lower():
                    break
        writer.close()

    def read() -> None:
        if not os.read(0, 4096):
            ended.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    loop.add_reader(0, read)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()


class SlowServer(NamedTuple):
    """The server as a child process of this one."""

    pid: int
    address: str


@contextlib.contextmanager
def slow_server(delay: float, size: int) -> Iterator[SlowServer]:
    """Run a server that answers `delay` seconds late with samples of `size` bytes, until the context ends.

    Raises RuntimeError if the server does not start. It has written the reason to stderr, which it shares.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ftbench.data.slow_server", str(delay), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    try:
        line = process.stdout.readline().strip()
        if not line.isdecimal():
            raise RuntimeError(f"the server of remote samples did not start: {line or 'see above'}")
        yield SlowServer(process.pid, f"http://127.0.0.1:{line}")
    finally:
        # It loses nothing, and forked workers that are still alive hold its standard input open.
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    die_with_parent()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
