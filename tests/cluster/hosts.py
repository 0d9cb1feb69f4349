"""Hosts of a small cluster on this machine: namespaces with a name,
a network and processes of their own.

The cluster's files are this machine's, like a shared file system. Its network is not this
machine's: the hosts reach each other and nothing else.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import completed

PROGRAMS = ("ip", "nsenter", "unshare")


class Host:
    """One host. Killing it ends all its processes at once, like a power failure."""

    def __init__(self, name: str, address: str, names: Path) -> None:
        """Boot the host; *names* becomes its /etc/hosts."""
        self.name, self.address = name, address
        # Prints a line once everything is in place; then waits for the end of its input. So the
        # host is gone, too, when the tests are killed.
        boot = 'hostname "$1"; mount --bind "$2" /etc/hosts; ip link set lo up; echo up; exec cat'
        own = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["unshare", *own, "sh", "-ec", boot, "sh", name, str(names)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._parent = subprocess.Popen(command, **pipes, text=True)
        assert self._parent.stdout
        said = self._parent.stdout.readline()
        if said != "up\n":
            self.kill()
            raise OSError(said)
        # unshare has one child, the host's first process.
        children = Path(f"/proc/{self._parent.pid}/task/{self._parent.pid}/children").read_text()
        self.pid = int(children)

    def command(self, *words: object) -> list[str]:
        """Return a command that runs *words* on this host."""
        inside = ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--pid"]
        return [*inside, f"--wd={os.getcwd()}", "--", *map(str, words)]

    def run(self, *words: object, **options: Any) -> subprocess.CompletedProcess:
        """Run a command on this host to its end; see tests.programs.completed."""
        return completed(self.command(*words), **options)

    def kill(self) -> None:
        """End the host and all its processes."""
        if self._parent.returncode is None:
            self._parent.kill()
            # to the end of the output, which the host's first process has open
            self._parent.communicate()


def reason_for_none() -> str:
    """Return why this machine can make no hosts; an empty string if it can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {' '.join(missing)} (Debian: iproute2, util-linux)"
    network = "ip link add switch type bridge; ip link add one type veth peer name other"
    own = ["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc"]
    tried = completed(["unshare", *own, "sh", "-ec", f"hostname other; {network}"])
    return f"this machine allows no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@contextlib.contextmanager
def hosts(folder: Path, *names: str) -> Iterator[list[Host]]:
    """Context manager: boot hosts of these names and connect them; kill them afterwards.

    Skips the test where this machine can make no hosts.
    """
    why = reason_for_none()
    if why:
        pytest.skip(why)
    addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
    table = folder / "hosts"
    table.write_text(
        "127.0.0.1 localhost\n"
        + "".join(f"{address} {name}\n" for name, address in addresses.items())
    )
    with contextlib.ExitStack() as stack:
        booted = []
        for name, address in addresses.items():
            booted.append(Host(name, address, table))
            stack.callback(booted[-1].kill)
        # The first host has the switch that all are connected to.
        first = booted[0]
        first.run("ip", "link", "add", "switch", "type", "bridge", status=0)
        first.run("ip", "link", "set", "switch", "up", status=0)
        first.run("ip", "address", "add", f"{first.address}/24", "dev", "switch", status=0)
        for host in booted[1:]:
            link = f"ip link add name {host.name} type veth peer name eth0 netns {host.pid}".split()
            # By the process id of this machine, since the first
            # host does not see the others' processes.
            completed(["nsenter", "--target", str(first.pid), "--net", "--", *link], status=0)
            first.run("ip", "link", "set", "dev", host.name, "master", "switch", "up", status=0)
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0", status=0)
            host.run("ip", "link", "set", "eth0", "up", status=0)
        yield booted
