"""A Slurm cluster on this machine: slurmctld and munged on a host "login", slurmd on each node."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hosts import Host, hosts
from tests.programs import completed

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")

# Processes are found by their parents, since a container may not make cgroups. Timeouts are long,
# because this machine may be busy: a node is down when the test says so.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=3600
SlurmdTimeout=3600
MessageTimeout=100
TCPTimeout=100
BatchStartTimeout=300
NodeName={nodes} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


class Cluster:
    """A running cluster. Only the test's thread uses it."""

    def __init__(self, login: Host, nodes: list[Host], folder: Path) -> None:
        self.login, self.nodes, self.folder = login, {node.name: node for node in nodes}, folder
        self.configuration = folder / "slurm.conf"

    def run(self, *words: object, **options: Any) -> subprocess.CompletedProcess:
        """Run a command of Slurm's on the login host."""
        return completed(self.command(*words), **options)

    def command(self, *words: object) -> list[str]:
        """Return a command that runs *words* on the login host,
        where Slurm's commands find the cluster.
        """
        return self.login.command("env", f"SLURM_CONF={self.configuration}", *words)

    def lose(self, name: str) -> None:
        """Kill a node, and tell the controller, which would notice after SlurmdTimeout."""
        self.nodes[name].kill()
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=killed", status=0)


class _Daemon:
    """A program that runs until its host is killed.
    Its output is copied to a file by a thread of its own.
    """

    def __init__(self, command: list[str], ready: str, log: Path) -> None:
        """Start the program, and return when it has printed *ready*."""
        self._ready, self._ready_or_ended, self._log = ready, threading.Event(), log
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._thread = threading.Thread(target=self._copy)
        self._thread.start()
        self._ready_or_ended.wait()
        assert ready in log.read_text(), f"{' '.join(command)} ended:\n{log.read_text()}"

    def _copy(self) -> None:
        assert self._process.stdout
        with open(self._log, "w") as file, self._process.stdout as lines:
            for line in lines:
                print(line, end="", file=file, flush=True)
                if self._ready in line:
                    self._ready_or_ended.set()
        self._ready_or_ended.set()

    def wait(self) -> None:
        """Wait until the program has ended."""
        self._process.wait()
        self._thread.join()


def _start(it: Cluster) -> Iterator[_Daemon]:
    """Start the cluster's daemons and yield each."""
    folder = it.folder
    for made in ("munge", "state", *(f"spool-{name}" for name in it.nodes)):
        (folder / made).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(bytes(range(128)))
    munge = [
        f"--{what}={folder}/munge/{what}"
        for what in ("socket", "pid-file", "log-file", "seed-file")
    ]
    it.login.run("munged", "--force", f"--key-file={key}", *munge, status=0)
    yield _Daemon(
        it.command("slurmctld", "-D"), "Running as primary controller", folder / "slurmctld.log"
    )
    for name, node in it.nodes.items():
        slurmd = node.command("env", f"SLURM_CONF={it.configuration}", "slurmd", "-D", "-N", name)
        yield _Daemon(slurmd, "slurmd started on", folder / f"slurmd-{name}.log")


@contextlib.contextmanager
def cluster(folder: Path, *names: str) -> Iterator[Cluster]:
    """Context manager: start a cluster with nodes of these names; end it afterwards. Skips the test
    if it cannot.

    Each node has all CPUs of this machine.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(
            f"not installed: {' '.join(missing)} (Debian: munge slurmctld slurmd slurm-client)"
        )
    with contextlib.ExitStack() as stack:
        # Entered before the hosts, whose end is the daemons' end.
        daemons = stack.enter_context(contextlib.ExitStack())
        login, *nodes = stack.enter_context(hosts(folder, "login", *names))
        it = Cluster(login, nodes, folder)
        it.configuration.write_text(
            CONFIGURATION.format(folder=folder, nodes=",".join(names), cpus=os.cpu_count())
        )
        for daemon in _start(it):
            daemons.callback(daemon.wait)
        yield it
