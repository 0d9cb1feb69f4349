"""Inline metadata, and a report that stays whole whatever a script holds or prints."""

import json
import os
import re
from dataclasses import replace

import pytest

from ftrun.errors import MetadataError
from ftrun.inline_metadata import dependencies
from ftsafety.errors import CommandLineError
from ftsafety.repro import commands
from ftsafety.repro.arguments import parse
from ftsafety.repro.campaign import Runs
from ftsafety.repro.classify import printable
from ftsafety.repro.commands import one_run, repro
from ftsafety.repro.inputs import read_script
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.outcome import Blocker, Kind, Outcome, Signature, from_json
from ftsafety.repro.report import environment, excerpt, one_line, render
from ftsafety.repro.script import MODULE, Script
from ftsafety.repro.verdict import judge
from tests.hostile_text import HOSTILE_TEXTS

METADATA = (
    "# /// script\n# requires-python = '>=3.13'\n# dependencies = [\n#   'h5py',\n"
    "#   'numpy<3',\n# ]\n# ///\n"
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (METADATA + "\n" + METADATA, "more than one"),
        (METADATA.replace("# ///\n", ""), "never closed"),
        (METADATA.replace("[", "{", 1), "no TOML"),
        ("# /// script\n# dependencies = 'x'\n# ///\n", "list of strings"),
        ("# /// script\n# dependencies = " + "[" * 5_000 + "\n# ///\n", "no TOML"),
        # more digits than int() takes
        ("# /// script\n# x = " + "9" * 5_000 + "\n# ///\n", "no TOML"),
        # Half a minute for tomllib.
        ("# /// script\n# " + "a." * 30_000 + "a = 1\n# ///\n", "8 KiB"),
    ],
)
def test_malformed_metadata(source, words):
    with pytest.raises(MetadataError, match=words):
        dependencies(source)


def test_metadata_takes_time_in_proportion_to_its_length():
    # Each of these took half an hour and more with the pattern of PEP 723.
    for line in ("# /// a\n", "# /// a\n#\n", "# /// script-like\n# x\n\n", "# x\n"):
        assert dependencies("# /// a\n" + line * (2**20 // len(line))) == ()


def test_dependencies():
    assert dependencies(METADATA + "import h5py\n") == ("h5py", "numpy<3")
    assert dependencies("print(1)\n") == ()
    other = "# /// tool\n# dependencies = ['no']\n# ///\n"
    assert dependencies(other + "\n" + METADATA) == ("h5py", "numpy<3")
    assert dependencies(METADATA.replace("\n", "\r\n")) == ("h5py", "numpy<3")
    # The last mark ends a block, if comment lines alone are before it.
    with pytest.raises(MetadataError, match="no TOML"):
        dependencies(METADATA + "# x = 1\n# ///\n")


def test_scripts_that_are_refused_at_once(tmp_path):
    good = tmp_path / "bug.py"
    good.write_text("print(1)\n")
    (tmp_path / "link.py").symlink_to(good)
    assert read_script(str(good), False) == b"print(1)\n"
    with pytest.raises(CommandLineError, match="symbolic link"):
        read_script(str(tmp_path / "link.py"), False)
    for content, words in (
        (b" \n", "is empty"),
        (b"\x7fELF\0\0", "null bytes"),
        (b"#" * (2 << 20), "1024 KiB"),
    ):
        good.write_bytes(content)
        with pytest.raises(CommandLineError, match=words):
            read_script(str(good), False)
    for name in (b"\xff.py", b"a\nb.py", b"\x1b]52;c;x\x07.py", "\u202egp.py".encode()):
        path = os.path.join(os.fsencode(tmp_path), name)
        with open(path, "wb") as file:
            file.write(b"print(1)\n")
        with pytest.raises(CommandLineError, match="cannot be shown") as refused:
            read_script(os.fsdecode(path), False)
        assert str(refused.value).isprintable()


AN_OUTCOME = Outcome(
    *(Kind.WRONG, "exit status 1", 1.5, "out", "err", "", ("numpy",), ("a note",)),
    (Signature(Kind.WRONG, "exit status 1", "bug.py:3 in f"),),
    Blocker("file", "x.csv"),
    1024,
    ("Exception ignored in: KeyError",),
)


def an_outcome(**changed):
    return {**json.loads(json.dumps(AN_OUTCOME.as_json())), **changed}


def test_the_options_of_a_report_make_the_same_runs_again(tmp_path):
    (tmp_path / "bug.py").write_text("print(1)\n")
    (tmp_path / "x.csv").write_text("1\n")
    beside = str(tmp_path / "x.csv")
    line = [
        "--arg",
        "8",
        "--arg=--fast",
        "--with",
        beside,
        "--stdin",
        beside,
        "--package",
        "h5py",
        "--threads",
        "4",
    ]
    line += ["--timeout", "2.5", "--configs", "ft,gil", "--shrink-threads", "--memory", "512"]
    given = parse(
        [str(tmp_path / "bug.py"), *line, "--twin", "ft=/python", "--out", str(tmp_path / "out.md")]
    )
    assert given.command_line() == [
        *("--arg=8", "--arg=--fast", f"--with={beside}", "--stdin", beside, "--package=h5py"),
        *(
            "--threads",
            "4",
            "--repeat",
            "20",
            "--timeout",
            "2.5",
            "--configs",
            "gil,ft",
            "--shrink-threads",
        ),
        *("--memory", "512"),
    ]
    again = parse([str(tmp_path / "bug.py"), *given.command_line()])
    assert replace(again, twins=given.twins, out=given.out) == given


def test_a_name_like_an_option_is_typed_as_a_path():
    assert Script("-x.py", b"").argument == Script("-x.py", b"", "-x.py").argument == "./-x.py"
    assert Script("x.py", b"").argument == "x.py"


def test_commands_name_the_script_by_the_path_that_was_given(monkeypatch, default_series):
    monkeypatch.setenv("HOME", "/home/me")
    assert Script("bug.py", b"", "repro/bug.py").argument == "repro/bug.py"
    assert Script("x.py", b"", "/home/me/my bugs/x.py").argument == "~/'my bugs/x.py'"
    assert Script("x.py", b"", "/data/x.py").argument == "/data/x.py"
    given = parse(["repro/counter_increment.py", "--threads", "2"])
    assert repro(given).startswith("./twins repro repro/counter_increment.py --threads 2 ")
    single = one_run(given, Runs("gil"), {"gil": DESCRIBED}, {})
    assert single.count(" repro/counter_increment.py") == 2
    # Twins of another series than the default are named:
    # the reader's shell does not have the variable.
    default = commands.HERE
    other = next(each for each in commands.SERIES if each != default)
    monkeypatch.setattr(commands, "HERE", other)
    command = repro(given)
    assert command.startswith(f"PYTHON_SERIES={other} ./twins repro repro/counter_increment.py ")
    assert f" PYTHON_SERIES={other} ./twins exec gil " in one_run(
        given, Runs("gil"), {"gil": DESCRIBED}, {}
    )
    assert commands.of_series(default, command).startswith(
        f"PYTHON_SERIES={default} ./twins repro "
    )
    given = replace(given, twins=(("ft", "unix:/run/ft/socket"),))
    assert repro(given).startswith(f"PYTHON_SERIES={other} docker compose run ")


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (
            "x/bug.py",
            "docker compose run --rm -T ft-repro - --threads 2 --repeat 20 --timeout 60 <x/bug.py",
        ),
        (
            "x/bug.ipynb",
            "docker compose run --rm -T ft-repro x/bug.ipynb --threads 2 --repeat 20 --timeout 60",
        ),
        (
            "x/bug.zip",
            "docker compose run --rm -T ft-repro x/bug.zip --threads 2 --repeat 20 --timeout 60",
        ),
    ],
)
@pytest.mark.slow
def test_a_command_behind_walls_reads_a_script_alone_from_standard_input(
    default_series, path, command
):
    twins = (("ft", "unix:/run/ft/socket"),)
    assert repro(ReproOptions(Script("bug.py", b"", path), path, threads=2, twins=twins)) == command


def test_standard_input_of_a_module_is_read_from_this_directory(default_series):
    script = Script("pkg/x.py", b"", "a b", how=MODULE)
    options = ReproOptions(script, "a b", module="pkg.x", stdin="in put.txt")
    command = one_run(options, Runs("gil"), {"gil": DESCRIBED}, {})
    assert re.search(r"^\(cd 'a b' && .* python -m pkg\.x\) <'in put\.txt'$", command, re.MULTILINE)


def test_a_folder_of_the_twins_with_a_space_is_quoted(monkeypatch, tmp_path):
    (tmp_path / "my twins").mkdir()
    (tmp_path / "my twins" / "twins").touch()
    monkeypatch.setattr(commands, "ROOT", tmp_path / "my twins")
    monkeypatch.chdir(tmp_path)
    assert commands.program() == "'./my twins/twins'"


def test_an_outcome_comes_back_as_it_was():
    assert from_json(an_outcome()) == AN_OUTCOME
    assert from_json(an_outcome(blocker=[])).blocker is None


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        *(
            an_outcome(**{name: value})
            for name in an_outcome()
            for value in (None, {}, [1], [["x"]], True)
        ),
        an_outcome(kind="all clear"),
        an_outcome(signatures=[["signal", "SIGSEGV"]]),
        an_outcome(signatures=[["ok", "SIGSEGV", ""]]),
        an_outcome(blocker=["file"]),
        an_outcome(seconds=1e400),
        an_outcome(seconds=10**5000),
        {"kind": "ok"},
    ],
)
def test_an_answer_that_is_no_outcome_is_refused(values):
    with pytest.raises(ValueError, match="outcome"):
        from_json(values)


def test_an_answer_is_bounded():
    done = from_json(
        an_outcome(
            stdout="x" * 10**7, detail="y" * 10**6, modules=["z" * 10**4] * 10**4, notes=["n"] * 99
        )
    )
    assert (
        len(done.stdout) + len(done.detail) + sum(map(len, done.modules)) < 2 * 10**6
        and len(done.notes) < 20
    )


def test_excerpts_and_lines_are_bounded():
    assert len(excerpt("x" * 10**6, 1000)) < 1100 and "999000 characters left out" in excerpt(
        "x" * 10**6, 1000
    )
    assert one_line("a|b\n`c` <script>") == "a\\|b \\`c\\` \\<script\\>"


def test_a_report_of_hostile_text_is_text():
    hostile = " ".join(HOSTILE_TEXTS)
    outcome = Outcome(Kind.WRONG, hostile, 1.0, hostile, hostile, hostile, (hostile,), (hostile,))
    found = {config: Runs(config, [outcome] * 3) for config in ("gil", "ft-gil", "ft")}
    found["ft"].missing = hostile
    described = json.loads(json.dumps(DESCRIBED))
    for part, names in (
        ("interpreter", ("version", "build", "compiler")),
        ("cpu", ("model",)),
        ("os", ("name", "kernel")),
    ):
        described[part].update(dict.fromkeys(names, hostile))
    script = Script("a`b.py", hostile.encode(errors="surrogateescape"))
    text = render(script, judge(found), found, hostile, environment({"ft": described}, found, True))
    assert all(c.isprintable() or c == "\n" for c in text)
    outside = re.sub(r"^(`{3,})\w*\n.*?\n\1$", "", text, flags=re.M | re.S)
    assert "```" not in outside
    bare = re.sub(r"\\[!-~]", "", outside.replace("<!-- -->", "\0"))
    assert not re.search(r"[<>]|[@#]\w|://|\bGH-\d|www\.", bare), bare


def test_printable():
    assert printable(b"a\tb\r\nc\x00\x1b[0m\xff\xe2\x80\xae") == "a\tb\nc\\x00\\x1b[0m\\xff\\u202e"
    assert printable(b'File "/tmp/x/script/bug.py"', ["/tmp/x/script"]) == 'File "bug.py"'
    long = '  File "/home/me/twin/lib/python3.13t/{}.py", line 1 in f'
    pillow = long.format("site-packages/PIL/Image").encode()
    assert printable(pillow) == '  File "site-packages/PIL/Image.py", line 1 in f'
    assert (
        printable(long.format("threading").encode())
        == '  File "lib/python3.13t/threading.py", line 1 in f'
    )


DESCRIBED = {
    "interpreter": {"version": "3.13.5", "build": "PGO build", "compiler": "GCC 14"},
    "packages": {"numpy": "2.4.6"},
    "cpu": {"model": "a CPU", "usable": 2, "count": 4},
    "memory": {"total": 2**33},
    "os": {"name": "Debian", "kernel": "6.1", "container": None},
}


def test_the_report_holds_what_an_issue_needs():
    runs = {
        "gil": Runs("gil", [Outcome(Kind.OK, "", modules=("numpy",))] * 9),
        "ft-gil": Runs("ft-gil", [Outcome(Kind.OK, "")] * 9),
        "ft": Runs(
            "ft",
            [Outcome(Kind.WRONG, "exit status 1", stdout="3 | 4\n", stderr="Traceback ...")] * 9,
        ),
    }
    script = Script("bug.py", b"x = '```'\nprint(3)\n")
    text = render(
        script,
        judge(runs),
        runs,
        "./twins repro bug.py",
        environment({"ft": DESCRIBED, "gil": DESCRIBED}, runs, False),
        [("Threads", "fails with 2")],
    )
    wanted = [
        "Fails only without the GIL",
        "100% (66% to 100%)",
        "Traceback ...",
        "3 | 4",
        "x = '```'",
    ]
    wanted += [
        "./twins repro bug.py",
        "numpy 2.4.6",
        "CPython 3.13.5",
        "a CPU",
        "## Threads",
        "walls: none",
    ]
    for words in wanted:
        assert words in text, words
    header, rule, *rows = re.findall(r"^\|.*\|$", text, re.M)
    assert {line.count("|") for line in (header, rule, *rows[:3])} == {header.count("|")}
