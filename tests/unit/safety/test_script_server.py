"""The command and a server, as in two containers: the script is sent,
run there, and judged here.
"""

import json
import os
import socket
import sys
import tempfile
import threading

import pytest

from ftrun.protocol import PROTOCOL
from ftsafety.repro.script import Script
from tests.checkout import importable
from tests.programs import completed, programs_to_end
from tests.unit.safety.conftest import TWIN

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(tmp_path):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return {**variables, "PYTHONPATH": importable(), "TMPDIR": str(tmp_path)}


@pytest.fixture
def server(environment, tmp_path):
    """A `ftsafety.repro.script_server` of this interpreter, at tmp_path/s."""
    options = ["--socket", str(tmp_path / "s"), "--idle", "200"]
    with programs_to_end() as start:
        yield start(
            [sys.executable, "-P", "-m", "ftsafety.repro.script_server", *options], env=environment
        )


@pytest.fixture
def reproduce(environment, tmp_path):
    # As in a locale that lacks what the report holds.
    variables = {**environment, "PYTHONIOENCODING": "ascii"}
    command = [
        sys.executable,
        "-P",
        "-m",
        "ftsafety.repro",
        "-",
        "--twin",
        f"{TWIN}=unix:{tmp_path / 's'}",
    ]

    def run(source, *arguments, status=None):
        return completed(
            [*command, "--repeat", "2", *arguments], status, env=variables, input=source
        )

    return run


def test_a_script_is_sent_and_judged(server, reproduce):
    source = "import os, sys\nprint('threads', os.environ['REPRO_THREADS'], 'π')\nsys.exit(3)\n"
    done = reproduce(source, "--threads", "3", "--configs", TWIN, status=13)
    assert "exit status 3" in done.stdout and "threads 3 \\u03c0" in done.stdout
    assert "docker compose run --rm -T ft-repro - --threads 3" in done.stdout
    assert "walls: containers" in done.stdout and "no walls" not in done.stderr
    # One run is behind the walls, too.
    single = (
        f"docker compose run --rm -T ft-repro - --threads 3 --repeat 1 --timeout 60 "
        f"--configs {TWIN} <script.py"
    )
    assert single in done.stdout
    assert "python" not in done.stdout.partition("# one run:")[2].partition("```")[0]
    assert server.wait() == 0


def test_a_configuration_without_a_twin_is_reported(server, reproduce):
    done = reproduce("print(1)\n", status=14)
    assert "Not reproduced" not in done.stdout + done.stderr
    others = "gil was" if TWIN == "ft" else "ft-gil, ft were"
    assert f"{others} not run: no interpreter was given for it" in done.stdout.replace("\\", "")


def test_a_script_that_kills_its_supervisor(server, reproduce):
    done = reproduce(
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n", "--configs", TWIN, status=14
    )
    assert "lost in run 1" in done.stdout and "Traceback" not in done.stderr


def test_packages_cannot_be_installed_behind_walls(server, reproduce):
    done = reproduce(
        "# /// script\n# dependencies = ['no-such-package', 'numpy']\n# ///\n",
        "--configs",
        TWIN,
        status=14,
    )
    assert (
        "the script wants no-such-package, and a container without network"
        in done.stdout.replace("\\", "")
    )


def test_other_requests_are_refused():
    from ftsafety.repro.script_server import answer

    assert "unknown request" in answer({"op": "trial"}, {})["error"]
    assert "not a request" in answer({}, {})["error"]
    assert "unknown configuration" in answer({"op": "reproduce", "config": "x"}, {})["error"]
    script = Script("x.py", b"").as_json()
    wrong = {
        "op": "reproduce",
        "config": TWIN,
        "script": script,
        "threads": 1,
        "limits": {"cpu": 1},
    }
    assert "not a request" in answer(wrong, {})["error"]


def test_a_run_that_cannot_be_made_is_an_answer(monkeypatch, tmp_path):
    from ftsafety.repro.script_server import answer

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    script = Script("x.py", b"").as_json()
    request = {
        "op": "reproduce",
        "config": TWIN,
        "script": script,
        "threads": 1,
        "limits": {},
        "force_off": False,
    }
    assert "could not be made" in answer(request, {})["error"]


class Peer:
    """A peer that answers a client in a server's place, with these lines."""

    def __init__(self, path, *answers):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=answers)
        self._thread.start()

    def _serve(self, *answers):
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as lines:
            for number, answer in enumerate(answers):
                if number:  # the first one is not asked for
                    lines.readline()
                connection.sendall(answer + b"\n")
            lines.readline()

    def close(self):
        self._thread.join()
        self._listener.close()


HELLO = json.dumps({"hello": PROTOCOL}).encode()


@pytest.mark.parametrize(
    "answers",
    [
        [b"[" * 200_000],
        [b'{"hello": {"x": "\\u001b]52;c;x\\u0007"}}'],
        [HELLO, b'{"error": "\\u001b]52;c;x\\u0007"}'],
        [HELLO, b'{"result": []}'],
        [HELLO, b'{"result": {"interpreter": {"twin": "ft"}, "packages": {"numpy": 1}}}'],
        [HELLO, b'{"nothing": 1}'],
        [HELLO, b"\xff\x00"],
    ],
)
def test_a_peer_that_answers_anything(reproduce, tmp_path, answers):
    peer = Peer(tmp_path / "s", *answers)
    done = reproduce("print(1)\n", "--configs", TWIN)
    peer.close()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stdout + done.stderr
