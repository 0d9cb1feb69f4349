"""Protocol between a twin's server and its client:
one JSON object a line over a Unix stream socket.

Client to server, one request at a time: {"op": "describe"}; {"op": "start", "request": {...}},
which starts a process of the benchmark; {"op": "go on", "process": number}, which lets that process
run until its next answer; {"op": "end", "process": number}, which ends that process; and {"op":
"reproduce", ...} with the fields of repro's Request.

Server to client: {"hello": PROTOCOL} or {"busy": text} when a client connects, and {"result": ...}
or {"error": text} as the answer to a request. The result of "go on" is null if the process has
paused so that other processes can run. When a client closes the connection, the server kills the
client's processes.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable

from ftrun.errors import Disconnected, Stopped
from ftrun.loop import Loop, Watch

PROTOCOL = 5
# Requests name a few thousand files at most, and so are shorter.
LONGEST_LINE = 16 * 1024 * 1024
# A peer that does not read for this long counts as gone.
SEND_SECONDS = 120.0


def decode(text: str | bytes | bytearray) -> object:
    """Return the value of untrusted JSON; raises ValueError if it is malformed."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def conforms(value: object, form: object) -> bool:
    """True if an untrusted JSON `value` matches the schema `form`, and its numbers are below 2**63
    in absolute value.

    A schema is a type, a tuple of types, [schema of all elements], {str: schema of all values}, or
    {key: schema, ...}.
    """
    if isinstance(form, dict):
        return isinstance(value, dict) and _conforms_dict(value, form)
    if isinstance(form, list):
        return isinstance(value, list) and _conform(value, form[0])
    if isinstance(value, (int, float)) and not abs(value) < 1 << 63:
        return False
    if isinstance(form, tuple):
        return type(value) in form
    return type(value) is form


def _conforms_dict(value: dict, form: dict) -> bool:
    if str in form:
        return _conform(value.values(), form[str])
    for key, schema in form.items():
        if key not in value or not conforms(value[key], schema):
            return False
    return True


def _conform(values: Iterable[object], form: object) -> bool:
    return all(conforms(value, form) for value in values)


class Channel:
    """Connected socket that sends and receives messages. Owned by one thread."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        connection.settimeout(SEND_SECONDS)
        self._received = bytearray()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.connection.fileno()

    def send(self, message: dict) -> None:
        """Send one message; raises Disconnected."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Disconnected(str(error)) from error

    def receive(self, watch: Watch, timeout: float | None = None) -> dict | None:
        """Return the next message; None after `timeout` seconds,
        or if a callback of `watch` returns True.

        Raises Disconnected at the end of the stream, or if a line is not a message.
        """
        with Loop(watch) as loop:
            loop.add(self.fileno(), self._read)
            try:
                until = None if timeout is None else time.monotonic() + timeout
                if not loop.run(lambda: b"\n" in self._received, until):
                    return None
            except Stopped:
                return None
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        with contextlib.suppress(ValueError):
            if isinstance(message := decode(line), dict):
                return message
        raise Disconnected(f"not a message: {bytes(line[:80])!r}")

    def _read(self) -> None:
        try:
            data = self.connection.recv(1 << 16)
        except OSError as error:
            raise Disconnected(str(error)) from error
        if not data:
            raise Disconnected("end of stream")
        if len(self._received) > LONGEST_LINE:
            raise Disconnected("line too long")
        self._received += data

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
