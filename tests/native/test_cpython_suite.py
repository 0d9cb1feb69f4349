"""CPython's own tests of what docker/patches changes and of threads, on the twins' interpreters."""

import os
import re
import subprocess

import pytest

from tests.checkout import CHECKOUT

TESTS = (
    "test_free_threading test_collections test_defaultdict test_deque test_dict test_functools test_gc test_importlib "
    "test_list test_logging test_memoryio test_queue test_set test_ssl test_thread test_threading test_weakref"
).split()
EXPECTED = CHECKOUT / "tests" / "native" / "cpython_failures.txt"
SECONDS = 900  # for one test file


def expected(twin):
    """The test files that fail on this twin."""
    lines = [line for line in EXPECTED.read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"(both|ft|gil)\s+test_\w+\s+\S.*", line) for line in lines)
    return {name for which, name, _ in (line.split(None, 2) for line in lines) if which in (twin, "both")}


@pytest.mark.long(reason="takes ten minutes per twin")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("twin", ["ft", "gil"])
def test_cpython_suite(twins, cache, twin, tmp_path):
    asked = twins(
        "exec", twin, "python", "-c", "import sys, platform as p; print(sys._base_executable, p.python_version())"
    )
    python, version = asked.stdout.split()
    sources = [path for path in cache.glob("source/*/cpython") if version in (path.parent / "version").read_text()]
    if not sources:
        pytest.skip(f"the cache holds no source of {version}")
    # The twins install no tests. In an environment of their own, they are found in isolated mode too.
    subprocess.run([python, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    (packages,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    (packages / "test").symlink_to(sources[-1] / "Lib" / "test")
    done = subprocess.run(
        [
            *("env", "--default-signal=INT", tmp_path / "environment" / "bin" / "python", "-m", "test", "-j1", "-w"),
            *("--timeout", str(SECONDS), "-u", "all,-network,-urlfetch,-gui,-walltime", "--tempdir", tmp_path, *TESTS),
        ],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (CHECKOUT / "results").mkdir(exist_ok=True)
    (CHECKOUT / "results" / f"cpython-tests-{twin}.log").write_text(done.stdout)
    result = done.stdout.rpartition("== Tests result")[2]
    assert f"run={len(TESTS)}" in result, done.stdout[-5000:]
    failed = set(re.findall(r"test_\w+", "".join(re.findall(r"tests? failed:\n((?: {4}.*\n)+)", result))))
    assert failed == expected(twin), done.stdout[-8000:]
