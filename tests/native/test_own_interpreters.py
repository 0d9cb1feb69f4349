"""FT_PYTHON and GIL_PYTHON: accepted, checked, used."""

import shutil

import pytest

from tests.programs import completed


@pytest.fixture
def built(output_of):
    """The interpreter below each twin's environment."""
    return lambda twin: output_of(twin, "import sys; print(sys._base_executable)")


def test_wrong_build_is_refused(twins, built):
    done = twins("exec", "ft", "true", FT_PYTHON=built("gil"), status=2)
    assert "FT_PYTHON" in done.stderr and "with-GIL build" in done.stderr and "a free-threaded CPython" in done.stderr
    done = twins("exec", "gil", "true", GIL_PYTHON=built("ft"), status=2)
    assert "GIL_PYTHON" in done.stderr and "a with-GIL CPython" in done.stderr


def test_wrong_version_is_refused(twins, built):
    done = twins("exec", "ft", "true", FT_PYTHON=built("ft"), PYTHON_SERIES="3.14", status=2)
    assert "3.13." in done.stderr and "CPython 3.14" in done.stderr and "PYTHON_SERIES=3.13" in done.stderr


@pytest.mark.parametrize("program", ["/nonexistent/python3.13t", "true", "false"])
def test_what_is_no_python_is_refused(twins, program):
    done = twins("exec", "ft", "true", FT_PYTHON=program, status=2)
    assert f"FT_PYTHON={program}" in done.stderr and "CPython 3.13" in done.stderr


def test_own_interpreter_is_used(twins, built, new_cache):
    python = built("ft")
    code = "import sys; print(sys._base_executable, sys.prefix); import ftloader"
    done = twins("exec", "ft", "python", "-c", code, FT_PYTHON=python, XDG_CACHE_HOME=str(new_cache), status=0)
    executable, prefix = done.stdout.split()
    assert executable == python
    # In a new environment: the user's interpreter stays unchanged.
    assert prefix.startswith(str(new_cache))
    assert not (new_cache / "ft-twins" / "interpreters").exists()
    again = twins("exec", "ft", "true", FT_PYTHON=python, XDG_CACHE_HOME=str(new_cache))
    assert again.returncode == 0 and again.stderr == ""


def test_virtual_environment_of_another_python_is_no_twin(twins, tmp_path):
    system = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if system is None:
        pytest.skip("this machine has no Python other than the twins")
    version = completed([system, "--version"], check=True).stdout.split()[1]
    if version.startswith("3.13."):
        pytest.skip(f"this machine's own Python is {version}")
    done = twins("exec", "gil", "true", GIL_PYTHON=system)
    assert done.returncode == 2 and version in done.stderr
