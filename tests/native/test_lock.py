"""The lock serves the four interpreters: 3.13, 3.13t, 3.14, 3.14t, on x86-64 and Arm."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ftrun.wheels.index import Index
from ftrun.wheels.judge import Answer, judge
from ftrun.wheels.requirements import read
from tests.checkout import CHECKOUT, locked
from tests.programs import completed

DOCKER = CHECKOUT / "docker"
BUILT = {"requirements.lock": (), "notebook.lock": ("pyyaml", "tornado")}
"""The lock files of the environments, with the packages
that are built from source, because 3.13t has no wheel of them.
"""
each_lock = pytest.mark.parametrize("lock", BUILT)


@pytest.fixture(scope="module")
def uv(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uv")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    subprocess.run(
        [
            directory / "bin" / "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "-r",
            DOCKER / "uv.lock",
        ],
        check=True,
    )
    return directory / "bin" / "uv"


@pytest.mark.parametrize("platform", ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28"])
@pytest.mark.parametrize("version", ["3.13", "3.14"])
@pytest.mark.parametrize("twin", ["ft", "gil"])
@each_lock
@pytest.mark.slow
def test_wheels_exist_for_every_pin(output_of, uv, lock, twin, version, platform, tmp_path):
    # uv takes the ABI, free-threaded or not, from the interpreter, and the version from the option.
    # So two interpreters stand for four. Only metadata is downloaded.
    python = output_of(twin, "import sys; print(sys.executable)")
    which = ["--python", python, "--python-version", version, "--python-platform", platform]
    how = [
        "--dry-run",
        "--no-config",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        *(f"--no-binary={name}" for name in BUILT[lock]),
        "--target",
        tmp_path,
    ]
    done = completed([uv, "pip", "install", *which, *how, "-r", DOCKER / lock], status=0)
    some = {"requirements.lock": "torch", "notebook.lock": "ipykernel"}[lock]
    assert f"{some}=={locked(some, lock)}" in done.stderr + done.stdout


@each_lock
@pytest.mark.slow
def test_no_locked_wheel_says_that_it_needs_the_gil(lock):
    # Of the wheels that an installer may take by the lock's hashes, their directories and extension
    # modules are fetched. NVIDIA's other packages hold CUDA's libraries, which know nothing of
    # Python.
    packages = [
        package
        for package in read([str(DOCKER / lock)]).locked
        if package.requirement.name not in BUILT[lock]
        and (
            not package.requirement.name.startswith("nvidia-")
            or "nvimgcodec" in package.requirement.name
        )
    ]
    assert len(packages) > 40 and all(package.hashes for package in packages)
    with ThreadPoolExecutor(8) as pool:
        reports = list(
            pool.map(lambda package: judge(package, Index(), ("3.13t", "3.14t")), packages)
        )
    wrong = [
        (report.requirement, series, finding)
        for report in reports
        for series, finding in report.findings.items()
        if finding.answer not in (Answer.PURE, Answer.OFF, Answer.UNKNOWN)
    ]
    assert not wrong
    assert not [report for report in reports if report.error]
    answers = {finding.answer for report in reports for finding in report.findings.values()}
    assert Answer.OFF in answers  # extension modules were read
