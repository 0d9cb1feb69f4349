"""A training job under torchrun's agents, whose ranks are killed, and whose nodes leave and join, at random steps.

Nodes are processes that run ``torch.distributed.launcher``, as torchrun does, with 1 to 3 nodes: 4 ranks on three
nodes, 2, 3 after another one has joined, and 1. The job asks for leave before each step, so that it makes the number of
steps that was drawn for each number of ranks, however long it takes the agents to find each other.
"""

import collections
import datetime
import faulthandler
import json
import os
import random
import selectors
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import psutil
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from ftloader import DataLoader
from ftloader.distributed import DistributedSampler
from ftrun.parent_death import die_with_parent
from tests.datasets import Rows, seeded
from tests.unit.loader.state.resuming import WAYS, contents, noisy

SIZE, EPOCHS = 199, 2
PATIENCE = 300.0
"""Seconds without a step, after which the campaign has failed."""


def pairs(batch):
    """Return the [index, random number] of each sample of a batch."""
    return [list(pair) for pair in zip(*contents(batch))]


def train(folder: str, seed: int, port: int) -> None:
    """Train as a rank. The "model" is the list of the samples that all ranks together have been given."""
    # Not the agent's handler, which a rank that waits in gloo would run after 30 seconds.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    draw = random.Random(f"{seed} {ranks}")  # the same on all ranks
    dataset = Rows(SIZE, noisy)
    sampler = DistributedSampler(dataset)
    way = WAYS[draw.choice(["serial", "threads", "processes"])]
    loader = DataLoader(dataset, draw.randint(1, 4), sampler=sampler, generator=seeded(), **way)
    checkpoint = Path(folder, "checkpoint")
    state: dict[str, Any] = {"epoch": 0, "loader": {}, "model": []}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    loader.load_state_dict(state["loader"])
    model = state["model"]
    ids = gathered(os.getpid())
    if rank == 0:
        driver = socket.create_connection(("127.0.0.1", port))

    def save(epoch):
        """Let any rank save, sometimes: the others have made the same step."""
        if draw.random() < 0.6 and rank == draw.randrange(ranks):
            new = Path(folder, f"checkpoint.{rank}")
            new.write_text(json.dumps({"epoch": epoch, "loader": loader.state_dict(), "model": model}))
            os.replace(new, checkpoint)

    for epoch in range(state["epoch"], EPOCHS):
        sampler.set_epoch(epoch)
        for batch in loader:
            if rank == 0:
                driver.sendall(json.dumps(ids).encode() + b"\n")
                if not driver.recv(1):
                    raise RuntimeError("the driver waits for another number of ranks")
            for share in gathered(pairs(batch)):
                model += ([epoch, ranks, *pair] for pair in share)
            save(epoch)
        save(epoch + 1)
    if rank == 0:
        Path(folder, "trained").write_text(json.dumps(model))


def gathered(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def start_store() -> tuple[int, int]:
    """Start a process with the store where the agents meet; return its process id and port.

    It has threads, and this process, which forks the nodes, should have none.
    """
    reader, writer = os.pipe()
    if pid := os.fork():
        os.close(writer)
        with open(reader) as port:
            return pid, int(port.readline())
    try:
        die_with_parent(os.getppid())
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(writer, f"{store.port}\n".encode())
        signal.pause()
    finally:
        os._exit(1)


class Job:
    """Driver of one job: starts and kills its nodes and ranks, and lets it make steps."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._store, self._port = start_store()
        self.nodes: dict[str, int] = {}
        self.ids: list[int] = []  # process ids of the ranks, at the latest step
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._asking: collections.deque[tuple[socket.socket, list[int]]] = collections.deque()

    def start(self, node: str, ranks: int) -> None:
        """Start a node in a session of its own, which its ranks and their worker processes belong to."""
        if pid := os.fork():
            self.nodes[node] = pid
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, node)
            return
        status = 1
        try:
            os.setsid()
            log = os.open(self._log(node), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            faulthandler.dump_traceback_later(PATIENCE / 2, file=2)
            os.environ["TMPDIR"] = self.folder
            # Else a node that joins waits forever for the address of a store, which the others know from the first
            # round (torch 2.10).
            os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=3,
                nproc_per_node=ranks,
                run_id="campaign",
                rdzv_backend="c10d",
                rdzv_endpoint=f"127.0.0.1:{self._port}",
                rdzv_configs={
                    "is_host": False,
                    "last_call_timeout": 1,
                    "keep_alive_interval": 1,
                    "keep_alive_max_attempt": 3,
                },
                local_addr="127.0.0.1",
                max_restarts=100,
                start_method="fork",
            )
            elastic_launch(config, train)(self.folder, self.seed, self._listener.getsockname()[1])
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def end(self) -> None:
        """Kill what is left of the job."""
        for node in list(self.nodes):
            self.kill(node)
        os.kill(self._store, signal.SIGKILL)
        os.waitpid(self._store, 0)

    def _log(self, node: str) -> Path:
        return Path(self.folder, f"node-{node}")

    def _fail(self, why: str) -> NoReturn:
        """Raise AssertionError with the end of each node's log."""
        logs = [f"-- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in Path(self.folder).glob("node-*")]
        raise AssertionError("\n".join([f"{why}: {self.folder}", *sorted(logs)]))

    def _ended(self, node: str) -> int:
        """Forget a node that has ended; return its exit status."""
        (pidfd,) = (key.fd for key in self._selector.get_map().values() if key.data == node)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        return os.waitpid(self.nodes.pop(node), 0)[1]

    def kill(self, node: str) -> None:
        """Kill a node, as a machine that loses its power: the agent, its ranks and their workers."""
        pid = self.nodes[node]
        os.kill(pid, signal.SIGSTOP)  # starts no other ranks while these are found
        for each in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                pass
        self._ended(node)

    def _wait(self) -> None:
        """Wait until a rank asks for a step or a node ends, as it should only when it has trained to the end."""
        events = self._selector.select(PATIENCE)
        if not events:
            self._fail(f"nothing happened for {PATIENCE} s")
        for key, _ in events:
            if key.data:
                if status := self._ended(key.data):
                    self._fail(f"node {key.data} ended with status {status}")
            elif key.fileobj is self._listener:
                connection, _ = self._listener.accept()
                self._selector.register(connection, selectors.EVENT_READ)
            elif isinstance(key.fileobj, socket.socket):
                try:
                    asked = key.fileobj.recv(1 << 16)
                except ConnectionResetError:
                    asked = b""
                if asked:
                    self._asking.append((key.fileobj, json.loads(asked)))
                else:
                    self._close(key.fileobj)

    def _close(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()

    def _answer(self, ranks: int) -> bool:
        """Answer a rank 0 that asks: grant the step if it has this number of ranks, else end the job's round."""
        while not self._asking:
            self._wait()
        connection, ids = self._asking.popleft()
        if connection.fileno() < 0:
            return False
        if len(ids) != ranks:
            self._close(connection)
            return False
        self.ids = ids
        try:
            connection.send(b"x")
        except OSError:  # the rank was killed
            return False
        return True

    def steps(self, ranks: int, number: int) -> None:
        """Let *ranks* ranks make this number of steps."""
        while number:
            number -= self._answer(ranks)

    def finish(self, node: str, ranks: int) -> None:
        """Let *ranks* ranks make all further steps, until this node ends."""
        while node in self.nodes:
            if self._asking:
                self._answer(ranks)
            else:
                self._wait()


def campaign(folder: str, seed: int) -> list[list[int]]:
    """Run one job from 4 ranks to 2, 3 and 1; return its model: [epoch, ranks, index, random number] of each sample."""
    draw, job = random.Random(seed), Job(folder, seed)
    try:
        for node, ranks in ("a", 1), ("b", 1), ("c", 2):
            job.start(node, ranks)
        for ranks in 4, 2, 3:
            job.steps(ranks, draw.randint(3, 8))
            time.sleep(draw.random() * 0.02)  # in the next step, or before it
            if ranks == 4:
                job.kill("c")
            elif ranks == 2:
                os.kill(draw.choice(job.ids), signal.SIGKILL)
                job.start("d", 1)
            else:
                job.kill("a")
                job.kill("b")
        job.finish("d", 1)
    finally:
        job.end()
    return json.loads(Path(folder, "trained").read_text())


def check(model: list[list[int]]) -> None:
    """Check that each epoch has each sample once, but for the last ranks' padding, and its random numbers.

    Those are the ones of a run that nothing disturbs.
    """
    dataset = Rows(SIZE, noisy)
    loader = DataLoader(dataset, 4, generator=seeded())
    for epoch in range(EPOCHS):
        expected = sorted(tuple(pair) for batch in loader for pair in pairs(batch))
        found = [tuple(pair) for of, _, *pair in model if of == epoch]
        last = next(ranks for of, ranks, _, _ in reversed(model) if of == epoch)
        twice = collections.Counter(found) - collections.Counter(expected)
        assert sorted(set(found)) == expected and twice.total() < last, (epoch, twice)
