"""Fixtures for the images as a user has them: built by compose,
run by a real engine through docker-py.
"""

import json
import subprocess

import pytest

import docker
from tests.checkout import CHECKOUT
from tests.images.compose_project import Project
from tests.programs import completed

TWINS = ("ft", "gil")


@pytest.fixture(scope="session")
def engine():
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(
            f"no Docker engine answers ({error}); start one, for example with .ci/engine start"
        )
    yield client
    client.close()


@pytest.fixture(scope="session")
def compose_configuration(engine, shell_environment):
    """Return compose's resolved configuration; `compose_configuration("compose.gpu.yaml")`
    adds another file.
    """

    def compose_configuration(*more):
        files = [part for name in ("compose.yaml", *more) for part in ("-f", name)]
        answer = completed(
            ["docker", "compose", *files, "config", "--format", "json"],
            cwd=CHECKOUT,
            env=shell_environment,
            status=0,
        )
        return json.loads(answer.stdout)

    return compose_configuration


@pytest.fixture(scope="session")
def build(engine, shell_environment, request):
    """Return ``build(service, ...)``, which builds the images of services from this checkout
    as `docker compose build` does.
    """

    def build(*services):
        log = CHECKOUT / "results" / "image-build.log"
        log.parent.mkdir(exist_ok=True)
        # Print this, because a first build takes some fifteen minutes on two cores.
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\nbuilding the images (log: {log})", flush=True)
            with open(log, "wb") as output:
                code = subprocess.run(
                    ["docker", "compose", "--progress", "plain", "build", *services],
                    cwd=CHECKOUT,
                    env=shell_environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    check=False,
                ).returncode
        if code:
            pytest.fail(
                f"docker compose build "
                f"failed:\n{''.join(log.read_text(errors='replace').splitlines(True)[-40:])}"
            )

    return build


@pytest.fixture(scope="session")
def images(engine, build):
    """Both images: {"ft": Image, "gil": Image}."""
    build("ft-bench", "gil-bench")
    return {twin: engine.images.get(f"{twin}-env:latest") for twin in TWINS}


@pytest.fixture
def project(images, shell_environment, tmp_path):
    """A directory with compose.yaml and results/.
    Its containers and volumes are removed after the test.
    """
    project = Project(tmp_path, shell_environment)
    yield project
    project.down()


@pytest.fixture
def run(engine, images):
    """Run a command in a twin's image: `run("ft", ["python", "-V"])` returns its output.

    Raises docker.errors.ContainerError if the command fails.
    """

    def run(twin, command, **options):
        output = engine.containers.run(
            images[twin].id, command, remove=True, stderr=True, **options
        )
        return output.decode()

    return run


@pytest.fixture
def start(engine, images):
    """Start a container and return it; it is removed after the test."""
    containers = []

    def start(twin, command, **options):
        container = engine.containers.create(images[twin].id, command, **options)
        containers.append(container)
        container.start()
        return container

    yield start
    for container in containers:
        container.remove(force=True)
