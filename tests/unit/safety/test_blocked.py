"""Scripts that do not get to their bug: told from those that fail,
with the command that gets them further.
"""

import json
import sys

import pytest

from ftrun.supervise import Stream
from ftsafety.repro.blocked import settled, stopped
from ftsafety.repro.campaign import Runs
from ftsafety.repro.classify import classify
from ftsafety.repro.look import observations
from ftsafety.repro.outcome import COMPUTING, Blocker, Kind, Outcome, Signature
from ftsafety.repro.script import TESTS, Script
from ftsafety.repro.verdict import Pattern, judge
from ftsafety.repro.verdict_words import remarks, sentence
from ftsafety.repro.watch import Ended
from tests.checkout import importable
from tests.programs import completed
from tests.unit.safety.conftest import TWIN

REQUIRED = "bug.py: error: the following arguments are required: n"
GIL = "import sys, sysconfig, os\n"
CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', "
SIZE = "n = int(sys.argv[1]) if len(sys.argv) > 1 else 3\n"
THREAD = "import threading\nt = threading.Thread(target=int)\nt.start()\nt.join()\n"
PICTURES = """
import glob
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
paths = sorted(Path(__file__).parent.joinpath("data").glob("*.jpg"))
def load(path):
    for _ in range(9): open(path).close()
def load_all(paths):
    for path in paths: load(path)
n = 0
def count():
    global n
    for _ in range(9): n += 1
"""
THREADS = """
threads = [Thread(target={}) for _ in range(2)]
[t.start() for t in threads]
"""


@pytest.mark.parametrize(
    ("source", "cause", "about"),
    [
        ("import no_such_package.part", "module", "no_such_package"),
        (THREAD + "import no_such_package", "module", "no_such_package"),
        ("x = t'{1}'\nexcept = 3", "syntax", "bug.py, line 1: x = t'{1}'"),
        ("input('threads? ')", "stdin", ""),
        ("try:\n    input('threads? ')\nexcept EOFError:\n    pass", "stdin", ""),
        ("import sys\nrows = sys.stdin.read().split()", "stdin", ""),
        ("import sys\nrows = [*sys.stdin.buffer]", "stdin", ""),
        ("import sys\nrows = sys.stdin.buffer.raw.read(9)", "stdin", ""),
        ("import fileinput\nrows = [*fileinput.input()]", "stdin", ""),
        (
            (
                "import os\nfor _, _, names in os.walk('data'):\n    for name in names:\n"
                "        open(name)"
            ),
            "listing",
            "data/*",
        ),
        (
            "import os\nfor name in os.listdir():\n    if name.endswith('.jpg'): open(name)",
            "listing",
            "*",
        ),
        (
            "from pathlib import Path\nfor path in Path.home().rglob('*.x'): print(path)",
            "listing",
            "~/**/*.x",
        ),
        (
            PICTURES + "\nwith ThreadPoolExecutor(4) as pool:\n    list(pool.map(load, paths))",
            "listing",
            "data/*.jpg",
        ),
        (
            PICTURES
            + THREADS.format("load_all, args=(paths,)")
            + "[t.join() for t in threads]\nprint(len(paths))",
            "listing",
            "data/*.jpg",
        ),
        (
            (
                "import sys\ndef main():\n    print('Usage: bug.py N', file=sys.stderr)\n"
                "    return 1\nsys.exit(main())"
            ),
            "arguments",
            "Usage: bug.py N",
        ),
        ("open('values.csv')", "file", "values.csv"),
        (THREAD + "open('images/part/1.jpg')", "file", "images/"),
        (THREAD + "open('../images/1.jpg')", "file", "../images/"),
        ("import os\nopen(os.path.expanduser('~/data/labels.txt'))", "file", "~/data/labels.txt"),
        (CHILD + "'import no_such_package'], check=True)", "module", "no_such_package"),
        (CHILD + "'import sys; sys.path.clear(); import numpy'], check=True)", "module", "numpy"),
        (
            THREAD + "import subprocess\nsubprocess.run(['no-such-program', 'x'])",
            "program",
            "no-such-program",
        ),
        # as root has no such error
        ("raise PermissionError(13, 'x', 'data/cache')", "readonly", "data/cache"),
        ("from .settings import LIMIT", "relative", ""),
        ("import os\nos.environ['IMAGENET_DIR']", "variable", "IMAGENET_DIR"),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('n')\np.parse_args()",
            "arguments",
            REQUIRED,
        ),
        ("import sys\nn = int(sys.argv[1])", "arguments", "n = int(sys.argv[1])"),
        ("import sys\nprint(list(map(chr, [int(sys.argv[1])])))", "arguments", None),
        ("import sys\na, b = map(int, sys.argv[1:])", "arguments", "a, b = map(int, sys.argv[1:])"),
        (
            "import sys\nif len(sys.argv) < 2:\n    print('usage')\n    sys.exit(2)",
            "arguments",
            "len(sys.argv) < 2",
        ),
        (
            "import sys\nassert sys.version_info >= (3, 99), 'too old'",
            "version",
            "sys.version_info >= (3, 99)",
        ),
        (GIL + "assert sys._is_gil_enabled() is None", "gil", "sys._is_gil_enabled() is None"),
        (
            GIL + "if sysconfig.get_config_var('Py_GIL_DISABLED') != 7:\n    sys.exit('no')",
            "gil",
            None,
        ),
        (
            GIL + "free = sys._is_gil_enabled()\nif free in (True, False):\n    sys.exit(0)",
            "gil",
            "free in (True, False)",
        ),
        (
            GIL + "def free(): return not sys._is_gil_enabled()\nif free() in (0, 1):\n"
            "    sys.exit(free())",
            "gil",
            "free() in (0, 1)",
        ),
        (
            GIL + "MIN = (3, 99)\nif sys.version_info < MIN:\n    sys.exit(f'{MIN} is needed')",
            "version",
            None,
        ),
        (
            GIL + "def main():\n    if sys._is_gil_enabled() in (0, 1):\n"
            "        raise RuntimeError('no')\nmain()",
            "gil",
            None,
        ),
    ],
)
@pytest.mark.slow
def test_causes(run_script, source, cause, about):
    done = run_script(source)
    assert done.blocker is not None, done
    assert done.blocker.cause == cause and (about is None or done.blocker.about == about)
    found = settled({TWIN: Runs(TWIN, [done] * 2)})
    assert found[TWIN].counted == 0 and judge(found).pattern is Pattern.NOT_BEGUN
    assert sentence(judge(found), found).startswith("Did not get to its bug: ")


@pytest.mark.parametrize(
    "source",
    [
        "assert 1 == 2",
        "import sys\nsys.exit(3)",
        "import sys\nsys.exit(0)",
        "[][1]",
        "import ft_no_such".replace("import ft_no_such", "raise ModuleNotFoundError('x')"),
        THREAD + "import sys\nif sys.version_info:\n    sys.exit(1)",
        THREAD + "input()",
        "raise PermissionError(13, 'x', '/etc/passwd')",
        THREAD + "import os\nos.environ['IMAGENET_DIR']",
        THREAD + "open('/usr/values.csv')",  # a thread may have deleted it
        THREAD + "open('log.txt', 'w').close()\nopen('values.csv')",
        THREAD + "import os\nopen('x', 'w').close()\nos.remove('x')\nos.remove('x')",
        CHILD + "'import sys.no_such_part'], check=True)",
        CHILD + "'raise KeyError'], check=True)",
        CHILD + "'import sys; sys.path.clear(); import json'], check=True)",
        "import os\nopen(os.path.join(os.environ['TMPDIR'], 'x'))",
        THREAD + "import os\nopen(os.path.join(os.environ['TMPDIR'], 'x', 'x'))",
        "import sys\nif sys.version_info >= (3, 9):\n    assert 1 == 2",
        # Tests of results, of which some depend on arguments, the GIL or the version, too.
        "import sys\n" + SIZE + "data = list(range(n))\nassert not data",
        "import sys\n[][int(sys.argv[1]) if len(sys.argv) > 1 else 3]",
        "import subprocess, sys\nr = subprocess.run(['false'], env={'_PYTHON_GIL': '0'})\n"
        "if r.returncode:\n    sys.exit(1)",
        "import os\nassert os.system('PYTHON_GIL= false') == 0",
        GIL + "free = sys._is_gil_enabled()\nlost = sum([1])\nif lost or free:\n    sys.exit(0)",
        GIL + "bad = False\nbad |= True\nif bad and sys.version_info:\n    sys.exit(1)",
        GIL + "if sys._is_gil_enabled() in (0, 1):\n    for _ in range(2):\n        sys.exit(1)",
        GIL + "if sys._is_gil_enabled() in (0, 1):\n    sys.exit(os.system('false'))",
    ],
)
@pytest.mark.slow
def test_what_is_a_failure(run_script, source):
    assert run_script(source).blocker is None


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        (THREAD + PICTURES, "data/*.jpg"),
        ("import glob\nassert not glob.glob('core.*')\nsum(range(5_000_000))", "core.*"),
        (
            (
                "import glob, os, sys\nos.makedirs('new')\nassert not glob.glob('new/*')\n"
                "glob.glob('*.py')"
            ),
            "new/*",
        ),
        ("import glob, os\nassert not glob.glob(os.environ['TMPDIR'] + '/*')", None),
        ("import os\nos.makedirs('new')\nassert not os.listdir('new')", None),
        (
            "import contextlib, os\nwith contextlib.suppress(OSError):\n    os.listdir('missing')",
            None,
        ),
        ("import glob\nassert glob.glob('*.py') and glob.glob('*', root_dir='.')", None),
        ("import encodings.cp037, linecache, logging.config", None),
    ],
)
@pytest.mark.slow
def test_a_script_that_did_other_work_than_with_files(run_script, source, pattern):
    done = run_script(source)
    assert (done.kind, done.blocker) == (Kind.OK, None), done
    noticed = [f"no file matched {pattern}: --with puts files beside the script"] if pattern else []
    assert list(done.noticed) == noticed
    runs = {TWIN: Runs(TWIN, [done] * 2)}
    assert observations(runs) == [f"{each} (2 of 2 runs of {TWIN})" for each in noticed]
    assert sentence(judge(runs), runs).startswith("Not reproduced in 2 runs")


@pytest.mark.slow
def test_an_exit_of_a_parser_is_told_from_that_of_a_command(run_script):
    """Click calls a command within its parser, and turns what the command raises into an exit."""
    click = (
        b"import sys\ndef main(command):\n    try: command()\n"
        b"    except OSError as error: sys.exit(error.errno)\n"
    )
    for command, blocker in (
        ("raise OSError(2, 'usage')", Blocker("arguments", "")),
        ("raise OSError(1, 'lost')", None),
        ("sys.exit(2)", None),
    ):
        source = f"import sys, click.core\ndef run(): {command}\nclick.core.main(run)"
        done = run_script(Script("bug.py", source.encode(), files=(("click/core.py", click),)))
        assert (done.kind, done.blocker) == (Kind.WRONG, blocker), done


@pytest.mark.slow
def test_a_part_of_a_script_that_is_blocked_is_told_from_the_whole(run_script):
    """What else a script does may race, so its runs do not end early."""
    in_thread = THREAD.replace("target=int", "target=__import__, args=('no_such_package',)")
    tests = "def test_it():\n    import no_such_package\ndef test_other(): pass"
    collected = Script("test_it.py", b"import no_such_package\n" + tests.encode(), how=TESTS)
    for script, ended in (
        (in_thread, "part"),
        (Script("test_it.py", tests.encode(), how=TESTS), "part"),
        (THREAD + "import no_such_package", "script"),
        (collected, "script"),
    ):
        assert run_script(script).blocker == Blocker("module", "no_such_package", ended)


def outcome(kind=Kind.EXCEPTION, blocker=None):
    return Outcome(kind, "x", blocker=blocker)


def test_every_exception_and_the_exit_after_them_is_told_apart():
    told = Stream()
    told.add(b'{"begin": true, "gil": true}\n')
    lines = [("ModuleNotFoundError", "module")] * 30 + [("KeyError", ""), ("SystemExit", "")]
    for kind, cause in lines:
        line = {
            "kind": kind,
            "exception": kind,
            "thread": None,
            "place": "bug.py:1 in f",
            "cause": cause,
            "what": "",
        }
        told.add(json.dumps(line).encode() + b"\n")
    done = classify(Ended(3, 0.1, Stream(), Stream(), Stream(), told))
    assert [each.what for each in done.signatures] == [
        "ModuleNotFoundError",
        "KeyError",
        "exit status 3",
    ]


def test_only_if_every_run_of_a_configuration_ends_so():
    module, file = Blocker("module", "lxml"), Blocker("file", "x.csv")
    some = {"ft": Runs("ft", [outcome(blocker=module), outcome()])}
    assert settled(some)["ft"].failures == 2
    differ = {"ft": Runs("ft", [outcome(blocker=module), outcome(blocker=file)])}
    assert settled(differ)["ft"].failures == 2
    # A thread may have deleted the file, if the other configuration finds it.
    gone = {"gil": Runs("gil", [outcome(Kind.OK)]), "ft": Runs("ft", [outcome(blocker=file)])}
    assert settled(gone)["ft"].failures == 1
    never = {config: Runs(config, [outcome(blocker=file)]) for config in ("gil", "ft")}
    assert stopped(settled(never)) == {file: ["gil", "ft"]}
    guard = {
        "gil": Runs("gil", [outcome(Kind.OK, Blocker("gil", "x"))] * 20),
        "ft": Runs("ft", [outcome()] * 20),
    }
    found = settled(guard)
    assert (found["gil"].counted, found["ft"].failures) == (0, 20)
    assert judge(found).pattern is Pattern.OTHER  # and no claim that it fails only without the GIL


def computing(*others):
    return Outcome(
        Kind.HANG,
        COMPUTING,
        60.0,
        signatures=(Signature(Kind.HANG, COMPUTING, "bug.py:3"), *others),
    )


def crash(seconds):
    return Outcome(Kind.SIGNAL, "SIGSEGV", seconds, signatures=(Signature(Kind.SIGNAL, "SIGSEGV"),))


def test_runs_that_had_not_failed_at_the_limit_are_named():
    found = settled(
        {
            name: Runs(name, [crash(0.4) if name == "ft" else computing()] * 5)
            for name in ("gil", "ft")
        }
    )
    (said,) = [each for each in remarks(judge(found), found) if "within" in each]
    assert said == (
        "5 of 5 runs of gil had not failed within 60 s, when the time limit ended them; the runs "
        "that failed did so within 0.4 s."
    )


@pytest.mark.parametrize(
    ("gil", "ft", "pattern", "words"),
    [
        # Far from the limit with the GIL: it spins without.
        (Outcome(Kind.OK, "", 1.0), computing(), Pattern.WITHOUT_GIL, "Fails only without the GIL"),
        (
            Outcome(Kind.OK, "", 20.0),
            computing(),
            Pattern.UNJUDGED,
            "(ft: still computing at the time limit (--",
        ),
        (
            computing(),
            computing(),
            Pattern.UNJUDGED,
            "no run could be counted (gil, ft-gil, ft: still computing at",
        ),
        (
            Outcome(Kind.OK, "", 20.0),
            computing(Signature("exception", "KeyError")),
            Pattern.WITHOUT_GIL,
            "Fails only",
        ),
        # Runs until it fails: no failure within the limit is an observation,
        # if failures take far less.
        (computing(), crash(0.4), Pattern.WITHOUT_GIL, "Fails only without the GIL: 0 of 20"),
        (computing(), crash(30.0), Pattern.OTHER, "no other configuration could be judged"),
        (
            crash(0.4),
            computing(),
            Pattern.OTHER,
            "Fails on the build with the GIL and on the free-",
        ),
    ],
)
def test_a_run_that_computes_until_the_limit_may_be_slow(gil, ft, pattern, words):
    found = settled(
        {name: Runs(name, [ft if name == "ft" else gil] * 20) for name in ("gil", "ft-gil", "ft")}
    )
    assert judge(found).pattern is pattern and words in sentence(judge(found), found)


def test_an_exception_that_did_not_end_the_script_hides_no_race():
    """One test of two needs a package, or a thread dies of it; the race is in the other, without
    the GIL alone.
    """
    module = Blocker("module", "lxml")
    absent, race = (
        Signature("exception", "ModuleNotFoundError", "a.py:1 in f"),
        Signature("exception", "KeyError", ""),
    )
    one = Outcome(Kind.EXCEPTION, "x", signatures=(absent,), blocker=module)
    both = Outcome(Kind.EXCEPTION, "x", signatures=(absent, race), blocker=module)
    for raced in ([both] * 20, [one, both] * 10):
        found = settled(
            {
                "gil": Runs("gil", [one] * 20),
                "ft-gil": Runs("ft-gil", [one] * 20),
                "ft": Runs("ft", raced),
            }
        )
        verdict = judge(found)
        assert verdict.pattern is Pattern.WITHOUT_GIL and verdict.main.signature == race
        said = (
            "A part of it did not run in gil, ft-gil, ft: the twins do not have the package "
            "of `import lxml`."
        )
        assert said in list(remarks(verdict, found))
    # Where all runs show the same, the package is the reason.
    for each in (one, both):
        found = settled({config: Runs(config, [each] * 20) for config in ("gil", "ft-gil", "ft")})
        assert judge(found).pattern is Pattern.NOT_BEGUN and not any(
            "A part" in it for it in remarks(judge(found), found)
        )


def command(tmp_path, *arguments, status=None):
    line = [sys.executable, "-P", "-m", "ftsafety.repro", *arguments, "--configs", TWIN]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": importable(), "TMPDIR": str(tmp_path)}
    return completed(line, status, env=variables)


@pytest.mark.slow
def test_the_report_names_the_remedy_and_has_its_own_status(tmp_path):
    (tmp_path / "bug.py").write_text("import no_such_package\n")
    done = command(tmp_path, str(tmp_path / "bug.py"), "--repeat", "9", status=15)
    assert "Did not get to its bug: the twins do not have the package" in done.stdout
    assert "## To get to the bug" in done.stdout and "--package no_such_package" in done.stdout
    assert "Ended after 5 of 9 rounds: no run got to the script's bug" in done.stdout.replace(
        "\\", ""
    )
    # A line for each run, where there is no terminal.
    assert done.stderr.count("did not begin") == 0 and done.stderr.count("ModuleNotFoundError") == 5


@pytest.mark.slow
def test_a_report_of_which_a_part_got_to_the_bug(tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nOTHER=1 exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    (tmp_path / "bug.py").write_text(
        "import os\nif 'OTHER' in os.environ: import no_such_package\n[][1]\n"
    )
    done = command(tmp_path, str(tmp_path / "bug.py"), "--repeat", "2", "--interpreter", str(other))
    assert (
        "## What did not get to the bug\n" in done.stdout and "to get to the bug" not in done.stderr
    )


@pytest.mark.slow
def test_requires_python_is_said_before_anything_runs(tmp_path):
    script = tmp_path / "bug.py"
    script.write_text(
        f"# /// script\n# requires-python = '==3.14.*'\n# ///\nopen({str(tmp_path / 'ran')!r}, "
        f"'w')\n"
    )
    if sys.version_info[:2] == (3, 14):
        script.write_text(script.read_text().replace("3.14", "3.13"))
    done = command(tmp_path, str(script))
    assert done.returncode == 15 and not (tmp_path / "ran").exists(), done.stderr
    assert "the script requires Python ==3.1" in done.stderr and "PYTHON_SERIES=3.1" in done.stderr
    script.write_text("# /// script\n# requires-python = 'soon'\n# ///\n")
    assert command(tmp_path, str(script)).returncode == 2
