"""A child and everything it started end with it, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from ftrun.errors import Stopped, TimedOut
from ftrun.supervise import Child, supervise
from tests.processes import assert_gone

# Starts a grandchild that would run for ten minutes, with all pipes, and tells its id.
WITH_GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
{end}
"""


def run(code: str, stdin: bytes = b"", watch=None, timeout: float = 1500):
    return supervise([sys.executable, "-c", code], stdin, os.environ, watch or {}, timeout)


def test_outcome():
    outcome = run(
        "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('e'); sys.exit(3)",
        b"abc",
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (3, b"cba", b"e")
    assert outcome.seconds > 0


def test_more_than_a_pipe_holds_in_both_directions():
    data = os.urandom(1 << 20)
    outcome = run(
        "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)", data
    )
    assert outcome.stdout == data


def test_child_that_does_not_read_its_stdin():
    assert run("raise SystemExit(5)", b"x" * (1 << 20)).returncode == 5


def test_what_the_child_leaves_behind_is_killed():
    outcome = run(WITH_GRANDCHILD.format(end=""))  # within a minute
    assert outcome.returncode == 0
    assert_gone([int(outcome.stdout)])


@pytest.mark.slow
def test_a_stuck_child_is_killed_with_its_children(tmp_path):
    note = tmp_path / "pid"
    # A shell, which starts in no time, also on a busy machine.
    code = f"sleep 600 & echo $! >'{note}'; wait"
    with pytest.raises(TimedOut, match="within 5 s"):
        supervise(["sh", "-c", code], b"", os.environ, {}, 5)
    assert_gone([int(note.read_text())])


def test_a_child_that_never_stops_writing_meets_its_time_limit():
    with pytest.raises(TimedOut, match="within 1 s"):
        supervise(["yes"], b"", os.environ, {}, 1, take=lambda data: None)


def test_a_watched_descriptor_stops_the_child(tmp_path):
    reader, writer = os.pipe()
    note = tmp_path / "pid"
    # The child itself wakes the watcher once its own child runs.
    code = WITH_GRANDCHILD.format(
        end=f"open({str(note)!r}, 'w').write(str(child.pid)); "
        f"open('/proc/{os.getpid()}/fd/{writer}', 'w').write('!');time.sleep(600)"
    )
    with pytest.raises(Stopped):
        run(code, watch={reader: lambda: True})
    assert_gone([int(note.read_text())])
    os.close(reader)
    os.close(writer)


ECHO = """
import sys
print("late", file=sys.stderr)
for line in sys.stdin:
    print(line.strip()[::-1], flush=True)
{end}
"""


def asked(code: str) -> Child:
    return Child([sys.executable, "-c", code], os.environ)


def test_a_child_is_talked_to_line_by_line():
    with contextlib.closing(asked(ECHO.format(end="sys.exit(3)"))) as child:
        assert [child.ask(line, {}, 1500) for line in (b"abc\n", b"x" * 200_000 + b"y\n")] == [
            b"cba",
            b"y" + b"x" * 200_000,
        ]
        outcome = child.finish(b"last\n", {}, 1500)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (3, b"tsal\n", b"late\n")


def test_a_child_that_ends_instead_of_answering_says_how():
    with contextlib.closing(asked("import sys; sys.stdin.readline(); sys.exit('why')")) as child:
        assert child.ask(b"\n", {}, 1500) is None
        outcome = child.finish(b"", {}, 1500)
        assert (outcome.returncode, outcome.stderr) == (1, b"why\n")


def test_a_child_that_dies_while_nobody_listens_is_met_dead():
    with contextlib.closing(asked(ECHO.format(end=""))) as child:
        assert child.ask(b"a\n", {}, 1500) == b"a"
        child.kill()
        assert child.ask(b"b\n", {}, 1500) is None
        assert child.finish(b"", {}, 1500).returncode == -signal.SIGKILL


def test_a_child_that_does_not_answer_is_killed_with_its_children():
    with contextlib.closing(asked(WITH_GRANDCHILD.format(end="time.sleep(600)"))) as child:
        grandchild = int(child.ask(b"\n", {}, 1500))
        with pytest.raises(TimedOut, match="within 1 s"):
            child.ask(b"\n", {}, 1)
        assert_gone([grandchild])


def test_closing_a_child_kills_what_it_started():
    child = asked(WITH_GRANDCHILD.format(end="time.sleep(600)"))
    grandchild = int(child.ask(b"", {}, 1500))
    child.close()
    assert_gone([grandchild])


def test_a_callback_may_let_the_child_go_on():
    reader, writer = os.pipe()
    os.write(writer, b"!")
    seen = []

    def callback() -> bool:
        seen.append(os.read(reader, 1))
        return False

    assert run("print('done')", watch={reader: callback}).stdout == b"done\n"
    assert seen == [b"!"]
    os.close(reader)
    os.close(writer)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
@pytest.mark.slow
def test_a_killed_supervisor_takes_its_child_with_it():
    """Also one that ignores SIGTERM and holds no pipe of the supervisor."""
    supervisor = """
import os, sys
from ftrun.supervise import Child
code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
code += "os.write(1, b'%d ' % os.getpid()); time.sleep(600)"
child = Child([sys.executable, "-c", code], os.environ, tree=True, stdout=sys.stdout)
child.listen({}, 600)
"""
    with subprocess.Popen([sys.executable, "-c", supervisor], stdout=subprocess.PIPE) as process:
        number = b""
        while not number.endswith(b" "):
            number += process.stdout.read(1)
        process.kill()
    assert_gone([int(number)])
