"""Scripts, the hostile ones included: each ends in time, is judged rightly, and leaves nothing."""

import os
import subprocess
import sys

import psutil
import pytest

from ftrun.supervise import Stream
from ftsafety.repro.classify import classify
from ftsafety.repro.outcome import COMPUTING, Kind
from ftsafety.repro.request import MIB
from ftsafety.repro.watch import Ended
from tests.processes import ended
from tests.unit.safety.conftest import TWIN

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("source", "kind", "detail"),
    [
        ("print(1)", Kind.OK, ""),
        ("import sys; sys.exit(3)", Kind.WRONG, "exit status 3"),
        ("import sys; sys.exit('2 is not 3')", Kind.WRONG, "exit status 1"),
        ("import os; os._exit(4)", Kind.WRONG, "exit status 4"),
        ("import os; os.closerange(0, 64); os._exit(3)", Kind.WRONG, "exit status 3"),
        ("assert 1 == 2, 'sum'", Kind.EXCEPTION, "AssertionError: sum"),
        ("def f(:", Kind.EXCEPTION, "SyntaxError"),
        (
            (
                "import threading\nt = threading.Thread(target=lambda: {}['x'], name='r\x1b[2J')\n"
                "t.start()\nt.join()"
            ),
            Kind.EXCEPTION,
            "KeyError: 'x' in r\\x1b[2J",
        ),
        # An exit status of zero does not hide what a thread raised.
        (
            "import os\nfrom threading import Thread\n"
            "t = Thread(target=lambda: 1 / 0, name='divider')\n"
            "t.start()\nt.join()\nos._exit(0)",
            Kind.EXCEPTION,
            "ZeroDivisionError: division by zero in divider",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGBUS)", Kind.SIGNAL, "SIGBUS"),
        ("import os, signal; os.killpg(0, signal.SIGKILL)", Kind.SIGNAL, "SIGKILL"),
    ],
)
def test_kinds(run_script, source, kind, detail):
    done = run_script(source)
    assert done.kind == kind and detail in done.detail, done


def test_no_text_of_a_run_has_temporary_paths(run_script, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "extra.py").write_text("def fail(path):\n    open(path)\n")
    done = run_script(
        "import extra, os, sys\nprint(os.environ['HOME'], os.environ['TMPDIR'] + '/x', "
        "file=sys.stderr)\n"
        "extra.fail(os.path.join(os.environ['TMPDIR'], 'missing'))",
        overlay=str(tmp_path / "packages"),
    )
    assert done.kind == Kind.EXCEPTION and "'tmp/missing'" in done.detail
    assert (
        'File "bug.py", line 3, in <module>' in done.stderr
        and 'File "extra.py", line 2, in fail' in done.stderr
    )
    assert "runner.py" not in done.stderr
    assert str(tmp_path) not in done.detail + done.stderr + done.stdout


def test_a_crash_comes_with_its_python_stack(run_script):
    done = run_script(
        "import ctypes\ndef crash():\n    ctypes.string_at(0)\nprint('before')\ncrash()"
    )
    assert (done.kind, done.detail) == (Kind.SIGNAL, "SIGSEGV")
    assert "in crash" in done.stacks and "bug.py" in done.stacks and "runner.py" not in done.stacks
    assert done.stdout == "before\n"


def test_the_script_is_main_in_its_own_folder_and_gets_the_number_of_threads(run_script):
    done = run_script(
        "import os, sys, pickle\nclass A: pass\n"
        "assert __name__ == '__main__' and pickle.loads(pickle.dumps(A())).__class__ is A\n"
        "print(os.environ['REPRO_THREADS'], sys.argv[1:], os.environ.get('A_SECRET'), "
        "sys.stdin.read())\n"
        "import json; print(os.path.basename(__file__), os.getcwd() == os.path.dirname(__file__))",
        threads=5,
    )
    assert done.kind == Kind.OK, done
    assert done.stdout == "5 [] None \nbug.py True\n"


def test_the_script_reads_from_the_stream_that_python_made(run_script):
    """An object of ours in its place moves what is allocated later, on which some bugs depend."""
    done = run_script(
        "import io, sys\nassert sys.stdin is sys.__stdin__\n"
        "streams = sys.stdin, sys.stdin.buffer, sys.stdin.buffer.raw\n"
        "assert [*map(type, streams)] == [io.TextIOWrapper, io.BufferedReader, io.FileIO]"
    )
    assert done.kind == Kind.OK, done


def test_a_script_that_lists_no_files_has_no_audit_hook(run_script):
    """The module of the hook imports glob."""
    source = "import sys\ndef f():\n    global n\nassert 'gl' 'ob' not in sys.modules"
    assert run_script(source).kind == Kind.OK
    assert run_script(source + "\nimport glob").kind == Kind.EXCEPTION


def test_a_python_that_it_starts_is_the_one_that_runs_it(run_script, monkeypatch):
    """And not that of ./twins, which is the free-threaded twin whichever configuration runs."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = run_script(
        "import subprocess, sys\nfor name in ('python', 'python3'):\n"
        "    done = subprocess.run([name, '-c', 'import sys; print(sys.version, sys.prefix)'], "
        "capture_output=True)\n"
        "    assert done.stdout.decode().strip() == f'{sys.version} {sys.prefix}'\n"
    )
    assert done.kind == Kind.OK, done


def test_modules_that_it_imports_are_known(run_script):
    done = run_script("import numpy")
    assert "numpy" in done.modules and "torch" not in done.modules


def test_a_hang_shows_where_every_thread_is_and_ignoring_sigterm_does_not_help(run_script):
    done = run_script(
        "import signal, threading\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "lock = threading.Lock()\n"
        "def waits_forever():\n    with lock: lock.acquire()\n"
        "thread = threading.Thread(target=waits_forever)\nthread.start()\nthread.join()",
        timeout=10.0,  # also for a busy machine to start the thread in
    )
    assert done.kind == Kind.HANG and "ignored SIGTERM" in done.detail
    assert "waits_forever" in done.stacks


@pytest.mark.parametrize("starts", ["", "import os\nif os.fork(): os.wait()\n"])
def test_a_run_that_computes_until_the_limit_is_told_from_a_hang(run_script, starts):
    busy = run_script(starts + "while True: pass", timeout=4.0)
    assert (busy.kind, busy.detail, busy.signatures[0].what, busy.seconds) == (
        Kind.HANG,
        COMPUTING,
        COMPUTING,
        4.0,
    )
    idle = run_script(starts + "import time\nwhile True: time.sleep(0.1)", timeout=4.0)
    assert (idle.kind, idle.detail, idle.signatures[0].what) == (
        Kind.HANG,
        "did not end in time",
        "hang",
    )


def test_a_run_that_other_programs_starve_computes(run_script):
    cpu = min(os.sched_getaffinity(0))
    pin = f"import os\nos.sched_setaffinity(0, [{cpu}])\n"
    with subprocess.Popen([sys.executable, "-c", pin + "while True: pass"]) as other:
        try:
            # Not SCHED_IDLE: Linux counts a wait when it ends,
            # which on a busy machine is after the time limit.
            starved = pin + "os.nice(10)\n"
            starved += (
                "group = '/proc/self/autogroup'\nif os.path.exists(group): open(group, "
                "'w').write('10')\n"
            )
            starved += "while True: pass"
            assert run_script(starved, timeout=4.0).detail.startswith(COMPUTING)
        finally:
            other.kill()


def test_writing_into_the_pipe_of_the_stacks_gives_no_more_time(run_script):
    done = run_script(
        "import os, stat, threading\n"
        "def flood(fd):\n    while True: os.write(fd, b'x' * 4096)\n"
        "for fd in range(3, 20):\n"
        "    try: pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)\n"
        "    except OSError: continue\n"
        "    if pipe: threading.Thread(target=flood, args=(fd,)).start()\n",
        timeout=3.0,
    )
    assert done.kind == Kind.HANG  # without a limit, the supervisor would never come to an end


def test_forking_endlessly(run_script):
    # Others' children may be there: multiprocessing's servers, say.
    before = set(psutil.Process().children(recursive=True))
    # Slowly enough that a test that fails does no harm.
    done = run_script(
        (
            "import os, time\nwhile True:\n    if os.fork() == 0: os.setsid(); time.sleep(600)\n"
            "    time.sleep(0.01)"
        ),
        processes=20,
    )
    assert done.kind == Kind.LIMIT and "20 processes" in done.detail
    assert all(map(ended, set(psutil.Process().children(recursive=True)) - before))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_printing_gigabytes(run_script, stream):
    done = run_script(f"import sys\nwhile True: sys.{stream}.write('x' * 65536)", output=4 * MIB)
    assert done.kind == Kind.LIMIT and "printed more than 4 MiB" in done.detail
    assert len(getattr(done, stream)) < MIB and "bytes left out" in getattr(done, stream)


def test_binary_output_is_made_printable(run_script):
    done = run_script("import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\x1b[31mred```')")
    assert done.kind == Kind.OK
    assert "\x1b" not in done.stdout and "\\x1b[31mred" in done.stdout and "\\xff" in done.stdout


def test_filling_the_disk(run_script, tmp_path):
    many = run_script(
        "import os\nn = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'wb').write(bytes(1 << 20))",
        disk=16 * MIB,
    )
    assert many.kind == Kind.LIMIT and "16 MiB into its scratch folder" in many.detail
    one = run_script(
        "f = open('f', 'wb', buffering=0)\nfor _ in range(64): f.write(bytes(1 << 20))",
        disk=16 * MIB,
    )
    assert one.kind == Kind.LIMIT and "--disk" in one.detail
    assert not list(tmp_path.iterdir())


def test_scratch_folders_are_removed_whatever_their_modes(run_script, tmp_path):
    done = run_script(
        "import os; os.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a/b', 0); os.chmod('a', "
        "0o500)"
    )
    assert done.kind == Kind.OK
    assert not list(tmp_path.iterdir())


def test_memory(run_script):
    one = run_script("import time; x = b'1' * (400 << 20); time.sleep(60)", memory=300 * MIB)
    assert one.kind == Kind.LIMIT and "300 MiB of memory (--memory raises the limit)" in one.detail
    # Addresses that nothing is written to are not memory.
    assert run_script("import mmap; x = mmap.mmap(-1, 2 << 30)", memory=1024 * MIB).kind == Kind.OK
    several = run_script(
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n"
        "        x = b'1' * (100 << 20)\n        break\n"
        "time.sleep(600)",
        memory=300 * MIB,
    )
    assert several.kind == Kind.LIMIT and "300 MiB of memory" in several.detail
    shared = run_script(
        (
            "import os, time\nx = b'1' * (100 << 20)\nchildren = [os.fork() for _ in range(3)]\n"
            "time.sleep(1)\n"
        ),
        memory=300 * MIB,
    )
    assert shared.kind == Kind.OK, shared  # forked processes share the pages


def test_2000_idle_threads_in_the_memory_of_two(run_script):
    source = (
        "import threading\ngo = threading.Event()\n"
        "ts = [threading.Thread(target=go.wait) for _ in range(2000)]\n"
        "for t in ts: t.start()\ngo.set()\nfor t in ts: t.join()\nprint(len(ts))"
    )
    done = run_script(source, memory=512 * MIB)
    assert (done.kind, done.stdout) == (Kind.OK, "2000\n"), done


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ('RuntimeError("can\'t start new thread")', "pids_limit"),
        ("OSError(28, 'No space left on device')", "--disk"),
        ("BlockingIOError(11, 'Resource temporarily unavailable')", "ulimit -u"),
    ],
)
def test_a_limit_of_the_kernel_is_no_failure_of_the_script(run_script, raised, words):
    done = run_script(f"raise {raised}")
    assert done.kind == Kind.LIMIT and words in done.detail
    # The same words of the script's own are its failure.
    assert run_script(f"raise ValueError({raised})").kind == Kind.EXCEPTION


def test_a_process_that_the_kernel_killed_for_want_of_memory():
    begun = Stream()
    begun.add(b'{"begin": true, "gil": true}\n')
    for killed, kind in ((True, Kind.LIMIT), (False, Kind.SIGNAL)):
        done = classify(Ended(-9, 0.1, Stream(), Stream(), Stream(), begun, killed=killed))
        assert done.kind == kind, done


LIAR = r"""
import os
for fd in range(3, 20):
    try:
        os.write(fd, b'{"end": 1}\n[]\n\xff\n{"end": true, "gil": true, "modules": [1]}\n' + b'[' * 30000 + b'\n')
    except OSError:
        pass
raise ValueError('real')
"""


def test_a_script_cannot_lie_about_how_it_ended_by_accident(run_script):
    # It shares the pipe of the runner; what is no line of the runner's is not read as one.
    done = run_script(LIAR)
    assert (done.kind, done.detail) == (Kind.EXCEPTION, "ValueError: real")


def test_a_script_that_is_not_reached():
    stderr = Stream()
    stderr.add(b"Fatal Python error: no memory\n")
    done = classify(Ended(1, 0.1, Stream(), stderr, Stream(), Stream()))
    assert done.kind == Kind.ERROR and "no memory" in done.detail


GIL_USER = """
import importlib.machinery, importlib.util, _testmultiphase
name = "_testmultiphase_null_slots"
loader = importlib.machinery.ExtensionFileLoader(name, _testmultiphase.__file__)
importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
import sys; print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(TWIN == "gil", reason="the GIL is always on in this build")
def test_an_import_that_turns_the_gil_on(run_script):
    pytest.importorskip(
        "_testmultiphase", reason="this build has no test modules (a build without PGO)"
    )
    done = run_script(GIL_USER)
    assert done.kind == Kind.GIL and "_testmultiphase_null_slots" in done.detail
    quiet = run_script("import warnings; warnings.simplefilter('ignore')\n" + GIL_USER)
    assert quiet.kind == Kind.GIL
    crashed = run_script(GIL_USER + "sys.stdout.flush(); import ctypes; ctypes.string_at(0)")
    assert crashed.kind == Kind.GIL and "SIGSEGV" in crashed.detail
    forced = run_script(GIL_USER, force_off=True)
    assert (forced.kind, forced.stdout) == (Kind.OK, "False\n")
    with_gil = run_script(GIL_USER, config="ft-gil")
    assert (with_gil.kind, with_gil.stdout) == (Kind.OK, "True\n")


def test_torch_fits_into_the_default_memory(run_script):
    done = run_script("import torch; print(torch.ones(1000, 1000).sum().item())", threads=4)
    assert (done.kind, done.stdout) == (Kind.OK, "1000000.0\n"), done
