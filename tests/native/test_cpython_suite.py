"""CPython's own test suite on the twins' interpreters."""

import os
import re
import shutil
import subprocess

import pytest

from tests.checkout import CHECKOUT

EXPECTED = CHECKOUT / "tests" / "native" / "cpython_failures.txt"
# Without tests that need a network, a screen or gigabytes,
# that take hours, or that depend on the clock.
RESOURCES = "all,-network,-urlfetch,-gui,-largefile,-cpu,-walltime"
SECONDS = 1800  # for one test file


def expected(twin):
    """Return the test files that fail on this twin."""
    lines = [line for line in EXPECTED.read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"(both|ft|gil)\s+test[_.\w]+\s+\S.*", line) for line in lines)
    return {
        name
        for which, name, _ in (line.split(None, 2) for line in lines)
        if which in (twin, "both")
    }


@pytest.mark.long(reason="takes half an hour per twin")
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("twin", ["ft", "gil"])
def test_cpython_suite(twins, cache, twin, tmp_path):
    asked = twins(
        "exec",
        twin,
        "python",
        "-c",
        "import sys, platform as p; print(sys.base_prefix, p.python_version())",
    )
    prefix, version = asked.stdout.split()
    sources = [
        path
        for path in cache.glob("source/*/cpython")
        if version in (path.parent / "version").read_text()
    ]
    if not sources:
        pytest.skip(f"the cache holds no source of {version}")
    # The twins install no tests, so a copy of the interpreter gets them.
    shutil.copytree(prefix, tmp_path / "python", symlinks=True)
    (library,) = (tmp_path / "python" / "lib").glob("python3.*/")
    shutil.copytree(sources[-1] / "Lib" / "test", library / "test")
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [
            *("env", "--default-signal=INT", tmp_path / "python" / "bin" / "python3", "-m", "test"),
            *(
                "-j0",
                "-w",
                "--timeout",
                str(SECONDS),
                "-u",
                RESOURCES,
                "--tempdir",
                tmp_path / "work",
            ),
            # Some machines have the sockets of virtual machines, and no device behind them.
            *("-i", "*VSOCK*"),
        ],
        env={
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(tmp_path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (CHECKOUT / "results").mkdir(exist_ok=True)
    (CHECKOUT / "results" / f"cpython-tests-{twin}.log").write_text(done.stdout)
    result = done.stdout.rpartition("== Tests result")[2]
    ran = re.search(r"Total test files: run=(\d+)/", result)
    assert ran and int(ran[1]) > 450, done.stdout[-5000:]
    failed = set(
        re.findall(r"test[_.\w]+", "".join(re.findall(r"tests? failed:\n((?: {4}.*\n)+)", result)))
    )
    assert failed == expected(twin), done.stdout[-8000:]
