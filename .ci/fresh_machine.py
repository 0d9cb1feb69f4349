"""A fresh machine: a new Debian root file system in its own namespaces. Needs root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

SUITE = "trixie"
USER = "newcomer"
# Variables of docs/closed-networks.md that are passed on. AUTHORITIES name a file.
CLOSED = (
    "BASE_IMAGE",
    "PYTHON_FROM",
    "UV_PYTHON_INSTALL_MIRROR",
    "DEBIAN_MIRROR",
    "DEBIAN_SECURITY_MIRROR",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
)
AUTHORITIES = ("SSL_CERT_FILE", "CA_BUNDLE")
# pivot_root instead of chroot, because runc makes containers only if the root is a mount point.
START = """
mount --make-rprivate /
mount --bind "$1" "$1" && cd "$1"
mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev
mount -t tmpfs -o mode=1777,size=8g tmpfs dev/shm
cp -L /etc/resolv.conf etc/resolv.conf
mkdir -p old && pivot_root . old && umount -l old && rmdir old
hostname newcomer
echo ready
exec sleep infinity
"""


class Failure(Exception):
    """Failure of a command. The message names the command and shows its output."""


@dataclass(frozen=True)
class Done:
    """Result of a typed line.

    `built` is the number of seconds after which compose had all images, or ./twins both twins; None if neither said so.
    """

    status: int
    shown: str
    seconds: float
    built: float | None


def debootstrap(root: Path) -> dict[str, str]:
    """Make the root file system that machines start with: Debian's minimum, and git.

    Returns the environment variables for a closed network, with file names as the machine sees them.
    """
    if shutil.which("debootstrap") is None:
        _run(["apt-get", "-q", "update"], stdout=subprocess.DEVNULL)
        packages = ["debootstrap", "debian-archive-keyring"]
        _run(
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages],
            stdout=subprocess.DEVNULL,
        )
    mirror = os.environ.get("DEBIAN_MIRROR") or "http://deb.debian.org/debian"
    keyring = "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg"
    command = ["debootstrap", "--variant=minbase", "--include=git", keyring, SUITE, root, mirror]
    _run(command, stdout=subprocess.DEVNULL)
    closed = {name: os.environ[name] for name in CLOSED if os.environ.get(name)}
    bundle = next((os.environ[name] for name in AUTHORITIES if os.environ.get(name)), None)
    if bundle:
        shutil.copy(bundle, root / "etc" / "authorities.crt")
        closed.update(dict.fromkeys(AUTHORITIES, "/etc/authorities.crt"))
    return closed


class Machine:
    """A machine: a copy of the file system `minimum`, with processes of its own. Owned by the main thread.

    It shares this machine's network. `variables` are in every user's environment.
    """

    def __init__(self, root: Path, minimum: Path, variables: dict[str, str]):
        self.name = root.name
        self.variables = dict(variables)
        self._root = root
        self._log = root.with_suffix(".log")
        _run(["cp", "-a", minimum, root])
        self._init = subprocess.Popen(
            ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
            + ["sh", "-ec", START, "sh", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._init.stdout
        try:
            if self._init.stdout.readline() != "ready\n":
                raise Failure("the machine's namespaces could not be made")
            self._pid = (
                Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children")
                .read_text()
                .split()[0]
            )
            self.prepare(f"useradd --create-home --shell /bin/bash {USER}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process of the machine; its files stay."""
        # The machine's first process dies with unshare, and all others with it. Then the pipe ends.
        self._init.kill()
        assert self._init.stdout
        self._init.stdout.read()
        self._init.wait()

    def clone(self, checkout: Path, user: str) -> Path:
        """Clone `checkout` into ~/ft-env of the user; returns the clone as seen from outside."""
        home = home_of(user)
        clone = self._root / home.relative_to("/") / "ft-env"
        _run(["git", "clone", "--quiet", "--no-hardlinks", f"file://{checkout}", clone])
        self.prepare(f"chown -R {user}:{user} {home}")
        return clone

    def type(self, user: str, line: str, answer: str = "", timeout: float = 2 * 3600) -> Done:
        """Run a line in the user's clone (or home, if there is none) without a terminal. `answer` is the line's input.

        Raises Failure, and ends the machine, if the line takes more than `timeout` seconds.
        """
        variables = {
            "HOME": str(home_of(user)),
            "USER": user,
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **self.variables,
        }
        # A new session has no terminal. setpriv sets the user's groups, like a login.
        enter = [
            "nsenter",
            f"--target={self._pid}",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "setsid",
            "--wait",
        ]
        if user != "root":
            enter += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        process = subprocess.Popen(
            [*enter, "env", "-i", *(f"{name}={value}" for name, value in variables.items())]
            + ["bash", "-c", f"cd ~/ft-env 2>/dev/null || cd; {line}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdin and process.stdout
        process.stdin.write(answer)
        process.stdin.close()
        # Kill the machine, since killing nsenter would leave the processes that it started.
        timer = threading.Timer(timeout, self._init.kill)
        timer.start()
        start, built, shown = time.monotonic(), None, []
        try:
            with open(self._log, "a") as log:
                log.write(f"\n=== {user}: {line}\n")
                for text in process.stdout:
                    seconds = time.monotonic() - start
                    log.write(f"{seconds:7.1f} {text}")
                    log.flush()
                    shown.append(text)
                    # Compose prints the first when it has all images, ./twins the second.
                    if built is None and re.search(
                        r"Container \S+ +Creating|Built ft and gil in", text
                    ):
                        built = seconds
            done = Done(process.wait(), "".join(shown), time.monotonic() - start, built)
            if done.seconds >= timeout:
                raise Failure(
                    f"{self.name}: {line}: not finished after {timeout:.0f} seconds\n{done.shown[-2000:]}"
                )
            return done
        finally:
            timer.cancel()

    def prepare(self, line: str) -> None:
        """Run a line as root; raises Failure if it fails."""
        done = self.type("root", line)
        if done.status:
            raise Failure(f"{self.name}: {line}: status {done.status}\n{done.shown[-2000:]}")


def home_of(user: str) -> Path:
    """Return the user's home on a machine."""
    return Path("/root" if user == "root" else f"/home/{user}")


def _run(command: list, **options) -> None:
    subprocess.run([str(part) for part in command], check=True, stdin=subprocess.DEVNULL, **options)
