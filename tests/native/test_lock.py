"""The lock serves the four interpreters: 3.13, 3.13t, 3.14, 3.14t, on x86-64 and Arm."""

import subprocess
import sys

import pytest

from tests.checkout import CHECKOUT, locked
from tests.programs import completed

DOCKER = CHECKOUT / "docker"


@pytest.fixture(scope="module")
def uv(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uv")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    subprocess.run(
        [directory / "bin" / "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", DOCKER / "uv.lock"],
        check=True,
    )
    return directory / "bin" / "uv"


def test_every_pin_has_a_hash():
    pins = hashes = 0
    for line in (DOCKER / "requirements.lock").read_text().splitlines():
        if line and line[0].isalnum():
            assert pins == 0 or hashes > 0, f"no hash before {line}"
            pins, hashes = pins + 1, 0
        elif "--hash=sha256:" in line:
            hashes += 1
    assert pins > 40 and hashes


@pytest.mark.parametrize("platform", ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28"])
@pytest.mark.parametrize("version", ["3.13", "3.14"])
@pytest.mark.parametrize("twin", ["ft", "gil"])
def test_wheels_exist_for_every_pin(output_of, uv, twin, version, platform, tmp_path):
    # uv takes the ABI, free-threaded or not, from the interpreter, and the version from the option. So two interpreters
    # stand for four. Only metadata is downloaded.
    python = output_of(twin, "import sys; print(sys.executable)")
    which = ["--python", python, "--python-version", version, "--python-platform", platform]
    how = ["--dry-run", "--no-config", "--no-deps", "--require-hashes", "--no-build", "--target", tmp_path]
    done = completed([uv, "pip", "install", *which, *how, "-r", DOCKER / "requirements.lock"], status=0)
    assert f"torch=={locked('torch')}" in done.stderr + done.stdout
