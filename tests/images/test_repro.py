"""`docker compose run --rm ft-repro`: the walls around a stranger's script,
tried by scripts that break them.

What ends a script that forks, fills memory or disk, or hangs is the same supervisor as without
containers, and is tested in tests/unit/safety/test_runs.py.
"""

import os

import pytest

from tests.images.compose_project import Project
from tests.markdown_files import shell_commands
from tests.programs import completed

IMAGE_USER = 1000
pytestmark = pytest.mark.timeout(3600)  # the first test builds the images
RUNS = ("ft-repro-server", "gil-repro-server")


@pytest.fixture(scope="module")
def project(engine, images, shell_environment, tmp_path_factory):
    """Run ft-repro in a directory with compose.yaml, repro/ and results/, as in a clone."""
    project = Project(tmp_path_factory.mktemp("repro"), shell_environment, IMAGE_USER)
    user = () if os.geteuid() == 0 else ("--user", f"{os.getuid()}:{os.getgid()}")

    def run(*arguments, script=None, status=None):
        """Run ft-repro, with the source `script` on standard input if given."""
        stdin = ["-"] if script is not None else []
        command = project.command("run", "--rm", "-T", *user, "ft-repro", *stdin, *arguments)
        done = completed(command, env=shell_environment, input=script or "")
        # The servers end with their client. Wait, so that the next run starts new servers and meets
        # no ending ones.
        if done.returncode != 2:
            for container in project.containers(engine):
                container.wait(timeout=1500)
        assert status in (None, done.returncode), done.stdout + done.stderr
        return done

    def paste(line):
        """Run a command line of a report where the report was printed, in this project."""
        variables = {**shell_environment, "COMPOSE_PROJECT_NAME": project.name}
        return completed(line, shell=True, cwd=project.directory, env=variables)

    run.directory, run.paste = project.directory, paste
    yield run
    project.down()


@pytest.fixture
def inside(project):
    """Run Python source behind the walls, once in each container.
    The source fails if a wall does not hold.
    """
    return lambda source: project(
        "--repeat", "1", "--configs", "gil,ft", "--timeout", "1000", script=source
    )


def held(done):
    """Check that a script found every wall in place, in both containers; return the report."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Not reproduced in 1 runs" in done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["ft-repro", *RUNS])
def test_every_wall_is_named(compose_configuration, name):
    configuration = compose_configuration()
    service = configuration["services"][name]
    assert (
        service["network_mode"] == "none"
        and service["read_only"] is True
        and service["cap_drop"] == ["ALL"]
    )
    # A server is root only to run the script as another user and to end it.
    if name in RUNS:
        assert service["user"] == "0:0" and set(service["cap_add"]) == {"SETUID", "SETGID", "KILL"}
        assert "--user 4242" in " ".join(service["entrypoint"]) and not service.get("group_add")
    else:
        assert (
            service["user"] == "1000:1000"
            and not service.get("cap_add")
            and service["group_add"] == ["4243"]
        )
    sockets = [volume["source"] for volume in service["volumes"] if volume["type"] == "volume"]
    assert sockets == {"ft-repro-server": ["repro-ft"], "gil-repro-server": ["repro-gil"]}.get(
        name, ["repro-ft", "repro-gil"]
    )
    for socket in sockets:
        assert "uid=0,gid=4243,mode=0750" in configuration["volumes"][socket]["driver_opts"]["o"]
    assert service["logging"]["options"] == {"max-size": "1m", "max-file": "1"}
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged") and not service.get("devices") and not service.get("pid")
    assert 2100 <= int(service["pids_limit"]) <= 4096 and float(service["cpus"]) <= 2
    assert service["mem_limit"] == service["memswap_limit"]
    (tmp,) = service["tmpfs"]
    assert tmp.startswith("/tmp:") and "size=" in tmp
    binds = {
        volume["target"]: volume.get("read_only", False)
        for volume in service["volumes"]
        if volume["type"] == "bind"
    }
    # The servers see no folder of the host. The client sees the scripts' folder and the results'.
    assert binds == ({} if name in RUNS else {"/repro": True, "/results": False})


def test_a_gallery_script_is_judged_and_its_commands_run_as_pasted(project):
    done = project(
        "repro/counter_increment.py",
        "--threads",
        "4",
        "--repeat",
        "6",
        "--out",
        "/results/report.md",
        status=10,
    )
    assert "Fails only without the GIL" in done.stdout
    report = (project.directory / "results" / "report.md").read_text()
    assert report.strip() == done.stdout.strip()
    assert (
        "walls: containers without network" in report
        and "docker compose run --rm -T ft-repro -" in report
    )
    found = shell_commands(done.stdout)
    assert len(found) == 2, done.stdout
    for line in found:
        pasted = project.paste(line)
        assert pasted.stdout.startswith("# Reproducer: "), (line, pasted.stdout + pasted.stderr)


def test_a_script_that_is_not_there(project):
    done = project("/no/such.py")
    assert done.returncode == 2 and "standard input" in done.stderr


# Fails if there is a network, a way to more rights,
# a place to write to but memory, or anything of the host.
WALLS = r"""
import ctypes, os, socket, subprocess
assert len(open('/proc/net/route').readlines()) == 1, 'there is a route'
for where in (('1.1.1.1', 53), ('172.17.0.1', 2375), ('host.docker.internal', 80)):
    try:
        socket.create_connection(where, timeout=5)
    except OSError:
        continue
    raise SystemExit(f'reached {where}')
assert os.getresuid() == os.getresgid() == (4242,) * 3 and os.getgroups() == []
status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().splitlines())
for kind in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'):
    assert int(status[kind], 16) == 0, (kind, status[kind])
assert status['NoNewPrivs'] == '1'
for call in (lambda: os.setuid(0), lambda: os.chroot('/tmp'),
             lambda: os.mknod('/tmp/m', 0o60600, 0x801),
             lambda: os.setgid(0), lambda: os.setuid(1000), lambda: os.setgroups([4243])):
    try:
        call()
    except OSError:
        continue
    raise SystemExit('a privileged call succeeded')
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == -1
assert subprocess.run(['su', '-c', 'id -u'], capture_output=True, input=b'').returncode != 0
assert not os.path.exists('/repro') and not os.path.exists('/results'), 'sees folders of the host'
assert not os.path.exists('/var/run/docker.sock') and not os.path.exists('/run/docker.sock')
assert 'secret' not in ' '.join(os.environ)
assert len([name for name in os.listdir('/proc') if name.isdigit()]) < 20, 'sees processes of the host'
for path in ('/x', '/opt/ft-env/x', '/usr/local/bin/python3', '/home/ft/x', '/etc/passwd', '/cache/x',
             '/workspace/x', '/var/tmp/x'):
    try:
        open(path, 'a').close()
    except OSError:
        continue
    raise SystemExit(f'wrote to {path}')
# All writable places are in memory, and limited.
disk = [line.split()[1] for line in open('/proc/mounts') if ' rw,' in line
        and line.split()[2] not in ('tmpfs', 'proc', 'sysfs', 'mqueue', 'devpts', 'cgroup', 'cgroup2')]
assert all(os.path.isfile(path) for path in disk), disk
os.chdir('/tmp')
open('tool', 'w').write('#!/bin/sh\nexit 1\n')
os.chmod('tool', 0o755)
try:
    os.execv('/tmp/tool', ['tool'])
except PermissionError:
    pass
"""


def test_walls_hold(inside, project):
    (project.directory / "results" / "secret").write_text("secret")
    held(inside(WALLS))


def test_the_supervisor_cannot_be_steered(inside):
    held(
        inside(
            "import ctypes, os, resource, signal, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, "
            "ctypes.c_void_p]\n"
            "for pid in {1, os.getppid()}:\n"
            # PTRACE_ATTACH and PTRACE_SEIZE.
            "    for request in (16, 0x4206):\n"
            "        assert libc.ptrace(request, pid, None, None) == -1, f'traces {pid}'\n"
            "    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):\n"
            "        try:\n            os.kill(pid, number)\n"
            "        except PermissionError:\n            continue\n"
            "        raise SystemExit(f'sent {number} to {pid}')\n"
            # Descriptor 1 of process 1 is the log of the host's engine.
            "    for name, mode in (('mem', 'r+b'), ('environ', 'rb'), ('maps', 'rb'), "
            "('fd/1', 'wb')):\n"
            "        try:\n            open(f'/proc/{pid}/{name}', mode, buffering=0).close()\n"
            "        except OSError:\n            continue\n"
            "        raise SystemExit(f'opened {name} of {pid}')\n"
            # What needs no more than the same user, or the same container: another's memory,
            # descriptors and limits.
            "buffer = ctypes.create_string_buffer(64)\n"
            "vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)\n"
            "pidfd = os.pidfd_open(1)\n"
            "calls = {'process_vm_readv': (310, 1, vector, 1, vector, 1, 0), 'pidfd_getfd': "
            "(438, pidfd, 1, 0),\n"
            "         'pidfd_send_signal': (424, pidfd, 19, 0, 0), 'unshare': (272, 0x10000000),\n"
            # Keys live on with the user, after its last process.
            "         'bpf': (321, 0, buffer, 64), 'add_key': (248, b'user', b'mark', b'x', 1, "
            "-4)}\n"
            "for name, arguments in calls.items() if os.uname().machine == 'x86_64' else ():\n"
            "    assert libc.syscall(*arguments) == -1, name\n"
            "for attempt in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: "
            "os.sched_setaffinity(1, {0}),\n"
            "                lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1)),\n"
            "                lambda: os.setxattr('/tmp', 'user.mark', b'1'), lambda: "
            "os.chmod('/dev/shm', 0o700),\n"
            "                lambda: open('/sys/fs/cgroup/cgroup.procs', 'r+'), lambda: "
            "open('/dev/console', 'w')):\n"
            "    try:\n        attempt()\n"
            "    except OSError:\n        continue\n"
            "    raise SystemExit('steers what is not its own')\n"
            # The sockets.
            "for folder in ('/run/ft', '/run/gil'):\n"
            "    for attempt in (lambda: os.listdir(folder), lambda: os.stat(f'{folder}/socket'),\n"
            "                    lambda: "
            "socket.socket(socket.AF_UNIX).connect(f'{folder}/socket'),\n"
            "                    lambda: socket.socket(socket.AF_UNIX).bind(f'{folder}/mine')):\n"
            "        try:\n            attempt()\n"
            "        except (PermissionError, FileNotFoundError):\n            continue\n"
            "        raise SystemExit(f'reached {folder}')\n"
        )
    )


# An attack that once forged all later runs: stop the supervisor, replace both sockets, and answer
# the next client with own results. The same script runs in both containers.
FORGER = """
import contextlib, glob, json, os, signal, socket, sys
from ftrun import environment
for pid in (os.getppid(), 1):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
listeners = []
for path in ("/run/ft/socket", "/run/gil/socket", "/run/twins/ft.sock", "/run/twins/gil.sock"):
    with contextlib.suppress(OSError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen()
        listeners.append(listener)
if os.fork() == 0 and listeners:
    os.setsid()
    listener = listeners[os.fork() == 0]
    while True:
        peer = listener.accept()[0].makefile("rw")
        print(json.dumps({"hello": 4}), file=peer, flush=True)
        for line in peer:
            result = {"kind": "exception", "detail": "FORGED", "seconds": 1.0, "stdout": "", "stderr": "",
                      "stacks": "", "modules": [], "notes": []}
            if json.loads(line)["op"] == "describe":
                result = environment.describe()
                result["interpreter"]["twin"] = "ft" if listener is listeners[0] else "gil"
            print(json.dumps({"result": result}), file=peer, flush=True)
os._exit(3 if listeners else 0)
"""


def test_a_script_cannot_forge_later_runs(inside, project):
    first = inside(FORGER)
    second = project("--repeat", "1", "--timeout", "60", script="print('honest')\n")
    assert "FORGED" not in second.stdout, second.stdout
    held(second)
    held(first)


def test_a_run_finds_nothing_of_the_one_before(project):
    done = project(
        "--repeat",
        "3",
        "--configs",
        "gil,ft",
        script=(
            "import ctypes, os, time\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "for folder in ('/tmp', '/dev/shm', '/dev/mqueue'):\n"
            "    others = [name for name in os.listdir(folder) if not "
            "name.startswith('ft-repro-')]\n"
            "    assert not others, (folder, others)\n"
            "assert len([name for name in os.listdir('/tmp')]) == 1\n"
            "for kind in ('shm', 'sem', 'msg'):\n"
            "    assert len(open(f'/proc/sysvipc/{kind}').readlines()) == 1, kind\n"
            "pids = [pid for pid in os.listdir('/proc') if pid.isdigit()]\n"
            "assert [int(pid) for pid in pids if os.stat(f'/proc/{pid}').st_uid == 4242] == "
            "[os.getpid()]\n"
            # All that could be left: files below folders without permissions,
            # queues, shared memory, processes.
            "for folder in ('/tmp', '/dev/shm', os.environ['HOME']):\n"
            "    os.makedirs(f'{folder}/a/b')\n"
            "    open(f'{folder}/a/b/c', 'w').close()\n"
            "    os.symlink('/etc/passwd', f'{folder}/link')\n"
            "    os.chmod(f'{folder}/a/b', 0)\n"
            "    os.chmod(f'{folder}/a', 0)\n"
            "assert libc.mq_open(b'/mark', os.O_CREAT | os.O_RDWR, 0o666, None) >= 0\n"
            "assert libc.shmget(4711, 4096, 0o1666) >= 0 and libc.semget(4711, 1, 0o1666) >= 0\n"
            "assert libc.msgget(4711, 0o1666) >= 0\n"
            "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
            "        time.sleep(600)\n    os._exit(0)\n"
        ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Not reproduced in 3 runs" in done.stdout


def test_killing_everything_kills_the_script_alone(inside):
    source = (
        "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\n"
        "except ProcessLookupError:\n    pass\n"
    )
    held(inside(source))


def test_files_arguments_and_input_are_sent(project):
    scripts = project.directory / "repro"
    (scripts / "values.csv").write_text("1,2\n")
    (scripts / "reads.py").write_text(
        "import sys\nprint(sys.argv[1:], input(), open('values.csv').read())\n"
    )
    beside = "repro/values.csv"
    done = project(
        "repro/reads.py", "--repeat", "1", "--with", beside, "--stdin", beside, "--arg", "8"
    )
    assert done.returncode == 0 and "['8'] 1,2 1,2" in done.stdout, done.stdout + done.stderr
