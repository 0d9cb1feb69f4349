"""A web server that delays every response, to imitate remote storage.
It runs in a process of its own.

``python -m ftbench.data.slow_server 0.05 100000`` listens on a free port of 127.0.0.1, prints the
port, and serves ``/samples/I``: 100,000 bytes that depend only on I. The first byte of a response
is sent 0.05 s after the request, for any number of connections. The server implements the part of
HTTP/1.1 that fsspec uses: GET, one request at a time on a persistent connection. (aiohttp's server
would take 1.5 times the CPU time, or five times without the GIL.)
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from ftrun.parent_death import die_with_parent

# Bytes of samples that the server keeps.
KEPT_BYTES = 256 << 20

_REQUEST = re.compile(rb"GET /samples/(\d{1,9}) ")


def content(number: int, size: int) -> bytes:
    """Return sample `number`: `size` incompressible bytes that depend only on `number`."""
    return hashlib.shake_128(f"sample {number}".encode()).digest(size)


async def _serve(delay: float, size: int) -> None:
    sample = functools.lru_cache(max(1, KEPT_BYTES // size))(lambda number: content(number, size))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Ignore clients that disconnect, or send a head without an end.
        with contextlib.suppress(
            asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(delay)
                status, body = "404 Not Found", b""
                if request := _REQUEST.match(head):
                    status = "200 OK"
                    body = sample(int(request.group(1)))
                about = f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}"
                writer.writelines([f"HTTP/1.1 {status}\r\n{about}\r\n\r\n".encode(), body])
                await writer.drain()
                if b"connection: close" in head.lower():
                    break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def slow_server(delay: float, size: int) -> Iterator[str]:
    """Start a server that sends samples of `size` bytes after `delay` seconds. A context manager:
    yields the URL.

    Raises RuntimeError if the server does not start.
    The server has then written the reason to stderr.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "ftbench.data.slow_server",
        str(delay),
        str(size),
        str(os.getpid()),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            line = process.stdout.readline().strip()
            if not line.isdecimal():
                raise RuntimeError(
                    f"the server of remote samples did not start: {line or 'see above'}"
                )
            yield f"http://127.0.0.1:{line}"
        finally:
            process.kill()  # it has nothing to save


if __name__ == "__main__":
    die_with_parent(*map(int, sys.argv[3:]))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(float(sys.argv[1]), int(sys.argv[2])))
