"""Client of a Dask cluster for `./twins repro --dask`: a program that ftsafety.repro.link, its parent, starts.

    PYTHON native/cluster/dask_bridge.py          (standard input is a socket)

A client needs its cluster's versions of Python and Dask, which the twins do not have. So this file runs in the Python
that runs `./twins`, with the standard library and `distributed` alone. A batch is a process on one worker that runs the
user's script several times. The parent sends requests as lines of JSON, and gets answers as lines of JSON:

    {"address", "command", "folder"}   connect; the answer is {"threads"}, or {"error"} if that fails
    {"run", "request"}                 submit a batch; later {"of", "line"} for each line of the output, and {"ended",
                                       "node", "error", "threads"}; or {"lost", "why", "threads"} in place of these
    {"cancel": true}                   cancel all batches: end their processes and send no more about them

At the end of standard input, the program cancels all batches and exits. One thread runs an asyncio loop and owns all
state. cloudpickle sends the code of `work` and `Batches` to the workers, not just names: both are in module __main__.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid

from distributed import Client, Future, KilledWorker, WorkerPlugin, get_worker

CONNECT_SECONDS = 15
LONGEST_LINE = 16 * 1024 * 1024
KEPT = 2000  # bytes at the end of what a batch wrote to stderr
RETRIES = 2  # of a batch whose process was killed; for workers that die there is Dask's own "allowed-failures"
MOST_ATTEMPTS = 3  # to run a batch whose workers died before it began
ALONE_SECONDS = 60  # the longest time that a cluster, after it had workers, is waited for without any
LOOK_SECONDS = 5  # between two looks at the number of workers
NO_WORKERS = f"the cluster has had no worker for {ALONE_SECONDS} s: see the logs of its workers, and start some"


class Batches(WorkerPlugin):
    """Plugin of a Dask worker: runs batches, and ends them when they are cancelled or the worker closes.

    Batches run in several threads of the worker, and Dask calls `transition` in the thread of the worker's event loop.
    So `_lock` guards the state.
    """

    def __init__(self, name: str, command: list[str], folder: str):
        self.name, self._command, self._folder = name, command, folder

    def setup(self, worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen] = {}
        self._unwanted: set[str] = set()

    def transition(self, key, start, finish, **_) -> None:
        with self._lock:
            if finish == "executing":
                self._unwanted.discard(key)
            elif start in ("executing", "long-running") and finish in ("released", "cancelled", "forgotten"):
                self._end(key)

    def teardown(self, worker) -> None:
        with self._lock:
            for key in list(self._running):
                self._end(key)

    def _end(self, key: str) -> None:
        process = None if key in self._unwanted else self._running.get(key)
        self._unwanted.add(key)
        # Only once: a second signal would end the batch before it has removed its files.
        if process is not None and process.returncode is None:
            # Its group too: flock does not pass signals on to the command that it runs.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def run(self, key: str, request: bytes) -> tuple[list[str], str]:
        """Run a batch, the Dask task `key`; return the lines that it wrote to stdout, and an error message or "".

        Raises RuntimeError if the batch was killed (SIGKILL) without being cancelled. Dask then runs the batch again.
        """
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                if key in self._unwanted:
                    return [], "cancelled"
                try:
                    process = self._running[key] = self._start(errors)
                except OSError as error:
                    return [], f"{self._command[0]} cannot be run in {self._folder}: {error.strerror}"
            self._worker.log_event(self.name, key)
            output = self._output(key, process, request)
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - KEPT))
            lines = errors.read().decode(errors="replace").strip().splitlines()
        status = process.returncode
        with self._lock:
            is_cancelled = key in self._unwanted
        if not is_cancelled and status in (-signal.SIGKILL, 128 + signal.SIGKILL):
            raise RuntimeError("its process was killed (SIGKILL)")
        message = ""
        if status:
            message = f"exit status {status}: {lines[-1] if lines else 'it wrote nothing'}"
        return output.decode(errors="replace").splitlines(), message

    def _start(self, errors) -> subprocess.Popen:
        return subprocess.Popen(
            self._command,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )

    def _output(self, key: str, process: subprocess.Popen, request: bytes) -> bytes:
        """Send the request to a batch and return what it writes to stdout until it ends."""
        assert process.stdin and process.stdout
        try:
            # Its standard input stays open until it has ended: if this worker dies, the batch sees the end of it.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request)
                process.stdin.flush()
            output = process.stdout.read()
            process.wait()
            return output
        finally:
            with self._lock:
                del self._running[key]
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
            process.wait()


def work(plugin: str, request: str) -> tuple[str, list[str], str]:
    """Run a batch on the worker that calls this; return (host name, lines that the batch wrote, error or "")."""
    worker, node = get_worker(), socket.gethostname()
    try:
        return (node, *worker.plugins[plugin].run(worker.get_current_task(), request.encode()))
    except RuntimeError as error:
        raise RuntimeError(f"{node}: {error}") from None


class Bridge:
    """The connection to a cluster, and the batches that were submitted to it."""

    def __init__(self, client: Client, hello: dict, writer: asyncio.StreamWriter):
        self._client, self._writer = client, writer
        self._name = f"ft-repro-{uuid.uuid4().hex[:12]}"
        self._plugin = Batches(self._name, hello["command"], hello["folder"])
        self._waiting: dict[int, asyncio.Task] = {}
        self._futures: dict[int, Future] = {}
        self._keys = (f"{self._name}-{number}" for number in itertools.count())
        self._started: collections.Counter[str] = collections.Counter()
        """By a task's key, the number of workers that have started its process."""
        self._looks: asyncio.Task | None = None

    async def open(self) -> None:
        """Register the plugin with all workers, present and future. Send the parent the cluster's number of threads."""
        self._client.subscribe_topic(self._name, lambda event: self._started.update([event[1]]))
        await self._client.register_plugin(self._plugin, name=self._name)
        self.send({"threads": await self._threads()})
        self._looks = asyncio.create_task(self._look())

    def send(self, message: dict) -> None:
        """Send a message to the parent as a line of JSON."""
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _threads(self) -> int:
        """Return the sum of the threads of the cluster's present workers."""
        return sum((await self._client.nthreads()).values())

    async def _look(self) -> None:
        """Call off all batches if the cluster, after it had workers, has none for ALONE_SECONDS."""
        latest = None
        while True:
            with contextlib.suppress(OSError):  # the scheduler has gone, which ends all batches
                if await self._threads():
                    latest = time.monotonic()
                elif latest is not None and time.monotonic() - latest > ALONE_SECONDS:
                    for number in self._waiting:
                        self.send({"lost": number, "why": NO_WORKERS, "threads": 0})
                    await self.cancel()
            await asyncio.sleep(LOOK_SECONDS)

    def submit(self, number: int, request: dict) -> None:
        """Submit `request` to the cluster as batch `number`. Messages to the parent report on it later."""
        self._waiting[number] = asyncio.create_task(self._wait(number, json.dumps(request) + "\n"))

    async def _wait(self, number: int, text: str) -> None:
        try:
            node, lines, error = await self._result(number, text)
            threads = await self._threads()
        except Exception as failure:
            self.send({"lost": number, "why": _words(failure), "threads": 0})
        else:
            for line in lines:
                self.send({"of": number, "line": line})
            self.send({"ended": number, "node": node, "error": error, "threads": threads})
            await self._writer.drain()
        del self._waiting[number], self._futures[number]

    async def _result(self, number: int, text: str) -> tuple[str, list[str], str]:
        """Run a batch on the cluster; return what `work` returns.

        Dask gives up a task after four deaths of workers that it was assigned to, even if it only waited there while
        the batch of another campaign took the worker down. Such a batch is submitted again, under a new key.
        """
        for attempt in range(1, MOST_ATTEMPTS + 1):
            key = next(self._keys)
            future = self._client.submit(work, self._name, text, key=key, retries=RETRIES, pure=False)
            self._futures[number] = future
            try:
                return await future
            except KilledWorker as failure:
                if self._started[key] > failure.allowed_failures or attempt == MOST_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def cancel(self) -> None:
        """Cancel all batches on the cluster. The parent gets no results of them."""
        for task in self._waiting.values():
            task.cancel()
        futures = list(self._futures.values())
        self._waiting.clear()
        self._futures.clear()
        if futures:
            await self._client.cancel(futures, force=True)

    async def close(self) -> None:
        """Cancel all batches and remove the plugin from the workers. Errors are ignored."""
        if self._looks is not None:
            self._looks.cancel()
        with contextlib.suppress(Exception):
            await self.cancel()
            await self._client.unregister_worker_plugin(self._name)


def _words(failure: Exception) -> str:
    kind = type(failure).__name__
    if "scheduler-connection-lost" in str(failure):
        return "the connection to the Dask scheduler was lost"
    if isinstance(failure, KilledWorker):
        return (
            f"KilledWorker: {failure.allowed_failures + 1} workers died while they ran a batch of this script: see the "
            f"log of {failure.last_worker.address}; the cause is this script, what its workers lack (memory), or "
            "another program that ran on the same workers"
        )
    return f"{kind}: {failure}"


async def unequal(client: Client) -> str:
    """Return an error message if the scheduler or a worker has another version of Python or Dask than here, else "".

    Python's version matters because functions are sent to the workers as bytecode.
    """
    versions = await client.get_versions()
    client_versions = _versions(versions["client"])
    nodes = collections.defaultdict(list)
    for name, facts in [("the scheduler", versions["scheduler"]), *versions["workers"].items()]:
        if facts and _versions(facts) != client_versions:
            nodes[_versions(facts)].append(name)
    if not nodes:
        return ""
    (python, dask), names = next(iter(nodes.items()))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{names[0]}{more} runs Python {python} with distributed {dask}, and the Python that runs ./twins is "
        f"{client_versions[0]} with {client_versions[1]}: run ./twins with a Python {python} that has "
        f"distributed=={dask} first on PATH"
    )


def _versions(facts: dict) -> tuple[str, str]:
    python = ".".join(str(facts["host"]["python"]).split(".")[:2])
    return python, str(facts["packages"].get("distributed"))


async def serve() -> None:
    """Connect to the cluster, and do what the parent's messages say until the parent closes the socket."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=os.dup(0)), limit=LONGEST_LINE)
    hello = json.loads(await reader.readline())
    # The file that a scheduler writes with --scheduler-file, or its address.
    where = {"scheduler_file" if os.path.isfile(hello["address"]) else "address": hello["address"]}
    try:
        client = await Client(**where, asynchronous=True, timeout=CONNECT_SECONDS, name="ft-repro")
    except Exception as error:
        remedy = "name the address that the scheduler prints when it starts, or its scheduler file"
        words = f"no connection to a Dask scheduler ({type(error).__name__}: {error}); {remedy}"
        writer.write(json.dumps({"error": words}).encode() + b"\n")
        await writer.drain()
        return
    async with client:
        bridge = Bridge(client, hello, writer)
        if difference := await unequal(client):
            bridge.send({"error": difference})
            return
        await bridge.open()
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "run" in message:
                    bridge.submit(message["run"], message["request"])
                else:
                    await bridge.cancel()
        finally:
            await bridge.close()


if __name__ == "__main__":
    # Ctrl-C at a terminal reaches all of its processes. This one ends when its parent closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    asyncio.run(serve())
