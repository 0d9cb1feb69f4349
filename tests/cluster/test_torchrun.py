"""examples/cluster/torchrun.sh on two hosts, which are namespaces of this machine with sshd."""

import os

import pytest

from tests.checkout import CHECKOUT
from tests.cluster.hosts import hosts
from tests.cluster.ssh import serve
from tests.programs import completed

SCRIPT = CHECKOUT / "examples" / "cluster" / "torchrun.sh"


@pytest.fixture
def launch(tmp_path, shell_environment):
    """Return ``launch(hosts, *arguments)``: run the example on the first host for all of them."""

    def launch(booted, *arguments):
        kept = {name: shell_environment[name] for name in ("HOME", "XDG_CACHE_HOME") if name in shell_environment}
        configuration = serve(booted, tmp_path, kept)
        environment = {
            "HOSTS": " ".join(host.name for host in booted),
            "OUT": str(tmp_path / "results"),
            "SSH": f"ssh -F {configuration}",
        }
        return booted[0].run(SCRIPT, *arguments, env={**shell_environment, **environment})

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


def test_what_went_wrong_is_said(tmp_path, launch):
    with hosts(tmp_path, "node1", "node2") as booted:
        done = launch(booted, "bench", "--rounds", "none")
    assert done.returncode == 1
    for node in "node1", "node2":
        assert f"{node}: exit status 2; the end of " in done.stderr
        assert f"{node}:   ./twins bench: error: argument --rounds" in done.stderr
    alone = completed([SCRIPT], status=2, env={"PATH": os.environ["PATH"]})
    assert alone.stderr.startswith("HOSTS names no host: ")
