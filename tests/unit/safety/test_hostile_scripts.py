"""Scripts and datasets that work against their supervisor: it ends in time, judges rightly, and leaves nothing."""

import os
import signal
import subprocess
import sys
import time

from ftsafety.repro.outcome import Kind
from tests.checkout import importable
from tests.processes import ended
from tests.programs import completed
from tests.unit.safety.conftest import TWIN

# A process of its own session and parent, which ignores polite signals and notes its id.
DAEMON = """
import os, signal, time
ready, told = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with open({note!r}, "w") as file:
        file.write(str(os.getpid()))
    os.write(told, b"!")
    {work}
os.read(ready, 1)
"""


def daemon(note, work="time.sleep(600)"):
    return DAEMON.format(note=str(note), work=work)


def variables(tmp_path):
    return {**os.environ, "PYTHONPATH": importable(), "TMPDIR": str(tmp_path)}


def test_ctrl_c_ends_it_and_leaves_no_process_and_no_file(tmp_path):
    note, script, scratch = tmp_path / "note", tmp_path / "bug.py", tmp_path / "scratch"
    scratch.mkdir()
    script.write_text(daemon(note) + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n")
    command = [sys.executable, "-P", "-m", "ftsafety.repro", str(script), "--configs", TWIN]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables(scratch))
    deadline = time.monotonic() + 1500
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)  # the script has nothing else to tell us by
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130 and "interrupted (SIGINT)" in errors, errors
    assert ended(int(note.read_text())) and not list(scratch.iterdir())


def test_a_daemon_that_floods_the_pipes_of_a_script_that_has_ended(run_script, tmp_path):
    note = tmp_path / "note"
    done = run_script(daemon(note, "while True: os.write(1, b'x' * 65536)") + "print('the end', flush=True)\n")
    assert done.kind in (Kind.OK, Kind.LIMIT) and ended(int(note.read_text())), done
    assert len(done.stdout) < 200_000


def test_closing_all_pipes_hides_neither_the_exit_status_nor_a_hang(run_script):
    close = "import os, time\nos.closerange(0, 64)\n"
    failed = run_script(close + "os._exit(3)\n")
    assert (failed.kind, failed.detail) == (Kind.WRONG, "exit status 3")
    assert run_script(close + "time.sleep(600)\n", timeout=1.0).kind == Kind.HANG


def test_an_exit_status_of_zero_does_not_hide_what_a_thread_raised(run_script):
    done = run_script(
        "import os, threading\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='divider')\nthread.start()\nthread.join()\nos._exit(0)\n"
    )
    assert (done.kind, done.detail) == (Kind.EXCEPTION, "ZeroDivisionError: division by zero in divider")


def test_a_script_that_kills_its_own_group_is_judged_by_its_signal(run_script):
    done = run_script("import os, signal\nos.killpg(0, signal.SIGKILL)\n")
    assert done.kind == Kind.SIGNAL and "SIGKILL" in done.detail


def test_a_dataset_that_leaves_a_daemon_and_closes_the_audits_descriptors(tmp_path):
    note = tmp_path / "note"
    lines = "".join(f"        {line}\n" for line in daemon(note).splitlines() if line)
    (tmp_path / "data.py").write_text(
        "class Data:\n    def __len__(self):\n        return 4\n\n    def __getitem__(self, index):\n"
        f"{lines}        os.closerange(3, 256)\n        return index\n"
    )
    command = [sys.executable, "-P", "-m", "ftsafety.audit", f"{tmp_path / 'data.py'}:Data", "--seconds", "1"]
    done = completed(command, env=variables(tmp_path))
    assert done.returncode == 3 and "or closed the audit's descriptors" in done.stderr, done.stderr
    assert ended(int(note.read_text()))
