"""FT_PYTHON and GIL_PYTHON: accepted, checked, used."""

import json
import shutil

import pytest

from tests.programs import completed

pytestmark = pytest.mark.slow


@pytest.fixture
def built(output_of):
    """The interpreter below each twin's environment."""
    return lambda twin: output_of(twin, "import sys; print(sys._base_executable)")


def test_wrong_build_is_refused(twins, built):
    done = twins("exec", "ft", "true", FT_PYTHON=built("gil"), status=2)
    assert (
        "FT_PYTHON" in done.stderr
        and "with-GIL build" in done.stderr
        and "a free-threaded CPython" in done.stderr
    )
    done = twins("exec", "gil", "true", GIL_PYTHON=built("ft"), status=2)
    assert "GIL_PYTHON" in done.stderr and "a with-GIL CPython" in done.stderr


@pytest.fixture
def claims(tmp_path):
    """A program that answers as CPython of a series would, since no interpreter of other series can
    be had here.
    """

    def make(series, free_threaded=True):
        facts = {
            "implementation": "CPython",
            "series": series,
            "version": f"{series}.0",
            "free_threaded": free_threaded,
            "pgo": True,
            "build": "",
        }
        program = tmp_path / f"python{series}"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(facts)}'\n")
        program.chmod(0o755)
        return str(program)

    return make


def test_the_series_is_that_of_the_own_interpreter(twins, built, claims):
    # The other twin has to be of the same series, without PYTHON_SERIES.
    done = twins("exec", "ft", "true", FT_PYTHON=claims("3.14"), GIL_PYTHON=built("gil"), status=2)
    assert "GIL_PYTHON=" in done.stderr and "a with-GIL CPython 3.14" in done.stderr
    done = twins("exec", "ft", "true", FT_PYTHON=claims("3.14"), PYTHON_SERIES="3.13", status=2)
    assert "it must be a free-threaded CPython 3.13 (PYTHON_SERIES=3.14" in done.stderr


def test_a_series_without_wheels_is_refused_with_what_shows_them(twins, claims):
    for variables in ({"FT_PYTHON": claims("3.15")}, {"PYTHON_SERIES": "3.15"}):
        done = twins("exec", "ft", "true", **variables, status=2)
        assert (
            "3.15" in done.stderr and "info --requirements docker/requirements.lock" in done.stderr
        )


def test_wrong_version_is_refused(twins, built):
    done = twins("exec", "ft", "true", FT_PYTHON=built("ft"), PYTHON_SERIES="3.14", status=2)
    assert (
        "3.13." in done.stderr
        and "CPython 3.14" in done.stderr
        and "PYTHON_SERIES=3.13" in done.stderr
    )


@pytest.mark.parametrize("program", ["/nonexistent/python3.13t", "true", "false"])
def test_what_is_no_python_is_refused(twins, program):
    done = twins("exec", "ft", "true", FT_PYTHON=program, status=2)
    assert f"FT_PYTHON={program}" in done.stderr and "CPython 3.13" in done.stderr


def test_own_interpreter_is_used(small_copy, shell_environment, built, new_cache):
    python = built("ft")
    variables = {**shell_environment, "FT_PYTHON": python, "XDG_CACHE_HOME": str(new_cache)}

    def run(*command):
        return completed([small_copy / "twins", "exec", "ft", *command], env=variables, status=0)

    code = "import sys; print(sys._base_executable, sys.prefix); import ftrun, numpy"
    executable, prefix = run("python", "-c", code).stdout.split()
    assert executable == python
    # In a new environment: the user's interpreter stays unchanged.
    assert prefix.startswith(str(new_cache))
    assert not (new_cache / "ft-twins" / "interpreters").exists()
    assert run("true").stderr == ""


def test_virtual_environment_of_another_python_is_no_twin(twins, tmp_path):
    system = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if system is None:
        pytest.skip("this machine has no Python other than the twins")
    version = completed([system, "--version"], check=True).stdout.split()[1]
    if version.startswith("3.13."):
        pytest.skip(f"this machine's own Python is {version}")
    done = twins("exec", "gil", "true", GIL_PYTHON=system)
    assert done.returncode == 2 and version in done.stderr
