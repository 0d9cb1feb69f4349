"""The services of compose.yaml, run by `docker compose` as a user types it."""

import json
import os
import pty
import subprocess
import threading

import pytest

from tests.images.compose_project import SOON
from tests.processes import wait_until

pytestmark = pytest.mark.timeout(3600)  # the first test builds the images


def test_bench_compares_both_twins_and_leaves_a_report(engine, project):
    # The thread-safety suite belongs to the same run, briefly: tests/stress runs it in full.
    least = "pillow --quick --rounds 1 --budget 1 --workers 1 --batch-size 16 --stress-minutes 0.01"
    done = project.run("ft-bench", *least.split(), status=0)
    latest = project.results / "latest"
    assert latest.is_symlink()
    results = json.loads((latest / "results.json").read_text())
    assert results["status"] == "complete"
    # Every step of the chain, with images that were made in a volume.
    (fall,) = results["waterfalls"]
    reached = [fall["start"]["candidate"], *(step["candidate"] for step in fall["steps"])]
    assert [key.split("/")[0] for key in reached] == ["gil", "gil", "gil", "ft-gil", "ft"]
    assert (latest / "waterfall.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (latest / "report.html").read_text()
    # The files belong to the caller, although no user id was named.
    owner = project.directory.stat().st_uid
    assert {path.lstat().st_uid for path in latest.resolve().rglob("*")} == {owner}
    assert latest.resolve().stat().st_uid == owner
    suite = results["stress"]
    assert suite["status"] == "complete" and len(suite["scenarios"]) > 40
    ran = {(result["scenario"], result["configuration"]) for result in suite["results"]}
    assert ran == {
        (name, config) for name in suite["scenarios"] for config in ("gil", "ft-gil", "ft")
    }
    said = " ".join(done.stdout.split())
    for config in ("gil", "ft-gil", "ft"):
        assert f" {config}: {len(suite['scenarios'])} scenarios, " in said, said
    # By the host's name; without the server, which would wait for a client that measures.
    again = project.run("--no-deps", "ft-bench", "report", "results/latest", status=0)
    assert "report: results/latest/report.html" in again.stdout
    # The server ends with the benchmark.
    assert wait_until(lambda: not project.containers(engine), SOON)


def test_ctrl_c_reports_the_finished_rounds(engine, project):
    # At a terminal, as a user does it: compose passes the key on to the container. (Without one,
    # compose removes the container at once; results.json then still holds the finished rounds.)
    ours, theirs = pty.openpty()
    # Through gil-bench, so that this service is tried too.
    process = subprocess.Popen(
        project.command(
            "run",
            "--rm",
            "gil-bench",
            *"text --quick --rounds 50 --workers 1 --budget 1 --configs ft".split(),
        ),
        env=project.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = bytearray()
    reader = threading.Thread(target=read_terminal, args=(ours, shown))
    reader.start()
    try:
        assert wait_until(lambda: list(project.results.glob("*/results.json"))), (
            "no round was finished in time"
        )
        os.write(ours, b"\x03")
        assert process.wait() == 130
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)
    results = json.loads((project.results / "latest" / "results.json").read_text())
    assert results["status"] == "incomplete"
    assert (project.results / "latest" / "report.html").exists()
    assert "INCOMPLETE" in shown.decode(errors="replace")
    assert wait_until(lambda: not project.containers(engine), SOON)


def read_terminal(descriptor, shown):
    """Collect in `shown` the output of a pseudo-terminal until its other end is closed."""
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:  # how Linux reports that the other end is closed
            return
        if not data:
            return
        shown += data


def test_own_images_are_seen_by_both_and_refused_ones_leave_nothing(project, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no JPEG")
    project.environment = {**project.environment, "DATA": str(photos)}
    done = project.run("ft-bench", "pillow", "--quick", "--data", "/data", status=2)
    assert "broken.jpg" in done.stdout + done.stderr
    assert not list(project.results.iterdir())


def test_tests_run_in_the_container(project):
    done = project.run("ft-test", "tests/unit/loader/test_arguments.py", status=0)
    assert " passed" in done.stdout


def test_audit_of_a_users_own_dataset(project, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "mine.py").write_text(
        "import io\n"
        "class Records:\n"
        "    def __init__(self):\n"
        "        self.file = io.BytesIO(bytes(range(200)) * 64)\n"
        "    def __len__(self):\n"
        "        return 200\n"
        "    def __getitem__(self, index):\n"
        "        self.file.seek(index)\n"
        "        return self.file.read(64)\n"
    )
    before = sorted(code.rglob("*"))
    project.environment = {**project.environment, "CODE": str(code)}
    done = project.run("ft-audit", "mine.py:Records", "--seconds", "5", status=1)
    assert "mine.py:8" in done.stdout
    assert sorted(code.rglob("*")) == before


def test_gpu_override_is_valid_and_asks_for_every_gpu(compose_configuration):
    for name, service in compose_configuration("compose.gpu.yaml")["services"].items():
        if name in ("ft-image", "gil-image"):  # these only cause the images to be built
            continue
        if "repro" in name:  # a stranger's script gets no GPU, because the driver is no wall
            assert not service.get("devices") and not service.get("deploy", {}).get(
                "resources", {}
            ).get("reservations")
            continue
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia" and device["count"] == -1, name
        # Limits are the user's business.
        assert "limits" not in service["deploy"]["resources"]
