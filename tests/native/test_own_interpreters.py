"""FT_PYTHON and GIL_PYTHON: accepted, checked, used."""

import hashlib
import json
import shutil
import zipfile

import pytest

from tests.checkout import locked
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


@pytest.fixture
def torch_index(small_copy, tmp_path):
    """Make a package index with wheels that have the names of the locked torch and torchvision, and
    their versions for CPUs alone, and lock both in `small_copy`. Returns the index's address.
    PyTorch's own index is not reached everywhere.
    """
    wheels = [_wheel(tmp_path / "index" / name, name) for name in ("torch", "torchvision")]
    with open(small_copy / "docker" / "requirements.lock", "a") as lock:
        for wheel in wheels:
            name = wheel.parent.name
            lock.write(f"{name}=={locked(name)} \\\n    --hash=sha256:{'0' * 64}\n")

    def publish(is_right):
        for wheel in wheels:
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest() if is_right else "0" * 64
            link = f"{wheel.name.replace('+', '%2B')}#sha256={digest}"
            (wheel.parent / "index.html").write_text(f'<a href="{link}">{wheel.name}</a>')
        return (tmp_path / "index").as_uri()

    return publish


def _wheel(folder, name):
    """Make a wheel without content in a folder, and return its path."""
    folder.mkdir(parents=True)
    version = f"{locked(name)}+cpu"
    metadata = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "",
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{metadata}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{metadata}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return wheel


def test_twins_without_cuda(small_copy, shell_environment, built, new_cache, torch_index):
    variables = {
        **shell_environment,
        "FT_PYTHON": built("ft"),
        "XDG_CACHE_HOME": str(new_cache),
        "CUDA": "no",
    }

    def run(address, status):
        code = (
            "from importlib.metadata import distributions; "
            "print(*(f'{d.name}=={d.version}' for d in distributions()))"
        )
        command = [small_copy / "twins", "exec", "ft", "python", "-c", code]
        return completed(command, status, env={**variables, "TORCH_INDEX_URL": address})

    # a wheel that is not the one of the index
    done = run(torch_index(is_right=False), status=1)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert "TORCH_INDEX_URL names a mirror" in done.stderr
    packages = run(torch_index(is_right=True), status=0).stdout.split()
    assert {f"{name}=={locked(name)}+cpu" for name in ("torch", "torchvision")} <= {*packages}
    assert not [package for package in packages if package.startswith("nvidia-")]
    (environment,) = (new_cache / "ft-twins" / "environments").iterdir()
    assert environment.name.endswith("-cpu")


def test_cuda_is_yes_or_no(twins):
    assert "CUDA=off: must be yes or no" in twins("exec", "ft", "true", CUDA="off", status=2).stderr


def test_virtual_environment_of_another_python_is_no_twin(twins, tmp_path):
    system = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if system is None:
        pytest.skip("this machine has no Python other than the twins")
    version = completed([system, "--version"], check=True).stdout.split()[1]
    if version.startswith("3.13."):
        pytest.skip(f"this machine's own Python is {version}")
    done = twins("exec", "gil", "true", GIL_PYTHON=system)
    assert done.returncode == 2 and version in done.stderr
