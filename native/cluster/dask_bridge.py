"""Client of a Dask cluster for `./twins repro --dask`:
a program that ftsafety.repro.cluster, its parent, starts.

    PYTHON native/cluster/dask_bridge.py          (standard input is a socket)

A client needs its cluster's versions of Python and Dask, which the twins do not have. So this file
runs in the Python that runs `./twins`, with the standard library and `distributed` alone. It
submits the rounds of a campaign as tasks of some rounds each. The parent sends a line of JSON, and
gets lines of JSON:

    {"address", "command", "folder", "request", "rounds"}   what to run, and where
    {"threads"} or {"error"}                                once the client is connected, or not
    {"piece"} ..., {"rounds", "node", "error"}              the output of a task, then its end
    {"rounds", "lost"}                                      why a task has no result
    {"gone"}                                                why the cluster is lost

The tasks are reported in the order in which they were submitted. The end of standard input cancels
all of them.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import math
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid

from distributed import Client, Future, KilledWorker, Status, get_worker

CONNECT_SECONDS = 15
LONGEST_LINE = 16 * 1024 * 1024
LONGEST_PIECE = 1024 * 1024
MOST_ROUNDS = 100
TASK_SECONDS = 20.0
"""The time that a task should take. The first tasks have one round each,
which shows how long that takes.
"""
FEWEST_AHEAD, AHEAD = 8, 2
"""Number of tasks that are under way: at least 8, and 2 for each thread of the cluster."""
KEPT = 2000  # bytes at the end of what a task wrote to stderr
POLL_SECONDS = 0.2  # between two looks at the state of a task
MOST_ATTEMPTS = 3  # to run a task whose workers died before it began
# the longest time that a cluster, after it had workers, is waited for without any
ALONE_SECONDS = 60
LOOK_SECONDS = 5  # between two looks at the number of workers
NO_WORKERS = (
    f"the cluster has had no worker for {ALONE_SECONDS} s: see the logs of its workers, "
    f"and start some"
)
NO_SCHEDULER = "name the address that the scheduler prints when it starts, or its scheduler file"


def work(topic: str, command: list[str], folder: str, request: str) -> tuple[str, str, str, float]:
    """Run a task on the worker that calls this; return (host name,
    output, error message or "", seconds).

    Raises RuntimeError if the process was killed (SIGKILL), or the worker closes.
    """
    worker = get_worker()
    node = socket.gethostname()
    begin = time.monotonic()
    task = worker.state.tasks[worker.get_current_task()]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as failure:
            return node, "", f"{command[0]} cannot be run in {folder}: {failure.strerror}", 0.0
        worker.log_event(topic, task.key)
        # At the end of its standard input, the process ends its run and removes its files: if the
        # task is cancelled, if the worker closes, and if the worker dies.
        with contextlib.suppress(BrokenPipeError), process:
            assert process.stdin
            process.stdin.write(request.encode())
            process.stdin.flush()
            # Dask tells a task that it is cancelled by its state alone.
            while task.state == "executing" and worker.status is Status.running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                    break
        status = process.wait()
        if status in (-signal.SIGKILL, 128 + signal.SIGKILL) or worker.status is not Status.running:
            raise RuntimeError(f"{node}: its process was killed, or its worker closed")
        error = ""
        if status:
            error = f"exit status {status}: {last_line(errors)}"
        output.seek(0)
        text = output.read().decode(errors="replace")
        return node, text, error, time.monotonic() - begin


def last_line(errors) -> str:
    """Return the last line of what a task wrote to stderr,
    a binary file. Called by `work` on the worker.
    """
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - KEPT))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"


class Bridge:
    """The tasks of a campaign on a cluster. One asyncio loop owns all state."""

    def __init__(self, client: Client, hello: dict, writer: asyncio.StreamWriter):
        self._client = client
        self._hello = hello
        self._writer = writer
        self._topic = f"ft-repro-{uuid.uuid4().hex}"
        self._starts: collections.Counter[str] = collections.Counter()
        """By a task's key, the number of workers that have started its process."""
        self._threads = 0
        self._done = 0
        """Number of rounds that have ended, which took `_seconds` together."""
        self._seconds = 0.0
        self._futures: set[Future] = set()

    def send(self, message: dict) -> None:
        """Send a message to the parent as a line of JSON."""
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def close(self) -> None:
        """Send what is left to the parent, and cancel all tasks that are under way."""
        await self._writer.drain()
        await self._client.cancel(list(self._futures), force=True)

    async def open(self) -> None:
        """Tell the parent how many threads the cluster has."""
        self._client.subscribe_topic(self._topic, lambda event: self._starts.update([event[1]]))
        self._threads = await count_threads(self._client)
        self.send({"threads": self._threads})

    async def watch_workers(self) -> None:
        """Keep the number of threads up to date, until the cluster has lost all its workers.

        A cluster that never had any is waited for.
        """
        latest = time.monotonic() if self._threads else None
        while latest is None or time.monotonic() - latest <= ALONE_SECONDS:
            with contextlib.suppress(OSError):  # the scheduler has gone, which ends all tasks
                self._threads = await count_threads(self._client)
                if self._threads:
                    latest = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
        self.send({"gone": NO_WORKERS})

    async def run(self) -> None:
        """Run all rounds, and send the parent the result of each task."""
        left = self._hello["rounds"]
        tasks: collections.deque[tuple[int, asyncio.Task]] = collections.deque()
        while left or tasks:
            while left and len(tasks) < max(FEWEST_AHEAD, AHEAD * self._threads):
                rounds = self._next_rounds(left)
                task = asyncio.create_task(self._result(rounds))
                tasks.append((rounds, task))
                left -= rounds
            await self._report(*tasks.popleft())
            await self._writer.drain()

    def _next_rounds(self, left: int) -> int:
        """Return the number of rounds of the next task."""
        if not self._seconds:
            return 1
        # all threads get some, also at the end
        share = math.ceil(left / (2 * max(2, self._threads)))
        in_time = int(TASK_SECONDS * self._done / self._seconds)
        return max(1, min(MOST_ROUNDS, share, in_time))

    async def _report(self, rounds: int, task: asyncio.Task) -> None:
        """Wait for a task, and send its result to the parent."""
        try:
            node, output, error, seconds = await task
        except KilledWorker as failure:
            deaths = (
                f"{failure.allowed_failures + 1} workers died while they ran a task of this script"
            )
            why = f"KilledWorker: {deaths}: see the log of {failure.last_worker.address}"
            self.send({"rounds": rounds, "lost": why})
            return
        except RuntimeError as failure:
            self.send({"rounds": rounds, "lost": str(failure)})
            return
        self._done += rounds
        self._seconds += seconds
        for start in range(0, len(output), LONGEST_PIECE):
            piece = output[start : start + LONGEST_PIECE]
            self.send({"piece": piece})
        self.send({"rounds": rounds, "node": node, "error": error})

    async def _result(self, rounds: int) -> tuple[str, str, str, float]:
        """Run a task on the cluster; return what `work` returns.

        Dask gives up a task after four deaths of workers that it was assigned to, even if it only
        waited there while the task of another campaign took the worker down. Such a task is
        submitted again.
        """
        request = json.dumps({**self._hello["request"], "rounds": rounds}) + "\n"
        arguments = self._topic, self._hello["command"], self._hello["folder"], request
        for attempt in range(1, MOST_ATTEMPTS + 1):
            future = self._client.submit(work, *arguments, pure=False)
            self._futures.add(future)
            try:
                return await future
            except KilledWorker as failure:
                if self._starts[future.key] > failure.allowed_failures or attempt == MOST_ATTEMPTS:
                    raise
            finally:
                self._futures.discard(future)
        raise AssertionError("the last attempt returns or raises")


async def count_threads(client: Client) -> int:
    """Return the number of threads of all present workers."""
    threads = await client.nthreads()
    return sum(threads.values())


async def unequal(client: Client) -> str:
    """Return an error message if the cluster has another version
    of Python or Dask than here, else "".

    Python's version matters because functions are sent to the workers as bytecode.
    """
    versions = await client.get_versions()
    client_versions = _versions(versions["client"])
    for name, description in {
        "the scheduler": versions["scheduler"],
        **versions["workers"],
    }.items():
        if description and _versions(description) != client_versions:
            python, dask = _versions(description)
            client_python, client_dask = client_versions
            return (
                f"{name} runs Python {python} with distributed {dask}, and the Python that runs "
                f"./twins is {client_python} with {client_dask}: run ./twins with a Python "
                f"{python} that has distributed=={dask} first on PATH"
            )
    return ""


def _versions(description: dict) -> tuple[str, str]:
    major, minor, *_ = str(description["host"]["python"]).split(".")
    return f"{major}.{minor}", str(description["packages"].get("distributed"))


def _words(failure: BaseException) -> str:
    if "scheduler-connection-lost" in str(failure):
        return "the connection to the Dask scheduler was lost"
    return f"{type(failure).__name__}: {failure}"


async def serve() -> None:
    """Connect to the cluster, and run the parent's campaign until all is done
    or the parent closes the socket.
    """
    parent = socket.socket(fileno=os.dup(0))
    reader, writer = await asyncio.open_connection(sock=parent, limit=LONGEST_LINE)
    hello = json.loads(await reader.readline())
    # The file that a scheduler writes with --scheduler-file, or its address.
    place = "scheduler_file" if os.path.isfile(hello["address"]) else "address"
    options = {place: hello["address"], "timeout": CONNECT_SECONDS, "name": "ft-repro"}
    try:
        client = await Client(**options, asynchronous=True)
    except Exception as error:
        words = (
            f"no connection to a Dask scheduler ({type(error).__name__}: {error}); {NO_SCHEDULER}"
        )
        writer.write(json.dumps({"error": words}).encode() + b"\n")
        return
    async with client:
        bridge = Bridge(client, hello, writer)
        if complaint := await unequal(client):
            bridge.send({"error": complaint})
            return
        await bridge.open()
        await _run_campaign(bridge, reader)


async def _run_campaign(bridge: Bridge, reader: asyncio.StreamReader) -> None:
    """Run the campaign until it ends, the cluster is lost or the parent closes the socket."""
    jobs = [
        asyncio.create_task(job) for job in (bridge.run(), bridge.watch_workers(), reader.read())
    ]
    finished, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
    if failure := jobs[0] in finished and jobs[0].exception():
        bridge.send({"gone": _words(failure)})
    await bridge.close()  # while `jobs` still holds the tasks, which else forget their futures


if __name__ == "__main__":
    # Ctrl-C at a terminal reaches all of its processes.
    # This one ends when its parent closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    asyncio.run(serve())
