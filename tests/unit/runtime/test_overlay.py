"""Requirements from elsewhere: what is handed to uv, and what uv sees of the caller."""

import stat

import pytest

from ftrun.errors import OverlayError
from ftrun.interruption import Interruption
from ftrun.overlay import absent, install


@pytest.fixture
def add(tmp_path):
    """Installs one requirement for "python3", which has no packages."""
    with Interruption() as interruption:
        yield lambda each: install(
            tmp_path / "work", "python3", [each], {}, tmp_path / "cache", interruption
        )


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """A `uv` that writes down what it is given, and fails."""
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    said = tmp_path / "said"
    program.write_text(
        f"#!/bin/sh\nenv >{said}.env\n"
        f'for each in "$@"; do case $each in *.in) cat "$each" >{said}.in ;; esac; done\nexit 1\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return said


@pytest.mark.parametrize(
    "requirement",
    [
        "x\n--editable=/tmp/x",
        "x; python_version > '3\n--index-url=http://127.0.0.1:9/'",
        "x @ file:///tmp/x\n--requirement=/etc/passwd",
        "x @ file:///tmp/x",
        "x @ git+https://example.com/x",
        "--index-url=http://127.0.0.1:9/",
        "-e /tmp/x",
        "/tmp/x",
        "x # \x1b]52;c;x\x07",
        "x; " + "(" * 20_000,
        "",
    ],
)
def test_what_is_no_requirement_of_an_index_is_refused(add, uv, requirement):
    with pytest.raises(OverlayError) as refused:
        add(requirement)
    assert str(refused.value).isprintable()
    assert not uv.with_suffix(".in").exists()


def test_requirements_are_printed_again_and_the_environment_is_clean(add, uv, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    monkeypatch.setenv("UV_EXTRA_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:8/")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    with pytest.raises(OverlayError):
        add("Some.Package [extra]>=1,  <2 ; python_version>'3'")
    assert uv.with_suffix(".in").read_text() == 'Some.Package[extra]<2,>=1; python_version > "3"\n'
    seen = uv.with_suffix(".env").read_text()
    assert "hunter2" not in seen and "PYTHONPATH" not in seen and "127.0.0.1:9" not in seen
    assert "UV_DEFAULT_INDEX=http://127.0.0.1:8/" in seen


def test_of_a_long_message_the_end_is_shown_in_whole_words(add, uv):
    (uv.parent / "bin" / "uv").write_text("#!/bin/sh\nseq 1000 1999 >&2\nexit 1\n")
    with pytest.raises(OverlayError) as refused:
        add("x")
    mark, *words = str(refused.value).split()
    assert mark == "..." and words == [str(number) for number in range(2000 - len(words), 2000)]


def test_what_the_twin_has_is_not_absent():
    assert not absent("NumPy>=2", {"numpy": "2.4.6"}) and not absent("x; python_version < '3'", {})
    assert absent("numpy<2", {"numpy": "2.4.6"}) and absent("pillow", {"numpy": "2.4.6"})


@pytest.mark.parametrize(
    "requirement",
    [
        "numpy; os_name ~= 'x'",
        f"numpy=={'9' * 5000}",
        f"numpy; python_version > '{'9' * 5000}'",
        "numpy; " + "(" * 20_000,
        "",
    ],
)
def test_a_requirement_that_cannot_be_understood_is_absent(requirement):
    assert absent(requirement, {"numpy": "2.4.6"})
