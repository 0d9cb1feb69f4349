"""examples/cluster/torchrun.sh on two hosts, which are namespaces of this machine with sshd."""

import os
import signal

import psutil
import pytest

from tests.checkout import CHECKOUT
from tests.cluster.hosts import hosts
from tests.cluster.ssh import serve
from tests.processes import ended, wait_until
from tests.programs import completed, programs_to_end

SCRIPT = CHECKOUT / "examples" / "cluster" / "torchrun.sh"


@pytest.fixture
def launch(tmp_path, shell_environment):
    """Return ``launch(hosts, *arguments)``: run the example on the first host for all of them."""

    def launch(booted, *arguments, run=None):
        kept = {
            name: shell_environment[name]
            for name in ("HOME", "XDG_CACHE_HOME")
            if name in shell_environment
        }
        configuration = serve(booted, tmp_path, kept)
        environment = {
            "HOSTS": " ".join(host.name for host in booted),
            "OUT": str(tmp_path / "results"),
            "SSH": f"ssh -F {configuration}",
        }
        environment = {**shell_environment, **environment}
        if run is None:
            return booted[0].run(SCRIPT, *arguments, env=environment)
        return run(booted[0].command(SCRIPT, *arguments), env=environment)

    return launch


def test_all_hosts_run_the_gallery_at_once(tmp_path, launch):
    script = "repro/memoryview_sliced.py"
    with hosts(tmp_path, "node1", "node2") as booted:
        done = launch(booted, "gallery", "--repeat", "1", "--configs", "ft", script)
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = (tmp_path / "results").iterdir()
    for node in "node1", "node2":
        assert f"{node}: done\n" in done.stdout
        assert "(memoryview\\_sliced.py)" in (job / node / "gallery.md").read_text()


SLEEPS = """
import pathlib, time, os
pathlib.Path({folder!r}, os.uname().nodename).touch()
time.sleep(1000)
"""


def test_an_interruption_ends_the_work_on_all_hosts(tmp_path, launch):
    script, running = tmp_path / "sleeps.py", tmp_path / "running"
    running.mkdir()
    script.write_text(SLEEPS.format(folder=str(running)) + "safe = [1]\n")
    with hosts(tmp_path, "node1", "node2") as booted, programs_to_end() as start:
        started = launch(booted, "audit", f"{script}:safe", run=start)
        wait_until(lambda: len(list(running.iterdir())) == 2 or started.poll() is not None)
        assert started.poll() is None, started.communicate()
        listed = psutil.process_iter(["cmdline"])
        work = [
            process for process in listed if str(script) in " ".join(process.info["cmdline"] or [])
        ]
        os.killpg(started.pid, signal.SIGINT)
        # nsenter, which the script runs in, gets the signal too
        assert started.wait() in (130, -signal.SIGINT)
        assert work and wait_until(lambda: all(map(ended, work)), 20), work


def test_what_went_wrong_is_said(tmp_path, launch):
    with hosts(tmp_path, "node1", "node2") as booted:
        done = launch(booted, "bench", "--rounds", "none")
    assert done.returncode == 1
    for node in "node1", "node2":
        # The terminal of a host has one output.
        assert f"{node}: exit status 2; the end of " in done.stdout
        assert f"{node}:   ./twins bench: error: argument --rounds" in done.stdout
    alone = completed([SCRIPT], status=2, env={"PATH": os.environ["PATH"]})
    assert alone.stderr.startswith("HOSTS names no host: ")
