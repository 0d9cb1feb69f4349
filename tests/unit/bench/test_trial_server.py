"""A real server on a real socket: its clients, its trials, and its end."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from ftbench.document.store import load
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.trial.endpoints import RemoteEndpoint
from ftbench.trial.process import TrialFailed
from ftrun.errors import TwinError
from ftrun.interruption import Interruption
from ftrun.protocol import Channel
from tests.processes import assert_gone, descendants, wait_until
from tests.programs import completed, programs_to_end
from tests.unit.bench.turns import to_its_end

pytestmark = pytest.mark.slow


@pytest.fixture
def server(command, environment, tmp_path):
    """Starts peers, by default on <tmp_path>/s; ends what a failed test leaves of them."""
    with programs_to_end() as start:
        yield lambda *more, path=tmp_path / "s": start(
            command("--socket", path, *more, module="ftbench.trial.server"), env=environment
        )


@pytest.fixture
def interruption():
    with Interruption() as interruption:
        yield interruption


@pytest.fixture
def request_of(paths, twin):
    def build(
        batches: int = 2, scenario: str = "pillow", variant: str = "loader-process", turns: int = 1
    ) -> dict:
        return Task(
            SCENARIOS[scenario], paths, variant, 1, 2, 1, batches, 2, turns=turns, config=twin
        ).request()

    return build


def run(endpoint: RemoteEndpoint, request: dict) -> dict:
    return to_its_end(endpoint.start(request))


def test_describes_and_runs_trials_until_its_client_leaves(
    server, interruption, request_of, twin, tmp_path
):
    process = server()
    endpoint = RemoteEndpoint(tmp_path / "s", interruption)  # waits for the server to come up
    assert endpoint.describe()["interpreter"]["twin"] == twin
    result = run(endpoint, request_of())
    assert result["samples"] == 4 and result["metrics"]["throughput"] > 0
    assert run(endpoint, {**request_of(), "ranks": 2})["samples"] == 8
    # Peers too.
    for scenario, variant, metric in (
        ("peers-pillow-128", "loop", "throughput"),
        ("peers-overhead-tensor", "torch-process", "overhead_us"),
    ):
        result = run(endpoint, request_of(3, scenario, variant))
        assert result["batches"] == 3 and result["metrics"][metric] > 0
    endpoint.close()
    assert process.wait() == 0
    assert not (tmp_path / "s").exists()


def test_trials_take_turns_and_can_be_given_up(server, interruption, request_of, twin, tmp_path):
    process = server()
    endpoint = RemoteEndpoint(tmp_path / "s", interruption)
    first, second, third = (endpoint.start(request_of(turns=turns)) for turns in (2, 1, 9))
    # All three are started at once, and import at the same time.
    assert len(descendants(process.pid, at_least=3)) == 3
    assert [trial.go_on() for trial in 2 * [first, second, third]] == [None] * 6
    # A turn's workers begin and end with it.
    assert len(psutil.Process(process.pid).children(recursive=True)) == 3
    assert third.go_on() is None
    third.close()
    assert first.go_on() is None
    results = [second.go_on(), first.go_on()]
    assert [(r["batches"], r["samples"], len(r["turn_seconds"])) for r in results] == [
        (2, 4, 1),
        (4, 8, 2),
    ]
    assert not psutil.Process(process.pid).children(recursive=True)
    with pytest.raises(TrialFailed, match="no trial .* is waiting"):
        third.go_on()
    endpoint.close()
    assert process.wait() == 0


def test_failed_trials_and_bad_requests_are_answered(
    server, interruption, request_of, twin, tmp_path
):
    server()
    endpoint = RemoteEndpoint(tmp_path / "s", interruption)
    with pytest.raises(TrialFailed, match="^FileNotFoundError: .*\\n    "):
        run(endpoint, {**request_of(), "paths": ["/no/such.jpg"]})
    with pytest.raises(TrialFailed, match="no request of this version: "):
        run(endpoint, {"patience": 1.0})
    with pytest.raises(TrialFailed, match="unknown configuration 'nogil'"):
        run(endpoint, {**request_of(), "config": "nogil"})
    other = "gil" if twin == "ft" else "ft-gil"
    with pytest.raises(TrialFailed, match=f"not the configuration '{other}'"):
        run(endpoint, {**request_of(), "config": other})
    assert endpoint.describe()["cpu"]["usable"] >= 1
    endpoint.close()


def test_a_second_client_is_told_even_while_a_trial_runs(
    server, interruption, request_of, twin, tmp_path
):
    process = server()
    first = RemoteEndpoint(tmp_path / "s", interruption)
    with pytest.raises(TwinError, match="it serves another client"):
        RemoteEndpoint(tmp_path / "s", interruption)
    trial = first.start(request_of(50_000))
    assert [trial.go_on(), trial.go_on()] == [None] * 2
    first._channel.send({"op": "go on", "process": 1})
    descendants(process.pid, at_least=2)
    with pytest.raises(TwinError, match="it serves another client"):
        RemoteEndpoint(tmp_path / "s", interruption)
    assert psutil.Process(process.pid).children()
    first.close()
    assert process.wait() == 0


@pytest.mark.parametrize("how", ["vanish", "SIGTERM"])
def test_nothing_runs_on(server, request_of, twin, tmp_path, how):
    """Neither when the client vanishes during a trial nor when the server is told to stop."""
    process = server()
    assert wait_until((tmp_path / "s").exists)
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(tmp_path / "s"))
    channel = Channel(client)
    # It is started, imports, warms up, and then has its long turn.
    for request in (
        {"op": "start", "request": request_of(50_000)},
        *[{"op": "go on", "process": 1}] * 3,
    ):
        assert "error" not in channel.receive({})
        channel.send(request)
    trial_and_worker = descendants(process.pid, at_least=2)
    if how == "vanish":
        client.close()
    else:
        process.send_signal(signal.SIGTERM)
    assert process.wait() == 0  # the turn takes minutes
    assert_gone(trial_and_worker)
    client.close()


def test_idle_server_ends_by_itself(server, tmp_path):
    process = server("--idle", "0.2")
    assert process.wait() == 0
    assert not (tmp_path / "s").exists()


def test_socket_that_a_killed_server_left_is_replaced_and_a_living_ones_is_not(
    server, interruption, tmp_path
):
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "s"))
    stale.close()
    server()
    endpoint = RemoteEndpoint(tmp_path / "s", interruption)
    second = server()
    assert second.wait() == 1
    assert "listens on" in second.stderr.read()
    assert endpoint.describe()
    endpoint.close()


@pytest.mark.parametrize("path", ["/proc/s", "/no/such/directory/s", "/tmp/" + "x" * 200])
def test_socket_that_cannot_be_made(server, path):
    process = server(path=Path(path))
    assert process.wait() == 1
    assert "name a path in a writable directory" in process.stderr.read()


def test_no_server_answers(interruption, tmp_path, monkeypatch):
    monkeypatch.setattr("ftrun.twin.CONNECT_SECONDS", 0.3)
    with pytest.raises(TwinError, match="no server answers.*--socket"):
        RemoteEndpoint(tmp_path / "none", interruption)


def test_a_run_through_a_server(server, few, environment, twin, tmp_path):
    process, plan = server(), "pillow=torch-process/1,loader-thread/1"
    command = few(tmp_path / "out", plan, "--rounds", 1, "--twin", f"{twin}=unix:{tmp_path / 's'}")
    done = completed(command, env=environment, status=0)
    saved = load(tmp_path / "out/latest/results.json")
    assert saved.environment.twins[twin].endpoint == f"unix:{tmp_path / 's'}"
    assert "too few rounds" in " ".join(done.stdout.split())
    assert process.wait() == 0


def test_a_run_whose_server_dies(server, few, environment, twin, tmp_path):
    process = server()
    command = few(
        tmp_path / "out",
        "pillow=loader-process/1",
        "--rounds",
        9,
        "--twin",
        f"{twin}=unix:{tmp_path / 's'}",
    )
    run = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    trial = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    _, errors = run.communicate()
    assert run.returncode == 1
    assert "the server has gone" in errors and "Traceback" not in errors
    assert_gone(trial)
