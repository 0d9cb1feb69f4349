"""The order of a fresh machine: images are missing when a command is typed,
and servers wait for their clients.
"""

import os
import signal
import subprocess
import time
import uuid

import pytest

from tests.images.compose_project import SOON
from tests.processes import wait_until
from tests.programs import programs_to_end

pytestmark = pytest.mark.timeout(3600)  # the first test builds the images

# Each client with arguments that make its servers work.
CLIENTS = {
    "ft-bench": "text --quick --workers 1 --rounds 1 --configs gil",
    "gil-bench": "text --quick --workers 1 --rounds 1 --configs ft",
    "ft-repro": "repro/hello.py --repeat 1",
}
SERVERS = ("gil-server", "ft-server", "ft-repro-server", "gil-repro-server")


@pytest.fixture
def project(project):
    (project.directory / "repro" / "hello.py").write_text("print('hello')\n")
    return project


@pytest.fixture
def cold(images, project):
    """The project without its images (`cold.images`),
    which take six seconds to build from the finished images.
    """
    mark = uuid.uuid4().hex[:8]
    project.images = {twin: f"{twin}-cold-{mark}" for twin in images}
    for twin in images:
        (project.directory / f"Dockerfile.{twin}").write_text(
            f"FROM {twin}-env:latest\nRUN echo {twin}-{mark}; sleep 6\n"
        )
    variables = {f"{twin.upper()}_IMAGE": name for twin, name in project.images.items()}
    project.environment = {**project.environment, **variables}
    yield project
    project.down()
    for name in project.images.values():
        subprocess.run(
            ["docker", "image", "rm", name], env=project.environment, capture_output=True
        )


@pytest.fixture
def start(cold):
    """Start a client without a terminal. The client is ended after the test."""
    with programs_to_end() as start:
        yield lambda client, *arguments: start(
            cold.command("--progress", "plain", "run", "--rm", "-T", client, *arguments),
            env=cold.environment,
            stderr=subprocess.STDOUT,
        )


# What the clients do with their servers is the same with warm images, below.
@pytest.mark.parametrize("client, arguments", [("ft-bench", ["--list"]), ("ft-repro", ["--help"])])
def test_both_images_are_built_before_anything_starts(engine, cold, start, client, arguments):
    process = start(client, *arguments)
    assert wait_until(lambda: cold.containers(engine, status=None))
    assert [twin for twin, name in cold.images.items() if not engine.images.list(name=name)] == []
    shown = process.communicate()[0]
    assert process.returncode == 0, shown


@pytest.mark.parametrize(
    ("client", "number"),
    [("ft-bench", signal.SIGINT), ("gil-bench", signal.SIGKILL), ("ft-repro", signal.SIGKILL)],
)
def test_a_client_that_ends_while_images_are_built_leaves_nothing(
    engine, cold, start, client, number
):
    process = start(client, *CLIENTS[client].split())
    building = set()
    for line in process.stdout:
        building |= {twin for twin in cold.images if f"echo {twin}-" in line}
        if len(building) == 2:
            break
    os.killpg(process.pid, number)
    process.communicate()
    assert process.returncode != 0
    time.sleep(10)  # longer than the builds would have gone on
    assert not cold.containers(engine, status=None)


def test_servers_wait_for_late_clients(engine, project):
    command = project.command("up", "--detach", *SERVERS)
    subprocess.run(command, env=project.environment, capture_output=True, check=True)
    time.sleep(35)  # servers that gave up after 30 seconds would have gone

    def started():
        containers = project.containers(engine, status=None)
        labels = {
            container.id: container.labels["com.docker.compose.service"] for container in containers
        }
        return {
            labels[c.id]: c.attrs["State"]["StartedAt"]
            for c in containers
            if labels[c.id] in SERVERS
        }

    waiting = started()
    assert len(waiting) == len(project.containers(engine)) == len(SERVERS)
    for client, arguments in CLIENTS.items():
        project.run(client, *arguments.split(), status=0)
    # Each server ended with its client, and no server was started again.
    assert wait_until(lambda: not project.containers(engine), SOON)
    assert started() == waiting
