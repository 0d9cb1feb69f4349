"""Contents and behaviour of each image."""

import json
import re
import signal
import time
from contextlib import closing
from itertools import takewhile

import pytest

import docker
from tests.checkout import locked

pytestmark = pytest.mark.timeout(3600)  # the first test builds the images
TWINS = ("ft", "gil")


def python(run, twin, code, **options):
    return run(twin, ["python", "-c", code], **options).strip()


def test_gil_can_be_forced_on(run):
    assert (
        python(
            run, "ft", "import sys; print(sys._is_gil_enabled())", environment={"PYTHON_GIL": "1"}
        )
        == "True"
    )


@pytest.mark.parametrize("twin", TWINS)
def test_user_is_not_root_and_any_user_will_do(run, twin):
    assert run(twin, ["id", "-u"]).strip() == "1000"
    code = (
        "import os, pathlib, torch; p = pathlib.Path.home() / 'x'; p.touch(); "
        "print(p.stat().st_uid)"
    )
    assert python(run, twin, code, user="12345:23456") == "12345"


@pytest.mark.parametrize("twin", TWINS)
def test_pip_installs_for_the_user(run, twin):
    # Without network, from a package made here: the test is that pip finds a place to install to.
    script = (
        'mkdir /tmp/p && cd /tmp/p && printf \'[project]\\nname="tiny"\\nversion="1"\\n'
        "[tool.setuptools]\\n"
        'py-modules=["tiny"]\\n\' > pyproject.toml && echo x=1 > tiny.py && '
        "pip install --quiet --no-build-isolation --no-index . && python -c 'import tiny; "
        "print(tiny.x)'"
    )
    assert run(twin, ["bash", "-c", script], network_mode="none").strip().splitlines()[-1] == "1"


@pytest.mark.parametrize("twin", TWINS)
def test_programs_on_path(run, twin):
    first, second, pip, check = run(
        twin, ["sh", "-c", "python -V; python3 -V; pip -V; pip check || true"]
    ).splitlines()
    assert first == second and first.startswith("Python 3.") and pip.startswith("pip ")
    # docker/requirements.in says why triton is left out; nothing else is missing.
    assert check == f"torch {locked('torch')} requires triton, which is not installed."


@pytest.mark.parametrize("twin", TWINS)
def test_nothing_of_the_build_is_left(run, twin):
    script = (
        "for p in gcc cc g++ make uv; do command -v $p; done; "
        "ls -A /var/lib/apt/lists /root/.cache /docker /source 2>/dev/null "
        "| grep -v ':$'; ls -d /home/ft/.cache 2>/dev/null; true"
    )
    assert run(twin, ["bash", "-c", script], user="0").strip() == ""


@pytest.mark.parametrize("twin", TWINS)
def test_labels_and_configuration(images, twin):
    config = images[twin].attrs["Config"]
    labels = config["Labels"]
    assert labels["org.opencontainers.image.title"] == f"{twin}-env"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert (
        labels["org.opencontainers.image.description"]
        and labels["org.opencontainers.image.revision"]
    )
    assert config["User"] == "ft"
    assert config["Entrypoint"][0].endswith("tini")


@pytest.mark.parametrize("twin", TWINS)
def test_nobody_becomes_another_user_or_writes_into_anothers_home(run, twin):
    find = "find / -xdev -type f -perm /6000; find /home -perm -o+w"
    assert run(twin, ["sh", "-c", find], user="0").strip() == ""


@pytest.mark.parametrize("twin", TWINS)
def test_no_mirror_is_in_the_history(images, twin):
    # A build argument is recorded with its value, which may hold a password.
    steps = " ".join(entry["CreatedBy"] for entry in images[twin].history())
    assert "DEBIAN_MIRROR" in steps
    assert not re.search(r"\b(DEBIAN_\w*MIRROR|PIP_\w+|UV_\w*INDEX|TORCH_\w+)=(?!\"\$\()", steps)


def test_twins_share_their_largest_part_and_differ_in_the_gil_alone(engine, images, run):
    layers = {twin: images[twin].attrs["RootFS"]["Layers"] for twin in TWINS}
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(layers["ft"], layers["gil"]))
    )
    # The history names the size of each layer, the newest first, and of steps that left no layer.
    sizes = [entry["Size"] for entry in reversed(images["ft"].history()) if entry["Size"]]
    # The CUDA libraries are in the shared part: more than half of an image.
    assert sum(sizes[:shared]) > images["ft"].attrs["Size"] / 2

    config = {twin: dict(images[twin].attrs["Config"]) for twin in TWINS}
    for twin in TWINS:
        config[twin]["Labels"] = {
            key: value
            for key, value in config[twin]["Labels"].items()
            if key != "org.opencontainers.image.title" and not key.startswith("com.docker.compose")
        }
        config[twin].pop("Image", None)
    assert config["ft"] == config["gil"]

    freeze = {twin: run(twin, ["pip", "freeze"]) for twin in TWINS}
    assert freeze["ft"] == freeze["gil"]
    flags = {
        twin: set(
            python(
                run, twin, "import sysconfig; print(sysconfig.get_config_var('CONFIG_ARGS'))"
            ).split()
        )
        for twin in TWINS
    }
    of_the_gil = {
        "'--disable-gil'",
        "'--enable-experimental-jit=yes-off'",
    }  # docker/download-cpython
    assert flags["ft"] ^ flags["gil"] <= of_the_gil and "'--disable-gil'" in flags["ft"]
    debian = {twin: run(twin, ["dpkg-query", "--show"]) for twin in TWINS}
    assert debian["ft"] == debian["gil"]


@pytest.mark.parametrize("twin", TWINS)
def test_info(run, twin):
    # It needs no network, and no place to write to.
    info = json.loads(run(twin, ["info", "--json"], network_mode="none", read_only=True))
    assert info["interpreter"]["twin"] == twin
    assert ("--disable-gil" in info["interpreter"]["config_args"]) == (twin == "ft")
    states = {package["name"]: package["gil_enabled_after_import"] for package in info["imports"]}
    assert set(states.values()) == {twin == "gil"} and {"torch", "numpy", "pillow"} <= set(states)
    assert info["problems"] == []


def test_nothing_is_imported_from_the_current_directory(run):
    script = (
        "cd /tmp; for name in ftrun ftbench ftsafety rich json; do echo 'raise SystemExit(9)' "
        ">$name.py; done; for verb in bench audit repro info; do /opt/ft-env/docker/entrypoint "
        "$verb --help >/dev/null || exit; done"
    )
    run("ft", ["bash", "-c", script])


@pytest.mark.parametrize("twin", TWINS)
def test_audit(run, twin):
    audit = (
        "echo 'data = list(range(50))' >mine.py && /opt/ft-env/docker/entrypoint audit "
        "mine.py:data --samples 8"
    )
    assert "mine.py:data" in run(twin, ["bash", "-c", f"{audit} --seconds 1"], network_mode="none")


@pytest.mark.parametrize("limit", [{"nano_cpus": 1_000_000_000}, {"cpuset_cpus": "0"}])
def test_the_processors_are_those_of_the_container(run, limit):
    code = "from ftrun import environment; print(environment.describe()['cpu']['usable'])"
    assert python(run, "ft", code, **limit) == "1"


def typed(container, text):
    stream = container.attach_socket(
        params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 1}
    )
    # docker-py ties the socket to the HTTP response that it came from;
    # closed in this order neither complains.
    with closing(stream._sock) as terminal, closing(stream._response):
        terminal.sendall(text.encode())
        container.wait(timeout=1500)
    shown = re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>])", "", container.logs().decode())
    return re.sub(r"[\r\n]+", "\n", shown)


@pytest.mark.parametrize(
    ("twin", "command", "state"),
    [
        ("ft", ["python"], "free-threaded build; the GIL is OFF"),
        ("ft", None, "free-threaded build; the GIL is OFF"),
        ("gil", ["python"], "with-GIL build; the GIL is ON"),
    ],
)
def test_interactive_python_greets_and_is_plain_otherwise(start, twin, command, state):
    container = start(twin, command, tty=True, stdin_open=True)
    shown = typed(container, "print(6 * 7)\nexit()\n")
    # What was typed before the prompt is echoed by the terminal, wherever the output then is: only
    # the order of the lines that Python wrote is fixed.
    greeting = next(line for line in shown.splitlines() if line.startswith("ft-env: CPython 3."))
    assert f"{state}; with PyTorch {locked('torch')}, " in greeting
    assert re.search(r"^Python 3\.", shown.partition(greeting)[2], re.MULTILINE)
    assert "42" in shown.partition(greeting)[2].splitlines()


@pytest.mark.parametrize(
    "command",
    [["python", "-c", "import time; time.sleep(1000)"], ["python"], ["bash", "-c", "sleep 1000"]],
)
def test_stops_when_asked_to(start, command):
    container = start("ft", command, stdin_open=True)
    time.sleep(1)
    container.reload()
    assert container.status == "running"
    container.stop(timeout=300)
    assert container.wait()["StatusCode"] != 128 + signal.SIGKILL


def test_without_a_notebook_server_it_says_how_to_get_one(run):
    with pytest.raises(docker.errors.ContainerError) as failure:
        run("ft", ["notebook"])
    assert failure.value.exit_status == 2
    assert b"docker compose up notebook" in failure.value.stderr


def test_orphans_are_reaped(start):
    container = start("ft", ["bash", "-c", "(sleep 0.1 &) ; exec sleep 1000"])
    time.sleep(2)
    assert container.top()["Processes"]
    states = container.exec_run(
        ["bash", "-c", "grep -h ^State: /proc/[0-9]*/status"]
    ).output.decode()
    assert "zombie" not in states
    assert container.exec_run(["cat", "/proc/1/comm"]).output.decode().strip() == "tini"


def test_failing_command_gives_its_exit_code(run):
    with pytest.raises(docker.errors.ContainerError) as failure:
        python(run, "gil", "import sys; sys.exit(7)")
    assert failure.value.exit_status == 7
