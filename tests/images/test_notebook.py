"""The services notebook and gil-notebook, as a user starts and uses them."""

import contextlib
import json
import os
import re
import socket
import urllib.error
import urllib.request
from dataclasses import dataclass

import pytest

from tests.checkout import CHECKOUT
from tests.images.compose_project import CALLER, Project
from tests.processes import wait_until
from tests.programs import completed

pytestmark = pytest.mark.timeout(3600)  # the first test builds the images

# A client of the server's API, for a container that has one for WebSockets: runs a cell in a new
# kernel and prints what the cell prints.
RUN_CELL = """
import json, sys, urllib.request, uuid, websocket
token, code = sys.argv[1:]
headers = {"Authorization": f"token {token}"}
server = "127.0.0.1:8888/api/kernels"
new = urllib.request.Request(f"http://{server}", b"{}", headers)
kernel = json.load(urllib.request.urlopen(new))["id"]
channels = websocket.create_connection(f"ws://{server}/{kernel}/channels", header=headers, timeout=200)
header = {"msg_id": uuid.uuid4().hex, "session": uuid.uuid4().hex, "username": "", "version": "5.3",
          "msg_type": "execute_request"}
channels.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "channel": "shell",
                          "content": {"code": code, "silent": False}}))
while True:
    message = json.loads(channels.recv())
    if message["parent_header"].get("msg_id") != header["msg_id"]:
        continue
    if message["msg_type"] in ("stream", "error"):
        print(message["content"].get("text") or message["content"]["traceback"], end="")
    if message["content"].get("execution_state") == "idle":
        break
"""
CELL = """
import json, os, pathlib, re, sys
import torch, ftloader
pathlib.Path("saved").touch()
status = pathlib.Path("/proc/self/status").read_text()
print(json.dumps({
    "gil": sys._is_gil_enabled(), "user": os.getuid(), "folder": os.getcwd(),
    **dict(re.findall("^(CapEff|CapPrm|NoNewPrivs):\\t(.*)$", status, re.M)),
}))
"""


@dataclass
class Server:
    """A service that runs, with its container and the address that it printed."""

    container: object
    url: str
    token: str

    def get(self, path, token=None):
        headers = {"Authorization": f"token {token}"} if token else {}
        address = re.match("http://[^/]+", self.url)[0] + path
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60)

    def answers(self):
        with contextlib.suppress(OSError):
            return self.get("/api/kernels", self.token).status == 200


@pytest.fixture(scope="session")
def notebook_images(build):
    build("notebook", "gil-notebook")


@pytest.fixture
def serve(engine, notebook_images, shell_environment, tmp_path):
    """Return ``serve(service, owner)``: start a service whose /code belongs to this user id."""
    # The profile, so that the end finds these services.
    shell_environment = {**shell_environment, "COMPOSE_PROFILES": "notebook"}
    project = Project(tmp_path, shell_environment)

    def serve(service, owner):
        code = tmp_path / "code"
        code.mkdir()
        if os.geteuid() == 0:
            os.chown(code, owner, owner)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ports = {"NOTEBOOK_PORT": port, "GIL_NOTEBOOK_PORT": port}
        project.environment = {**shell_environment, **ports, "CODE": str(code)}
        completed(project.command("up", "--detach", service), 0, env=project.environment)
        (container,) = project.containers(engine)
        address = rf"http://127\.0\.0\.1:{port}/lab\?token=(\w+)"
        assert wait_until(lambda: re.search(address, container.logs().decode()), 120), (
            container.logs().decode()
        )
        shown = re.search(address, container.logs().decode())
        server = Server(container, shown[0], shown[1])
        assert wait_until(server.answers, 120), container.logs().decode()
        return server

    yield serve
    project.down()


def test_another_value_of_the_build_argument_is_answered_with_those_allowed(
    engine, shell_environment
):
    build = ["docker", "build", "--file", "Dockerfile.ft", "--build-arg", "NOTEBOOK=maybe", "."]
    done = completed(build, 1, cwd=CHECKOUT, env=shell_environment)
    assert "NOTEBOOK must be yes or no" in done.stderr


@pytest.mark.parametrize(("service", "gil"), [("notebook", False), ("gil-notebook", True)])
def test_a_cell_runs_for_the_owner_of_the_code(serve, tmp_path, service, gil):
    server = serve(service, CALLER)
    with urllib.request.urlopen(server.url, timeout=60) as page:
        assert page.status == 200 and b"<title>JupyterLab</title>" in page.read()
    owner = (tmp_path / "code").stat().st_uid
    done = server.container.exec_run(["python", "-c", RUN_CELL, server.token, CELL])
    assert done.exit_code == 0, done.output.decode()
    facts = json.loads(done.output)
    assert facts == {
        "gil": gil,
        "user": owner,
        "folder": "/code",
        "CapEff": "0" * 16,
        "CapPrm": "0" * 16,
        "NoNewPrivs": "1",
    }
    assert (tmp_path / "code" / "saved").stat().st_uid == owner


def test_only_this_machine_and_only_with_the_token(serve):
    server = serve("notebook", CALLER)
    assert server.get("/api/kernels", server.token).status == 200
    for wrong in (None, "0" * len(server.token)):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.get("/api/kernels", wrong)
    server.container.reload()
    network = server.container.attrs["NetworkSettings"]
    ((published,),) = network["Ports"].values()
    assert published["HostIp"] == "127.0.0.1"
    # The same port at another address of this machine.
    (gateway,) = {each["Gateway"] for each in network["Networks"].values()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((gateway, int(published["HostPort"])), timeout=10)


def test_it_is_not_the_root_of_this_machine(serve):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to root")
    server = serve("notebook", 0)
    assert "user 1000 may not save in /code" in server.container.logs().decode()
    code = "import os; print(os.getuid())"
    done = server.container.exec_run(["python", "-c", RUN_CELL, server.token, code])
    assert (done.exit_code, done.output.strip()) == (0, b"1000")
