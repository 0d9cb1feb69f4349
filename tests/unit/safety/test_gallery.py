"""The gallery: its headers, what counts as expected, and the page of results."""

import importlib.util
import json
import sys

import pytest

from tests.checkout import CHECKOUT

PROGRAM = CHECKOUT / "repro" / "run_gallery.py"
spec = importlib.util.spec_from_file_location("run_gallery", PROGRAM)
gallery = sys.modules["run_gallery"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)

HEADER = """# numpy.repeat() in several threads.
#
# Link: https://github.com/numpy/numpy/issues/28197
# Package: numpy
# Fails: 2.2.2
# Fixed: 2.2.3
# Expected gil: ok
# Expected ft-gil: may fail (signal)
# Expected ft: fails (signal, wrong result)
# Timeout: 60
"""


def entry(path, text=HEADER):
    (path / "script.py").write_text(text)
    return gallery.read(path / "script.py")


def test_every_header():
    entries = [
        gallery.read(path) for path in sorted((CHECKOUT / "repro").glob("*.py")) if path != PROGRAM
    ]
    assert sum(each.package is not None for each in entries) >= 34
    assert sum(each.expected["gil"] != "ok" for each in entries) >= 10


def test_a_header(tmp_path):
    found = entry(tmp_path)
    assert found.title == "numpy.repeat() in several threads"
    assert (found.package, found.fails, found.fixed, found.timeout) == (
        "numpy",
        "2.2.2",
        "2.2.3",
        60.0,
    )
    assert found.expected == {
        "gil": "ok",
        "ft-gil": "may fail (signal)",
        "ft": "fails (signal, wrong result)",
    }
    assert found.others == ()
    found = entry(
        tmp_path, HEADER.replace("# Fixed: 2.2.3\n", "# Fixed: 2.2.3\n# With: one==1 two==2\n")
    )
    assert found.others == ("one==1", "two==2")


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("# Expected gil: ok\n", ""),
        ("# Expected gil: ok\n", "# Expected gil: fails (sometimes)\n"),
        ("# Fixed: 2.2.3\n", ""),
        ("# Timeout: 60\n", ""),
        ("numpy/numpy/issues/28197", "numpy"),
    ],
)
def test_a_wrong_header(tmp_path, line, other):
    assert line in HEADER
    with pytest.raises(gallery.GalleryError, match="script.py: its header"):
        entry(tmp_path, HEADER.replace(line, other))


def test_what_is_expected_of_a_version(tmp_path):
    found = entry(tmp_path)
    versions = ("2.2.2", "2.2.3", "2.10")
    assert [found.expects("ft-gil", version) for version in versions] == [
        "may fail (signal)",
        "ok",
        "ok",
    ]
    assert found.expects("ft", "2.2.2", "0123  name.patch  gh-28197: why") == "ok"
    assert found.expects("ft", "2.2.2", "0123  name.patch  gh-281970: why") != "ok"


def test_a_series_of_cpython_says_nothing_of_the_next(tmp_path):
    text = HEADER.replace(
        "numpy\n# Fails: 2.2.2\n# Fixed: 2.2.3", "CPython\n# Fails: 3.13.5\n# Fixed: 3.13.8"
    )
    found = entry(tmp_path, text)
    versions = ("3.13.5", "3.13.8", "3.14.0")
    assert [found.expects("ft-gil", version) for version in versions] == [
        "may fail (signal)",
        "ok",
        "unknown",
    ]
    assert gallery.holds("unknown", ["signal"])


@pytest.mark.parametrize(
    ("expected", "seen", "true"),
    [
        ("ok", ["ok"], True),
        ("ok", ["ok", "signal"], False),
        ("fails (signal)", ["ok", "signal"], True),
        ("fails (signal)", ["ok"], False),
        ("fails (signal, hang)", ["hang"], True),
        ("fails (signal)", ["signal", "hang"], False),
        ("may fail (wrong result)", ["ok"], True),
        ("may fail (wrong result)", ["exception"], False),
        ("GIL enabled", ["GIL enabled", "ok"], True),
        ("GIL enabled", ["ok"], False),
        ("fails (signal, GIL enabled)", ["GIL enabled", "signal"], True),
        ("fails (signal, GIL enabled)", ["GIL enabled", "hang"], False),
        ("ok", ["not run"], False),
    ],
)
def test_what_was_expected(expected, seen, true):
    assert gallery.holds(expected, seen) is true


@pytest.mark.parametrize(("ends", "status"), [("kill -INT $PPID; exit 130", 130), ("exit 3", 3)])
def test_a_build_that_does_not_succeed_ends_the_gallery_without_a_traceback(
    tmp_path, monkeypatch, capfd, ends, status
):
    twins = tmp_path / "twins"
    twins.write_text(f"#!/bin/sh\necho twins: the reason >&2\n{ends}\n")
    twins.chmod(0o755)
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["run_gallery.py"])
    try:
        ended = gallery.main()
    except SystemExit as error:
        ended = error.code
    assert (ended, capfd.readouterr().err) == (status, "twins: the reason\n")


def row(version, config, failures, as_expected=True):
    kinds = {"ok": 5 - failures, **({"signal": failures} if failures else {})}
    return gallery.Row(
        "script.py", version, config, 5, failures, kinds, "ok", as_expected, "2026-01-01", "3.13.5"
    )


def test_the_page_and_what_it_adds_to(tmp_path):
    file = tmp_path / "gallery.json"
    gallery.merged(file, [row("2.2.2", "ft", 5)])
    rows = gallery.merged(file, [row("2.2.3", "ft", 1, as_expected=False), row("2.2.3", "gil", 0)])
    assert [(each.version, each.config) for each in rows] == [
        ("2.2.2", "ft"),
        ("2.2.3", "gil"),
        ("2.2.3", "ft"),
    ]
    assert len(json.loads(file.read_text())) == 3
    rows = gallery.merged(file, [row("2.2.3", "ft", 0)])
    assert [each.failures for each in rows] == [5, 0, 0]
    page = gallery.page(
        [entry(tmp_path)], [*rows[:2], row("2.2.3", "ft", 1, as_expected=False)], ["a note"]
    )
    assert (
        "| [numpy 28197](https://github.com/numpy/numpy/issues/28197): numpy.repeat() in "
        "several threads" in page
    )
    assert "(script.py); fixed in numpy 2.2.3 |" in page
    assert "| numpy 2.2.2 | 3.13.5 |  |  | 100% (48% to 100%): 5 signal | 2026-01-01 |" in page
    assert (
        "|  | numpy 2.2.3 | 3.13.5 | 0% (0% to 52%) |  | **20% (1% to 72%): 1 signal** | "
        "2026-01-01 |" in page
    )
    assert page.endswith("- not run: a note\n")
