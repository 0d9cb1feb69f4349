"""Sets of runs (--again): ordinary runs, a wait between them that a signal ends,
and a sentence at the end.
"""

import re
import signal
import time

import pytest

from ftbench.document.store import load
from tests.processes import wait_until
from tests.programs import programs_to_end

pytestmark = pytest.mark.slow

PLAN = "pillow=torch-process/1,loader-process/1,loader-thread/1"


def test_a_set_makes_runs_and_says_what_hours_do(few, environment, tmp_path):
    with programs_to_end() as start, open(tmp_path / "log", "w") as log:
        line = few(tmp_path / "out", PLAN, "--rounds", 3, "--again", 3, "--every", "1s")
        process = start(line, env=environment, stderr=log)
        output, _ = process.communicate()
    assert process.returncode == 0, (tmp_path / "log").read_text()
    folders = [each for each in (tmp_path / "out").iterdir() if not each.is_symlink()]
    assert len(folders) == 3 and all(
        load(each / "results.json").status == "complete" for each in folders
    )
    assert "One hour only: " in output and "2 runs only: " in output
    last_lines = output.rstrip().splitlines()[-3:]
    assert any(
        line.startswith("Pillow: As factors, at other hours: this run ") for line in last_lines
    )
    summary = (tmp_path / "out/latest/summary.md").read_text().replace("\n", " ")
    assert re.search(r"3 runs in \d+ minutes?: ", summary)


def test_ctrl_c_ends_the_wait_at_once_and_keeps_the_run(few, environment, tmp_path):
    log = tmp_path / "log"
    with programs_to_end() as start, open(log, "w") as file:
        line = few(tmp_path / "out", PLAN, "--rounds", 3, "--again", 3, "--every", "2d")
        process = start(line, env=environment, stderr=file)
        wait_until(lambda: "run 2 of 3 starts at " in log.read_text() or process.poll() is not None)
        before = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate()
    # The wait is two days long. A busy machine takes a while to end an interpreter.
    assert process.returncode == 130 and time.monotonic() - before < 10
    assert "interrupted; run 2 was not begun" in log.read_text()
    (folder,) = [each for each in (tmp_path / "out").iterdir() if not each.is_symlink()]
    assert load(folder / "results.json").status == "complete"
