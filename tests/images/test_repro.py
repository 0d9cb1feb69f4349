"""`docker compose run --rm ft-repro`: what the walls around somebody else's script hold, tried by breaking them."""

import os
import re
import shutil
import subprocess
import uuid

import pytest

from tests.checkout import CHECKOUT

IMAGE_USER = 1000
pytestmark = pytest.mark.timeout(3600)  # the first test builds the images
RUNS = ("ft-repro-server", "gil-repro-server")


@pytest.fixture(scope="module")
def project(engine, images, shell_environment, tmp_path_factory):
    """Runs ft-repro in a directory with compose.yaml, repro/ and results/, as in a clone."""
    directory = tmp_path_factory.mktemp("repro")
    shutil.copy(CHECKOUT / "compose.yaml", directory)
    shutil.copytree(CHECKOUT / "repro", directory / "repro", ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "results").mkdir()
    user = ()
    if os.geteuid() == 0:
        os.chown(directory / "results", IMAGE_USER, IMAGE_USER)
    else:
        user = ("--user", f"{os.getuid()}:{os.getgid()}")
    name = f"ft-repro-test-{uuid.uuid4().hex[:8]}"
    base = [
        "docker",
        "compose",
        "--project-name",
        name,
        "--project-directory",
        str(directory),
        "-f",
        str(directory / "compose.yaml"),
    ]

    def run(*arguments, script=None):
        """Runs ft-repro; with `script`, its source on standard input."""
        command = [*base, "run", "--rm", "-T", *user, "ft-repro", *(["-"] if script is not None else []), *arguments]
        done = subprocess.run(
            command, env=shell_environment, input=script or "", capture_output=True, text=True, timeout=600
        )
        # The servers end with their client. The next run is to start them anew, not to meet them on their way out.
        for container in engine.containers.list(filters={"label": f"com.docker.compose.project={name}"}):
            container.wait(timeout=60)
        return done

    run.directory = directory
    yield run
    subprocess.run(
        [*base, "down", "--volumes", "--timeout", "2"], capture_output=True, env=shell_environment, check=True
    )


@pytest.fixture
def inside(project):
    """Runs Python source behind the walls, once in each configuration. It fails if a wall does not hold."""
    return lambda source: project("--repeat", "1", "--timeout", "120", script=source)


def held(done):
    """The report of a script that found every wall in place, in all configurations."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Not reproduced in 1 runs" in done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["ft-repro", *RUNS])
def test_every_wall_is_named(compose_configuration, name):
    service = compose_configuration()["services"][name]
    assert service["network_mode"] == "none" and service["read_only"] is True
    assert service["user"] == "1000:1000" and service["cap_drop"] == ["ALL"] and not service.get("cap_add")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged") and not service.get("devices") and not service.get("pid")
    assert int(service["pids_limit"]) <= 512 and float(service["cpus"]) <= 2
    assert service["mem_limit"] == service["memswap_limit"]
    (tmp,) = service["tmpfs"]
    assert tmp.startswith("/tmp:") and "size=" in tmp
    binds = {
        volume["target"]: volume.get("read_only", False) for volume in service["volumes"] if volume["type"] == "bind"
    }
    # Where the script runs, nothing of the host is seen; where it is read, its folder and the output's.
    assert binds == ({} if name in RUNS else {"/repro": True, "/results": False})


def test_a_gallery_script_is_judged(project):
    done = project("repro/counter_increment.py", "--threads", "4", "--repeat", "6", "--out", "/results/report.md")
    assert done.returncode == 10, done.stdout + done.stderr
    assert "Fails only without the GIL" in done.stdout
    report = (project.directory / "results" / "report.md").read_text()
    assert report.strip() == done.stdout.strip()
    assert "walls: containers without network" in report and "docker compose run --rm -T ft-repro -" in report


def test_a_script_that_is_not_there(project):
    done = project("/no/such.py")
    assert done.returncode == 2 and "standard input" in done.stderr


def test_no_network(inside):
    held(
        inside(
            "import socket\n"
            "assert len(open('/proc/net/route').readlines()) == 1, 'there is a route'\n"
            "for where in (('1.1.1.1', 53), ('172.17.0.1', 2375), ('host.docker.internal', 80)):\n"
            "    try:\n        socket.create_connection(where, timeout=5)\n"
            "    except OSError:\n        continue\n"
            "    raise SystemExit(f'reached {where}')\n"
        )
    )


def test_not_root_without_capabilities_and_no_way_back(inside):
    held(
        inside(
            "import ctypes, os, subprocess\n"
            "assert os.getuid() == os.geteuid() == 1000 and os.getgid() == 1000\n"
            "status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())\n"
            "for kind in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):\n"
            "    assert int(status[kind], 16) == 0, (kind, status[kind])\n"
            "assert status['NoNewPrivs'] == '1'\n"
            "for call in (lambda: os.setuid(0), lambda: os.chroot('/tmp'),\n"
            "             lambda: os.mknod('/tmp/m', 0o60600, 0x801),\n"
            "             lambda: os.setgid(0)):\n"
            "    try:\n        call()\n"
            "    except OSError:\n        continue\n"
            "    raise SystemExit('a privileged call succeeded')\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == -1\n"
            "assert subprocess.run(['su', '-c', 'id -u'], capture_output=True, input=b'').returncode != 0\n"
        )
    )


def test_read_only(inside):
    held(
        inside(
            "import errno, os\n"
            "for path in ('/x', '/opt/ft-env/x', '/usr/local/bin/python3', '/home/ft/x', '/etc/passwd', '/cache/x',\n"
            "             '/workspace/x', '/var/tmp/x'):\n"
            "    try:\n        open(path, 'a').close()\n"
            "    except OSError:\n        continue\n"
            "    raise SystemExit(f'wrote to {path}')\n"
            # What can be written to lies in memory, and is limited.
            "disk = [line.split()[1] for line in open('/proc/mounts') if ' rw,' in line\n"
            "        and line.split()[2] not in ('tmpfs', 'proc', 'sysfs', 'mqueue', 'devpts', 'cgroup', 'cgroup2')]\n"
            "assert all(os.path.isfile(path) for path in disk), disk\n"
            "os.chdir('/tmp')\n"
            "open('tool', 'w').write('#!/bin/sh\\nexit 1\\n')\nos.chmod('tool', 0o755)\n"
            "try:\n    os.execv('/tmp/tool', ['tool'])\n"
            "except PermissionError:\n    pass\n"
        )
    )


def test_nothing_of_the_host(inside, project):
    (project.directory / "results" / "secret").write_text("secret")
    held(
        inside(
            "import os\n"
            "assert not os.path.exists('/repro') and not os.path.exists('/results'), 'sees folders of the host'\n"
            "assert not os.path.exists('/var/run/docker.sock') and not os.path.exists('/run/docker.sock')\n"
            "assert 'secret' not in ' '.join(os.environ)\n"
            "assert len([name for name in os.listdir('/proc') if name.isdigit()]) < 20, 'sees processes of the host'\n"
        )
    )


def test_forking_endlessly(inside):
    done = inside("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n")
    assert done.returncode in (12, 13, 14), done.stdout + done.stderr
    assert re.search(r"had more than 128 processes|did not end in time", done.stdout)


def test_filling_memory_and_disk(inside):
    done = inside("import os\nn = 0\nwhile True:\n    n += 1\n    open(f'/tmp/f{n}', 'wb').write(bytes(1 << 22))\n")
    # Either the scratch folder's limit or the end of the file system in memory; in any case it ends and says so.
    assert done.returncode in (12, 13, 14), done.stdout + done.stderr
    assert "No space left" in done.stdout or "scratch folder" in done.stdout or "MiB of memory" in done.stdout
    done = inside("x = []\nwhile True: x.append(bytearray(1 << 24))\n")
    assert done.returncode in (12, 13, 14), done.stdout + done.stderr
    assert "MemoryError" in done.stdout or "memory" in done.stdout


def test_killing_everything_is_noticed(inside):
    done = inside("import os, signal\nos.kill(-1, signal.SIGKILL)\n")
    # The supervisor has the script's user id, so it dies too; the container that judges lives on and says so.
    assert "the script may have killed what supervises it" in done.stdout.replace("\\", ""), done.stdout + done.stderr
    assert done.returncode in (12, 13, 14)
    assert "Fails only without" not in done.stdout


def test_the_supervisor_cannot_be_steered(inside):
    held(
        inside(
            "import ctypes, os\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "parent = os.getppid()\n"
            "assert libc.ptrace(16, parent, 0, 0) == -1, 'attached to the supervisor'\n"
            "for name in ('mem', 'environ', 'fd'):\n"
            "    try:\n"
            "        if name == 'fd': os.listdir(f'/proc/{parent}/fd')\n"
            "        else: open(f'/proc/{parent}/{name}', 'rb').read(1)\n"
            "    except OSError:\n        continue\n"
            "    raise SystemExit(f'read {name} of the supervisor')\n"
        )
    )


def test_hanging_and_ignoring_sigterm(project):
    done = project(
        "--repeat",
        "1",
        "--timeout",
        "10",
        script=(
            "import signal, threading\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "def stuck():\n    threading.Event().wait()\nstuck()\n"
        ),
    )
    assert done.returncode == 12, done.stdout + done.stderr
    assert "ignored SIGTERM" in done.stdout and "in stuck" in done.stdout


def test_packages_that_are_not_there(project):
    done = project("--repeat", "1", script="# /// script\n# dependencies = ['h5py']\n# ///\nimport h5py\n")
    assert done.returncode == 14, done.stdout + done.stderr
    assert "container without network" in done.stdout
