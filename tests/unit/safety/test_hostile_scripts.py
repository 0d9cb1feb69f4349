"""Scripts and datasets that work against their supervisor: it ends in time,
judges rightly, and leaves nothing.
"""

import os
import sys

import pytest

from ftsafety.repro.outcome import Kind
from tests.checkout import importable
from tests.processes import ended
from tests.programs import completed

pytestmark = pytest.mark.slow

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


def test_a_daemon_that_floods_the_pipes_of_a_script_that_has_ended(run_script, tmp_path):
    note = tmp_path / "note"
    done = run_script(
        daemon(note, "while True: os.write(1, b'x' * 65536)") + "print('the end', flush=True)\n"
    )
    assert done.kind in (Kind.OK, Kind.LIMIT) and ended(int(note.read_text())), done
    assert len(done.stdout) < 200_000


def test_processes_that_hide_are_found(run_script, tmp_path):
    note = tmp_path / "note"
    done = run_script(daemon(note))
    assert done.kind == Kind.OK and "left 1 processes behind" in done.notes[0], done
    assert ended(int(note.read_text()))


def test_closing_all_pipes_does_not_hide_a_hang(run_script):
    assert (
        run_script("import os, time\nos.closerange(0, 64)\ntime.sleep(600)\n", timeout=1.0).kind
        == Kind.HANG
    )


def test_a_dataset_that_leaves_a_daemon_and_closes_the_audits_descriptors(tmp_path):
    note = tmp_path / "note"
    lines = "".join(f"        {line}\n" for line in daemon(note).splitlines() if line)
    (tmp_path / "data.py").write_text(
        "class Data:\n    def __len__(self):\n        return 4\n\n"
        "    def __getitem__(self, index):\n"
        f"{lines}        os.closerange(3, 256)\n        return index\n"
    )
    command = [
        sys.executable,
        "-P",
        "-m",
        "ftsafety.audit",
        f"{tmp_path / 'data.py'}:Data",
        "--seconds",
        "1",
    ]
    done = completed(command, env=variables(tmp_path))
    assert done.returncode == 3 and "or closed the audit's descriptors" in done.stderr, done.stderr
    assert ended(int(note.read_text()))
