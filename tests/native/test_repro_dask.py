# /// script
# dependencies = ["distributed==2026.8.0"]
# ///
"""`./twins repro --dask` on a real scheduler and three workers, each a process of this machine."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from ftrun.configurations import CONFIGURATIONS
from ftrun.errors import OverlayError
from ftrun.inline_metadata import dependencies
from ftrun.interruption import Interruption
from ftrun.overlay import install
from tests.checkout import CHECKOUT
from tests.native.conftest import CACHE
from tests.native.test_repro import table
from tests.processes import assert_gone, wait_until
from tests.programs import completed, copy_checkout, programs_to_end

pytestmark = pytest.mark.timeout(2700)
HOST = socket.gethostname()


@pytest.fixture(scope="module")
def python(tmp_path_factory, shell_environment):
    """The Python of a user who has Dask, whose dependencies have no wheels
    for free-threaded builds.
    """
    folder = tmp_path_factory.mktemp("user")
    packages = folder / "site-packages"
    where = [CHECKOUT / "twins", "exec", "gil", "python", "-c", "import sys; print(sys.executable)"]
    gil = completed(where, status=0, env=shell_environment).stdout.strip()
    completed(
        [gil, "-m", "venv", "--symlinks", "--without-pip", folder / "venv"],
        status=0,
        env=shell_environment,
    )
    try:
        with Interruption() as interruption:
            install(
                packages, gil, dependencies(Path(__file__).read_text()), {}, CACHE, interruption
            )
    except OverlayError as error:
        pytest.skip(f"Dask cannot be installed: {error}")
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "dask.pth").write_text(f"{packages}\n")
    return folder / "venv" / "bin" / "python3"


class DaskCluster:
    """A scheduler, and workers in processes without nannies. Owned by one test."""

    def __init__(self, python, folder, environment):
        self._python, self._folder, self._environment = python, folder, environment
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--host", "127.0.0.1")
        self.workers = []
        wait_until(lambda: self._is_ready() or not self.scheduler.is_running())
        assert self._is_ready(), self.log("dask_scheduler")

    def _is_ready(self):
        return self.file.exists() and self.file.read_text().endswith("}")

    def log(self, module):
        return (self._folder / f"{module}.log").read_text()

    def start_workers(self, number, **variables):
        for _ in range(number):
            options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))
            self.workers.append(self._start("dask_worker", *options, **variables))

    def _start(self, module, *options, **variables):
        return psutil.Popen(
            [
                self._python,
                "-m",
                f"distributed.cli.{module}",
                "--no-dashboard",
                "--scheduler-file",
                self.file,
                *options,
            ],
            cwd=self._folder,
            env={**self._environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=open(self._folder / f"{module}.log", "a"),
            stderr=subprocess.STDOUT,
        )

    def worker_of(self, pid):
        """The worker below which a process runs."""
        above = [each.pid for each in psutil.Process(pid).parents()]
        return next(worker for worker in self.workers if worker.pid in above)

    def close(self):
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(psutil.NoSuchProcess):  # a test has waited for its end
                process.kill()
            process.wait()


@pytest.fixture
def environment(python, shell_environment):
    # Of the Python that has Dask, to find it as a user does;
    # the worker's log is not asked to be coloured.
    return {**shell_environment, "PATH": f"{python.parent}:{shell_environment['PATH']}"}


@pytest.fixture
def cluster(python, environment):
    with tempfile.TemporaryDirectory() as folder:
        made = DaskCluster(python, Path(folder), environment)
        yield made
        made.close()


@pytest.fixture
def repro(environment, cluster):
    """Run `./twins repro ARGUMENT ... --dask` to its end."""

    def run(*arguments, status=None):
        command = [CHECKOUT / "twins", "repro", *arguments, "--dask", cluster.file]
        return completed(command, status, env=environment)

    return run


def nodes(report):
    """The rows of the report's table of nodes: {node: (runs, failures)}."""
    section = report.partition("## Nodes\n")[2].partition("\n## ")[0]
    rows = [row.strip("|").split("|") for row in re.findall(r"^\|.*\|$", section, re.M)[2:]]
    return {row[0].strip().replace("\\", ""): (int(row[2]), row[3].strip()) for row in rows}


FAILS_WITHOUT_THE_GIL = """
import sys
# By its full name it would be a check of the script's own, which refuses to run.
enabled = vars(sys)["_is_gil_" + "enabled"]
print("fine")
if not enabled():
    raise ValueError("\\x1b[31mred")
"""


@pytest.fixture
def fails(tmp_path):
    """A script that fails in ft alone, with an escape sequence."""
    (tmp_path / "fails.py").write_text(FAILS_WITHOUT_THE_GIL)
    return tmp_path / "fails.py"


@pytest.mark.slow
def test_verdict_signatures_and_early_stop_are_those_of_local_runs(repro, cluster, twins, fails):
    cluster.start_workers(3)
    options = ("--repeat", "40", "--timeout", "600")
    here = twins("repro", fails, *options, status=10).stdout
    done = repro(fails, *options, status=10)
    assert table(done.stdout) == table(here)
    assert done.stdout.split("\n\n")[1] == here.split("\n\n")[1] and "p = " in here
    # The same early stop, and the same signatures in the same numbers.
    remarks = [
        re.findall(r"^ *- .*", report.partition("\n## ")[0], re.M) for report in (here, done.stdout)
    ]
    assert remarks[0] == remarks[1] and any(
        "Ended after 5 of 40 rounds" in each for each in remarks[0]
    )
    assert nodes(done.stdout) == {HOST: (15, "5 x `ft: exception`")}
    assert f"run 1 on {HOST}" in done.stdout.replace("\\", "")
    assert "round 5 of 40, ft: exception" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr and "red" in done.stdout


BLOCKS = """
import os, time
with open({runs!r}, "a") as file:
    file.write("x")
    number = file.tell()
if number == {blocked}:
    if os.fork() == 0:
        os.setsid()
    with open({pids!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    time.sleep(2000)
"""


@pytest.fixture
def blocks(tmp_path):
    """Make a script, a run of which never ends, with a process in a session of its own; and a way
    to wait for both.
    """

    def make(blocked=1):
        pids, script = tmp_path / "pids", tmp_path / "blocks.py"
        script.write_text(
            BLOCKS.format(runs=str(tmp_path / "runs"), pids=str(pids), blocked=blocked)
        )
        pids.touch()

        def processes(program):
            wait_until(lambda: len(pids.read_text().split()) >= 2 or program.poll() is not None)
            assert program.poll() is None, program.communicate()
            return [psutil.Process(int(pid)) for pid in pids.read_text().split()]

        return script, processes

    return make


@pytest.fixture
def start(environment, cluster):
    """Start `./twins repro ARGUMENT ... --dask`, which is ended after the test."""
    with programs_to_end() as start:
        yield lambda *arguments: start(
            [CHECKOUT / "twins", "repro", *arguments, "--timeout", "1900", "--dask", cluster.file],
            env=environment,
        )


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_no_run_and_leaves_no_process(start, blocks, cluster):
    cluster.start_workers(3)
    script, processes = blocks()
    started = start(script, "--repeat", "15", "--configs", "gil,ft")
    left = processes(started)
    cluster.worker_of(left[0].pid).kill()
    report, progress = started.communicate()
    assert started.returncode == 0, progress
    assert {config: row["ok"] for config, row in table(report).items()} == {"gil": 15, "ft": 15}
    assert nodes(report) == {HOST: (30, "none")}
    assert_gone(left)


@pytest.mark.long(reason="minutes")
def test_two_thousand_runs_with_a_worker_killed_meanwhile(start, cluster, tmp_path):
    cluster.start_workers(3)
    (tmp_path / "rare.py").write_text(
        "import random\nif random.random() < 0.01:\n    raise ValueError\n"
    )
    started = start(
        tmp_path / "rare.py",
        "--configs",
        "ft",
        "--repeat",
        "2000",
        "--every-run",
        "--budget",
        "5000",
    )
    for line in started.stderr:
        if line.startswith("round 200 of 2000"):
            cluster.workers[0].kill()
            break
    report, _ = started.communicate()
    row = table(report)["ft"]
    assert started.returncode == 13 and row["runs"] == row["ok"] + row["exception"] == 2000
    assert 2 <= row["exception"] <= 60  # the chance of others is below one in a hundred million
    assert "not run to the end" not in report


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_an_interrupted_campaign_leaves_no_process_and_the_workers_go_on(
    start, blocks, cluster, repro, fails, tmp_path, how
):
    cluster.start_workers(1, TMPDIR=str(tmp_path))
    script, processes = blocks()
    started = start(script, "--repeat", "200")
    left = processes(started)
    left += cluster.workers[0].children(recursive=True)
    started.send_signal(how)
    report, progress = started.communicate()
    assert_gone(left)
    if how == signal.SIGINT:
        assert started.returncode == 130 and "interrupted (SIGINT)" in progress + report
    repro(fails, "--repeat", "2", "--configs", "gil", status=0)
    assert not list(tmp_path.glob("ft-repro*"))


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [1, 7])
def test_a_scheduler_that_dies_ends_the_campaign_with_the_runs_made_until_then(
    start, blocks, cluster, blocked
):
    cluster.start_workers(1)
    script, processes = blocks(blocked)
    started = start(script, "--repeat", "40")
    left = processes(started)
    cluster.scheduler.kill()
    report, progress = started.communicate()
    assert started.returncode == (1 if blocked == 1 else 14)
    assert "the connection to the Dask scheduler was lost" in (progress if blocked == 1 else report)
    if blocked > 1:
        assert {config: row["ok"] for config, row in table(report).items()} == dict.fromkeys(
            CONFIGURATIONS, 2
        )
    assert_gone(left)


@pytest.mark.slow
def test_nodes_that_cannot_run_tasks_are_named(repro, cluster, fails, tmp_path):
    cluster.start_workers(1, XDG_CACHE_HOME=str(tmp_path))
    done = repro(fails, status=1)
    assert (
        f"repro: {HOST}: exit status 1: ./twins repro: the twins are not built in {tmp_path}"
        in done.stderr
    )
    assert done.stderr.count("\n") <= 3 and not done.stdout
    done = repro(fails, "--dask-folder", tmp_path, status=1)
    assert f"{HOST}: {tmp_path}/twins cannot be run" in done.stderr


@pytest.mark.slow
def test_a_node_with_other_sources_is_refused(repro, cluster, fails, tmp_path):
    cluster.start_workers(1)
    other = copy_checkout(tmp_path / "other")
    (other / "safety" / "ftsafety" / "more.py").write_text("")
    done = repro(fails, "--dask-folder", other, status=1)
    assert (
        f"{HOST} has other sources of this project than this program: update {other} on that node"
        in done.stderr
    )


KILLS_ITS_WORKER = """
import os, re, signal
pid = os.getpid()
while b"dask_worker" not in open(f"/proc/{pid}/cmdline", "rb").read():
    pid = int(re.search(r"PPid:\\s+(\\d+)", open(f"/proc/{pid}/status").read())[1])
os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_script_that_kills_its_workers_is_not_retried_forever(repro, cluster, tmp_path):
    cluster.start_workers(5)
    (tmp_path / "kills.py").write_text(KILLS_ITS_WORKER)
    done = repro(tmp_path / "kills.py", "--repeat", "1", "--configs", "ft", status=1)
    assert re.search(r"repro: KilledWorker: ", done.stderr)


WAITS_AND_KILLS_ITS_WORKER = """
import os, time
open({running!r}, "w").close()
while not os.path.exists({go!r}):
    time.sleep(0.02)
"""


@pytest.mark.slow
def test_two_campaigns_and_a_script_that_kills_the_workers_of_both(start, cluster, tmp_path):
    cluster.start_workers(1)
    running, go = tmp_path / "running", tmp_path / "go"
    kills, harmless = tmp_path / "kills.py", tmp_path / "harmless.py"
    kills.write_text(
        WAITS_AND_KILLS_ITS_WORKER.format(running=str(running), go=str(go)) + KILLS_ITS_WORKER
    )
    harmless.write_text("print('fine')\n")
    killing = start(kills, "--repeat", "1", "--configs", "ft")
    wait_until(lambda: running.exists() or killing.poll() is not None)
    other = start(harmless, "--repeat", "20", "--configs", "gil,ft")
    assert "1 threads of the workers at" in other.stderr.readline() + other.stderr.readline()
    # The first task of the other campaign now waits on the only worker.
    go.touch()
    while None in (killing.poll(), other.poll()):
        if cluster.workers[-1].poll() is not None:
            cluster.start_workers(1)
        time.sleep(0.1)
    assert len(cluster.workers) == 5
    assert killing.returncode == 1
    assert (
        "KilledWorker: 4 workers died while they ran a task of this script" in killing.stderr.read()
    )
    report, progress = other.communicate()
    assert other.returncode == 0, progress
    assert {config: row["ok"] for config, row in table(report).items()} == {"gil": 20, "ft": 20}


@pytest.mark.slow
def test_a_cluster_without_workers_ends_all_campaigns(start, blocks, cluster, fails):
    cluster.start_workers(1)
    script, processes = blocks()
    first = start(script, "--repeat", "40")
    left = processes(first)
    second = start(fails)
    assert "1 threads of the workers at" in second.stderr.readline() + second.stderr.readline()
    cluster.workers[0].kill()
    why = "the cluster has had no worker for 60 s: see the logs of its workers, and start some"
    assert first.wait() == 1 and why in first.stderr.read()
    assert second.wait() == 1 and why in second.stderr.read()
    assert_gone(left)


@pytest.mark.slow
def test_the_gallery(environment, cluster, tmp_path):
    cluster.start_workers(2)
    scripts = [
        CHECKOUT / "repro" / name for name in ("class_never_freed.py", "counter_increment.py")
    ]
    command = [
        CHECKOUT / "twins",
        "exec",
        "ft",
        "python",
        CHECKOUT / "repro" / "run_gallery.py",
        *scripts,
    ]
    options = (
        "--configs",
        "gil,ft",
        "--threads",
        "4",
        "--repeat",
        "3",
        "--out",
        tmp_path / "page.md",
    )
    completed([*command, *options, "--dask", cluster.file], status=0, env=environment)
    rows = json.loads((tmp_path / "page.json").read_text())
    runs = {(row["script"], row["config"]): row["runs"] for row in rows}
    assert runs == {(script.name, config): 3 for script in scripts for config in ("gil", "ft")}
    assert all(row["as_expected"] for row in rows) and any(row["failures"] for row in rows)
    done = completed([*command, "--dask", "tcp://127.0.0.1:1"], status=2, env=environment)
    assert (
        "run_gallery.py: --dask tcp://127.0.0.1:1: " in done.stderr
        and "Traceback" not in done.stderr
    )


@pytest.mark.slow
def test_a_scheduler_file_that_does_not_exist_is_refused_at_once(twins, fails, tmp_path):
    done = twins("repro", fails, "--dask", tmp_path / "scheduler.json", status=2)
    assert (
        f"argument --dask: '{tmp_path}/scheduler.json' is no address, such as tcp://HOST:8786"
        in done.stderr
    )
    assert "or the file that `dask scheduler --scheduler-file FILE` writes" in done.stderr
