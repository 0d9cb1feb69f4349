"""examples/cluster/slurm.sbatch on a Slurm cluster whose nodes are namespaces of this machine."""

import json
import os
import re
import subprocess

import pytest

from tests.checkout import CHECKOUT
from tests.cluster.slurm import cluster
from tests.programs import completed

SBATCH = CHECKOUT / "examples" / "cluster" / "slurm.sbatch"
# As little is measured as a merged page needs.
LITTLE = [
    "--quick",
    "--rounds",
    "3",
    "--workers",
    "1",
    "--batch-size",
    "8",
    "--budget",
    "1",
    "--configs",
    "ft",
]
# On the node "lost", the dataset says that it is used, and then stands still.
NUMBERS = """
import os
import time


class Numbers:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if os.uname().nodename == "lost":
            open({used!r}, "w").close()
            time.sleep(3600)
        return index
"""


class Job:
    """A job of the example. It prints to a file in *folder*."""

    def __init__(self, cluster, folder, arguments, environment):
        self.log = folder / "job.log"
        command = cluster.command("sbatch", "--wait", f"--output={self.log}", *arguments)
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)

    def wait(self):
        """Wait for the job's end; return its exit status and what it printed."""
        return self.process.wait(), self.log.read_text()


@pytest.fixture
def submit(tmp_path, shell_environment):
    """Return ``submit(cluster, *arguments of sbatch) -> Job``;
    results go to tmp_path / "results".
    """

    def submit(cluster, *arguments, out=tmp_path / "results"):
        return Job(
            cluster,
            tmp_path,
            [f"--chdir={CHECKOUT}", *arguments],
            {**shell_environment, "OUT": str(out)},
        )

    return submit


def test_a_node_that_dies_leaves_the_results_of_the_others(tmp_path, submit, shell_environment):
    used = tmp_path / "used"
    os.mkfifo(used)
    (tmp_path / "data.py").write_text(NUMBERS.format(used=str(used)))
    with cluster(tmp_path, "a", "b", "lost") as it:
        job = submit(
            it, "--nodes=3", SBATCH, "bench", "--dataset", tmp_path / "data.py:Numbers", *LITTLE
        )
        open(used).close()
        it.lose("lost")
        status, log = job.wait()
    assert "srun: error: Node failure on lost" in log
    out = tmp_path / "results" / "1"
    assert log.endswith(f"\nmerge: ./twins bench merge {out} --out {out}/page\n")
    for node in "a", "b":
        assert f"\n{node}: done\n" in log, log
        (file,) = (out / node).glob("2*/results.json")
        found = json.loads(file.read_text())
        assert found["status"] == "complete"
        # Slurm gave the whole node to the one task.
        assert found["environment"]["twins"]["ft"]["cpu"]["usable"] == os.cpu_count()
    merge = [CHECKOUT / "twins", "bench", "merge", out, "--out", tmp_path / "page"]
    merged = completed(merge, env=shell_environment, status=1).stdout
    assert "\nleft out: lost: it holds no results.json" in merged
    assert "\nmerged: 2 machines of 1 kind\n" in merged
    assert "threads instead of processes" in (tmp_path / "page" / "index.html").read_text()


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """A cluster with the nodes a and b."""
    with cluster(tmp_path_factory.mktemp("slurm"), "a", "b") as it:
        yield it


def test_an_audit_on_every_node(two_nodes, tmp_path, submit):
    (tmp_path / "data.py").write_text("safe = [1, 2, 3]\n")
    status, log = submit(
        two_nodes, SBATCH, "audit", tmp_path / "data.py:safe", "--seconds", "1"
    ).wait()
    assert status == 0, log
    (results,) = (tmp_path / "results").iterdir()
    for node in "a", "b":
        assert f"{node}: done\n" in log
        assert "nothing was found that is unsafe" in (results / node / "log.txt").read_text()


def test_what_went_wrong_is_said(two_nodes, tmp_path, submit):
    shared = "With OUT=DIR, name a folder that all nodes share and may write to"
    status, log = submit(two_nodes, SBATCH, "audit", tmp_path / "missing.py:safe").wait()
    for node in "a", "b":
        assert f"{node}: exit status 2; the end of " in log
        assert f"there is no file {tmp_path}/missing.py" in log
    assert status == 2
    assert (
        "a: there is no bnech: bench, audit or gallery ("
        in submit(two_nodes, SBATCH, "bnech").wait()[1]
    )
    assert (
        "Submit from the folder of the clone"
        in submit(two_nodes, f"--chdir={tmp_path}", SBATCH).wait()[1]
    )
    assert shared in submit(two_nodes, SBATCH, out="/proc/results").wait()[1]
    # The folder of one node is its own.
    two_nodes.nodes["b"].run("mount", "-t", "tmpfs", "none", tmp_path / "results", status=0)
    status, log = submit(two_nodes, SBATCH, "audit", "--help").wait()
    assert status == 2 and "a: done" in log
    why = shared.replace("With", "with")
    assert re.search(rf"b: cannot write to {re.escape(str(tmp_path))}/results/\d+/b: {why}", log)
