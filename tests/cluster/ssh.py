"""sshd on hosts of a test's cluster, and a configuration with which ssh reaches them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.hosts import Host
from tests.programs import completed

SSHD = "/usr/sbin/sshd"
SERVER = """\
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv {variables}
"""
CLIENT = """\
IdentityFile {folder}/key
UserKnownHostsFile {folder}/known
StrictHostKeyChecking accept-new
BatchMode yes
"""


def serve(hosts: list[Host], folder: Path, variables: dict[str, str]) -> Path:
    """Start sshd on each host, until the host is killed;
    return ssh's configuration. Skips the test without sshd.

    Args:
        variables: environment variables of all commands that ssh runs there.
    """
    if shutil.which(SSHD) is None or shutil.which("ssh") is None:
        pytest.skip("not installed: ssh and sshd (Debian: openssh-client openssh-server)")
    completed(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], status=0)
    names = " ".join(f'{name}="{value}"' for name, value in variables.items())
    (folder / "sshd_config").write_text(SERVER.format(folder=folder, variables=names))
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)  # what Debian's service makes
    for host in hosts:
        # sshd goes to the background once it listens.
        subprocess.run(
            host.command(SSHD, "-f", folder / "sshd_config", "-E", folder / f"{host.name}.log"),
            check=True,
        )
    return folder / "ssh_config"
