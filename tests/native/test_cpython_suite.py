"""CPython's own tests, from the source that the twins were built from, on the twins' interpreters."""

import os
import re
import subprocess

import pytest

from tests.checkout import CHECKOUT

EXPECTED = CHECKOUT / "tests" / "native" / "cpython_failures.txt"
RESOURCES = "all,-network,-urlfetch,-gui,-audio,-largefile,-extralargefile,-tzdata"
SECONDS = 600  # for one test file


def expected(twin):
    """{test file: why it fails} for this twin."""
    lines = [line for line in EXPECTED.read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"(both|ft|gil)\s+test_\w+(\.\w+)*\s+\S.*", line) for line in lines)
    return {name: why for which, name, why in (line.split(None, 2) for line in lines) if which in (twin, "both")}


@pytest.mark.long(reason="takes half an hour per twin")
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("twin", ["ft", "gil"])
def test_cpython_suite(twins, cache, twin, tmp_path, shell_environment):
    asked = twins(
        "exec", twin, "python", "-c", "import sys, platform as p; print(sys._base_executable, p.python_version())"
    )
    python, version = asked.stdout.split()
    sources = [path for path in cache.glob("source/*/cpython") if version in (path.parent / "version").read_text()]
    assert sources, f"the cache holds no source of {version}"
    # The twins install no tests: they are found beside the standard library through this path.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "test").symlink_to(sources[0] / "Lib" / "test")
    # Some tests fail where SIGINT is ignored, or where a variable of uv or pip is set.
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [
            *("env", "--default-signal=INT", python, "-m", "test", "-j", str(os.cpu_count()), "-w"),
            *("--timeout", str(SECONDS), "-u", RESOURCES, "--tempdir", str(tmp_path)),
        ],
        env={**variables, "PYTHONPATH": str(tmp_path / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (CHECKOUT / "results").mkdir(exist_ok=True)
    (CHECKOUT / "results" / f"cpython-tests-{twin}.log").write_text(done.stdout)
    summary = done.stdout.rpartition("== Tests result")[2]
    failed = set(re.findall(r"test_\w+(?:\.\w+)*", "".join(re.findall(r"tests? failed:\n((?: {4}.*\n)+)", summary))))
    assert "Total tests: run=" in summary, done.stdout[-5000:]
    assert failed == set(expected(twin)), done.stdout[-8000:]
