"""What reporters send: files beside the script, modules, tests,
notebooks, archives; and those that mean harm.
"""

import io
import json
import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest

from ftsafety.errors import CommandLineError
from ftsafety.repro.inputs import LARGEST_FOLDER, LARGEST_SCRIPT, LARGEST_SENT, MOST_FILES, load
from ftsafety.repro.notebook import is_percent_script, python_of_percent_script
from ftsafety.repro.outcome import Blocker, Kind
from ftsafety.repro.request import Limits, Request
from ftsafety.repro.script import FILE, MODULE, TESTS, Script
from tests.unit.safety.conftest import TWIN


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into the current directory: `write({"a/b.py": "..."})`."""
    monkeypatch.chdir(tmp_path)

    def write(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def archive(files, **changed):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as into:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            for key, value in changed.items():
                setattr(info, key, value)
            into.writestr(info, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


@pytest.mark.slow
def test_arguments_and_standard_input_are_what_was_given(run_script, write):
    write(
        {
            "bug.py": "import sys; print(sys.argv[1:], input(), sys.stdin.read())",
            "in.txt": "one\ntwo\n",
        }
    )
    assert (
        run_script(load("bug.py", arguments=["8", "--fast"], stdin="in.txt")).stdout
        == "['8', '--fast'] one two\n\n"
    )
    write({"quiet.py": "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"})
    assert run_script(load("quiet.py")).stdout == "[] ''\n"


@pytest.mark.slow
def test_files_and_folders_beside_the_script_are_read_only_copies(run_script, write):
    write(
        {
            "bug.py": WRITER,
            "values.csv": "1,2\n",
            "data/deep/x.txt": "x",
            "data/__pycache__/y.pyc": "y",
        }
    )
    script = load("bug.py", beside=["values.csv", "data"])
    assert dict(script.files) == {"values.csv": b"1,2\n", "data/deep/x.txt": b"x"}
    done = run_script(script)
    assert (done.kind, done.stdout) == (
        Kind.OK,
        "1,2\n x ['x.txt'] 0o444\nthe folder itself can be written to\n",
    ), done


WRITER = """
import os, stat
print(open("values.csv").read(), open("data/deep/x.txt").read(), os.listdir("data/deep"),
      oct(stat.S_IMODE(os.stat("values.csv").st_mode)))
open("new.txt", "w").write("the folder itself can be written to")
print(open("new.txt").read())
"""


@pytest.mark.slow
def test_a_module_of_a_folder_with_relative_imports(run_script, write):
    write(
        {
            "pkg/__init__.py": "",
            "pkg/bug.py": "from .settings import LIMIT\nprint(LIMIT, __name__, __package__)\n",
        }
    )
    write({"pkg/settings.py": "LIMIT = 3\n", "other/large.bin": b"x"})
    for script in (load(None, "pkg.bug"), load(".", "pkg.bug"), load(os.getcwd(), "pkg.bug")):
        assert (script.how, script.name, len(script.files)) == (MODULE, "pkg/bug.py", 2)
        assert run_script(script).stdout == "3 __main__ pkg\n"
    write({"pkg/__main__.py": "1 / 0"})
    done = run_script(load(None, "pkg"))
    assert done.signatures[0][1:] == ("ZeroDivisionError", "pkg/__main__.py:1 in <module>")
    assert "runpy" not in done.stderr
    for module, words in (
        ("no.bug", "neither a folder nor a file"),
        ("pkg.no", "no pkg/no.py"),
        ("p;x", "no name"),
    ):
        with pytest.raises(CommandLineError, match=words):
            load(None, module)


TEST = """
import pytest
@pytest.mark.parametrize("n", [1, 2])
def test_counter(n):
    assert n == 1, "lost"
"""


@pytest.mark.slow
def test_a_file_of_tests_is_run_with_pytest(run_script, write):
    # The fixture's scratch folder is here, so these lie above the script's folder,
    # and in the temporary one.
    above = "raise OSError('an untrusted conftest.py ran')"
    write({"test_race.py": TEST, "conftest.py": above, "../conftest.py": above})
    write({"../pytest.ini": "[pytest]\naddopts = --nonsense"})
    script = load("test_race.py")
    assert (script.how, script.files) == (TESTS, ())
    done = run_script(script)
    assert (done.kind, done.blocker) == (Kind.EXCEPTION, None), done
    assert "AssertionError: lost" in done.detail and done.detail.endswith(" in test_counter[2]")
    assert done.signatures[0][1:] == ("AssertionError", "test_race.py:5 in test_counter")
    assert run_script(load("test_race.py", arguments=["-k", "1-"])).blocker == Blocker("tests", "")
    write(
        {
            "pkg/__init__.py": "",
            "pkg/test_race.py": "from .more import test_counter\n" + TEST,
            "pkg/more.py": TEST,
        }
    )
    for named in (load(None, "pkg.test_race"), load(os.getcwd(), "pkg.test_race")):
        assert named.how == TESTS
        done = run_script(named)
        assert done.kind == Kind.EXCEPTION and done.detail.endswith(" in test_counter[2]"), done
    with pytest.raises(CommandLineError, match="conftest.py is no script: .* name a file of tests"):
        load("conftest.py")
    write({"test_main.py": TEST + "if __name__ == '__main__': test_counter(1)"})
    assert load("test_main.py").how == FILE


SKIP = "import pytest\ndef test_it():\n    pytest."


@pytest.mark.parametrize(
    ("source", "blocker"),
    [
        (SKIP + "importorskip('no_such_package.part')", Blocker("module", "no_such_package")),
        ("import pytest\npytest.importorskip('no_such_package')\ndef test_it(): pass", "module"),
        (SKIP + "skip('no GPU')", Blocker("tests", "no GPU")),
        (SKIP + "xfail('known')", None),
        (SKIP + "skip('no GPU')\ndef test_other(): pass", None),
    ],
)
@pytest.mark.slow
def test_a_file_whose_tests_are_all_skipped_has_not_passed(run_script, source, blocker):
    found = run_script(Script("test_it.py", source.encode(), how=TESTS)).blocker
    assert (found.cause if found and blocker == "module" else found) == blocker


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "source",
    [
        b"# %%\n" + b"\n" * 500_000 + b"x = 1\n",
        b"# %%\n%matplotlib\n" + b"\n" * 500_000 + b"x = 1\n",
        b"# %%\n%matplotlib\nx =" + b" " * 500_000 + b"1 1\n",
        b"# %%\n%matplotlib\n" + b" " * 500_000 + b"x y\n",
        b"# %%\n%time" + b" " * 500_000 + b"\n",
        b"# %%\n%matplotlib\n" + b"a" * 500_000 + b" y\n",
    ],
)
def test_cells_are_read_in_time_linear_in_their_length(source):
    assert is_percent_script(source) == (b"\n%" in source)
    python_of_percent_script(source)


@pytest.mark.slow
def test_the_cells_of_a_notebook_in_order(run_script, write):
    cells = [
        "%load_ext autoreload\nn = 1\n",
        ["!pip install -q numpy\n", "%time m = n + 1\n"],
        "%%bash\nexit 3",
        "print(m\n  % 2)",
    ]
    made = [{"cell_type": "code", "source": cell} for cell in cells] + [
        {"cell_type": "markdown", "source": "%x"}
    ]
    write({"bug.ipynb": json.dumps({"cells": made, "metadata": {}, "nbformat": 4})})
    script = load("bug.ipynb")
    assert script.left_out == ("%load_ext autoreload", "!pip install -q numpy", "%time", "%%bash")
    assert (script.title, run_script(script).stdout) == ("bug.ipynb", "0\n")
    write({"cells.py": "# %%\n%matplotlib inline\nx = 1\n# %%\nprint(x)\n"})
    assert run_script(load("cells.py")).stdout == "1\n" and load("cells.py").left_out == (
        "%matplotlib inline",
    )


@pytest.mark.slow
def test_a_script_that_nbconvert_made(run_script, write):
    lines = [
        "# In[1]:",
        "get_ipython().run_line_magic('matplotlib', 'inline')",
        "x = get_ipython().getoutput('ls')",
    ]
    write({"bug.py": "\n".join([*lines, "# In[2]:", "print(7)", ""])})
    script = load("bug.py")
    assert len(script.left_out) == 2 and run_script(script).stdout == "7\n"
    write({"own.py": "from mine import get_ipython\nget_ipython().run()\n"})
    assert load("own.py").left_out == ()


@pytest.mark.slow
def test_await_outside_of_a_function_as_in_a_notebook(run_script, write):
    cells = [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7",
        "r = await f()\nprint(r)",
    ]
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    write({"bug.ipynb": json.dumps({"cells": made, "metadata": {}, "nbformat": 4})})
    assert run_script(load("bug.ipynb")).stdout == "7\n"
    done = run_script("import asyncio\nawait asyncio.sleep(0)\nassert 1 == 2, 'lost'")
    assert (
        done.detail == "AssertionError: lost" and done.signatures[0].place == "bug.py:3 in <module>"
    )


@pytest.mark.slow
def test_a_notebook_with_display_and_a_future_import(run_script, write):
    cells = ["x = 1", "from __future__ import annotations\ndef f(y: z):\n    display(y)\nf(x)"]
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    write({"bug.ipynb": json.dumps({"cells": made, "metadata": {}, "nbformat": 4})})
    assert run_script(load("bug.ipynb")).stdout == "1\n"


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        "[" * 100_000,
        '{"cells": 3, "metadata": {}}',
        '{"cells": [{"cell_type": "code", "source": 3}], "metadata": {}}',
        '{"cells": [{"cell_type": "code", "source": [3]}], "metadata": {}}',
        '{"cells": [], "metadata": {"language_info": {"name": "julia"}}}',
        '{"cells": [], "metadata": []}',
        json.dumps({"cells": [{"cell_type": "code", "source": "x = '\ud800'"}], "metadata": {}}),
    ],
)
def test_a_notebook_that_is_none(write, content):
    write({"bug.ipynb": content})
    with pytest.raises(CommandLineError, match="notebook|surrogate"):
        load("bug.ipynb")


@pytest.mark.slow
def test_an_archive(run_script, write):
    write(
        {"bug.zip": archive({"case/bug.py": "print(open('case/x.csv').read())", "case/x.csv": "7"})}
    )
    script = load("bug.zip")
    assert (script.name, script.title) == ("case/bug.py", "bug.zip")
    assert run_script(script).stdout == "7\n"
    write({"pkg.zip": archive({"pkg/a.py": "print(__name__)", "pkg/b.py": ""})})
    assert run_script(load("pkg.zip", "pkg.a")).stdout == "__main__\n"
    with pytest.raises(CommandLineError, match="holds 2 scripts"):
        load("pkg.zip")
    write(
        {
            "tests.zip": archive(
                {"test_x.py": "def test_it():\n    assert 0\n", "conftest.py": "import threading"}
            )
        }
    )
    assert run_script(load("tests.zip")).kind == Kind.EXCEPTION


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: archive({"../evil.py": "1"}), "no path within"),
        (lambda: archive({"/evil.py": "1"}), "no path within"),
        (lambda: archive({"a\\..\\..\\evil.py": "1"}), "no path within"),
        (lambda: archive({"a\x1b]52;c.py": "1"}), "no path within"),
        (
            lambda: archive({"bug.py": "/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16),
            "link or a device",
        ),
        (
            lambda: archive({"bug.py": ""}, external_attr=(stat.S_IFIFO | 0o777) << 16),
            "link or a device",
        ),
        (lambda: archive({"bug.py": "1", "bomb": bytes(LARGEST_FOLDER + 1)}), "more than 64 MiB"),
        (lambda: archive({f"{n}.txt": "" for n in range(MOST_FILES + 1)}), "more than 2000 files"),
        (lambda: archive({"a": "1", "a/bug.py": "1"}), "two files"),
        (
            lambda: archive({f"{n}/": "" for n in range(MOST_FILES + 1)} | {"bug.py": "1"}),
            "more than 2000 files",
        ),
        (lambda: archive({"a" * 300 + ".py": "1"}), "too long"),
        (lambda: archive({"ä" * 200 + ".py": "1"}), "too long"),
        (lambda: archive({"a/" * 32_000 + "bug.py": "1"}), "too long"),
        (lambda: archive({"bug.py": "1" * (LARGEST_SCRIPT + 1)}), "more than 1024 KiB"),
        (lambda: archive({"bug.py": "1"})[:-10], "cannot be unpacked"),
        (lambda: b"PK no archive", "cannot be unpacked"),
        (
            lambda: archive({"bug.py": "print(1)" * 99}).replace(b"print", b"tnirp"),
            "cannot be unpacked",
        ),
        (
            lambda: archive({"bug.py": "1"}).replace(b"\x08\x00\x00\x00", b"\x0e\x00\x00\x00"),
            "unusual|unpacked",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_means_harm_gets_nowhere(write, tmp_path, made, words):
    content = made()
    if words == "cannot be unpacked" and content.startswith(b"PK\x03") and len(content) > 100:
        content = content[:45] + bytes(8) + content[53:]  # in the middle of the packed bytes
    write({"in/bug.zip": content})
    with pytest.raises(CommandLineError, match=words) as refused:
        load("in/bug.zip")
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_what_an_archive_says_about_sizes_is_not_believed(write):
    packed = archive({"bug.py": "1", "bomb": bytes(LARGEST_FOLDER + 1)})
    size = (LARGEST_FOLDER + 1).to_bytes(4, "little")
    write({"bug.zip": packed.replace(size, (10).to_bytes(4, "little"))})
    with pytest.raises(CommandLineError, match=r"64 MiB|unpacked"):
        load("bug.zip")


def test_a_folder_with_what_is_no_file(write, tmp_path):
    write({"bug.py": "1", "fifo/x": "", "link/x": "", "tree/x": "", "socket/x": ""})
    os.mkfifo("fifo/pipe")
    Path("link/passwd").symlink_to("/etc/passwd")
    Path("tree/etc").symlink_to("/etc")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket/s")
        for folder, words in (
            ("fifo", "is no file"),
            ("link", "link"),
            ("tree", "link"),
            ("socket", "is no file"),
        ):
            with pytest.raises(CommandLineError, match=words):
                load("bug.py", beside=[folder])
    for path in ("fifo/pipe", "link/passwd", "/dev/zero", "no.csv"):
        for given in ({"beside": [path]}, {"stdin": path}):
            with pytest.raises(CommandLineError):
                load("bug.py", **given)
    write({"inside/bug.py/x": "", "module/m.py": b"1" * (LARGEST_SCRIPT + 1)})
    for path in ("bug.py", "inside/bug.py"):
        with pytest.raises(CommandLineError, match="two files"):
            load("bug.py", beside=[path])
    with pytest.raises(CommandLineError, match="more than 1024 KiB"):
        load("module", "m")
    with pytest.raises(CommandLineError, match="is no file"):
        load("fifo/pipe")


def test_standard_input_counts_with_the_files_that_are_sent(write):
    write({"bug.py": "1", "data": bytes(LARGEST_SENT - 100), "in.txt": bytes(200)})
    assert len(load("bug.py", beside=["data"], stdin="in.txt").stdin) == 200
    assert load("bug.py", beside=["data"], walled=True).files
    with pytest.raises(CommandLineError, match="more than 8 MiB"):
        load("bug.py", beside=["data"], stdin="in.txt", walled=True)


@pytest.mark.slow
def test_files_that_cannot_be_written_make_no_run(run_script):
    done = run_script(Script("a/bug.py", b"1", files=(("a", b"a file, and no folder"),)))
    assert done.kind is Kind.ERROR and "the run could not be made" in done.detail


@pytest.mark.parametrize(
    "path", ["https://gist.github.com/x/1", "http://x/bug.py", "file:///etc/passwd"]
)
def test_an_address_is_refused_and_says_why(path):
    with pytest.raises(CommandLineError, match="downloads nothing"):
        load(path)


@pytest.mark.slow
def test_conftest_and_plugins_of_a_folder_stay_in_the_run(run_script, write, tmp_path):
    harm = (
        "import os\nopen('here', 'w')\nopen(os.path.join(os.environ['HOME'], 'there'), "
        "'w')\nprint('conftest ran')\n"
    )
    write({"case/test_it.py": "def test_it(): pass\n", "case/conftest.py": harm})
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    done = run_script(load("case/test_it.py", beside=["case/conftest.py"]))
    assert done.kind == Kind.OK, done
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_a_request_is_a_plain_record():
    files = (("data/x.bin", bytes(range(256))),)
    script = Script("a/bug.py", b"\xff", "/home/me/bug.zip", MODULE, files, ("--x", "π"), b"\0in")
    request = Request(TWIN, script, 3, Limits(timeout=2.5), True)
    sent = json.dumps(request.as_json())
    assert "/home/me" not in sent
    again = Request.from_json(json.loads(sent))
    assert again.script == Script("a/bug.py", b"\xff", "", MODULE, files, ("--x", "π"), b"\0in")
    assert (again.config, again.threads, again.limits, again.force_off) == (
        TWIN,
        3,
        Limits(timeout=2.5),
        True,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "../x.py"},
        {"name": "/x.py"},
        {"files": [["../x", ""]]},
        {"how": "shell"},
        {"files": [["x"]]},
        {"name": ""},
        {"name": "a" * 256},
    ],
)
def test_a_request_that_leaves_its_folder_is_refused(changed):
    values = Request(TWIN, Script("x.py", b""), 1, Limits()).as_json()
    values["script"].update(changed)
    with pytest.raises(ValueError, match=r"within a folder|not started|unpack|too long"):
        Request.from_json(values)
