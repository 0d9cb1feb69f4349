"""Every command block of the README, run from a copy of the checkout as a user would type it.

A block runs as it stands, or with the stated addition where a full run would take many minutes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from PIL import Image

from tests.checkout import CHECKOUT

README = (CHECKOUT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)
pytestmark = pytest.mark.timeout(3600)  # the first test that needs the images builds them

# What is added to a line of the README, so that its commands are not measured in full here
# (test_compose.py measures `docker compose run --rm ft-bench --quick` in full).
ONE_ROUND = " --rounds 1 --workers 1 --batch-size 16"
ADDED = {
    "docker compose run --rm ft-bench": " --quick" + ONE_ROUND + " --configs gil",
    "./twins bench --quick": ONE_ROUND + " --configs ft",
    "./twins bench --quick --data ~/photos": ONE_ROUND + " --configs ft",
    "DATA=~/photos docker compose run --rm ft-bench --quick --data /data": ONE_ROUND + " --configs gil",
    # --quick also because the default wants optimised builds, which these tests do not wait for.
    "./twins bench pillow --workers 1,2 --rounds 3 --batch-size 64 --out /tmp/results": " --quick"
    + ONE_ROUND
    + " --configs ft",
    "./twins bench peers --workers 2 --budget 1500": " --quick" + ONE_ROUND + " --configs ft",
}


@pytest.fixture
def clone(tmp_path):
    """The files of the checkout in a directory of their own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    directory = tmp_path / "ft-env"
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).exists():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, target)
    # What docker/revision reads: the images that are built from here are those of the other tests.
    for name in ("HEAD", "packed-refs", "refs/heads"):
        source, target = CHECKOUT / ".git" / name, directory / ".git" / name
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return directory


@pytest.fixture
def home(tmp_path):
    """A home directory with some photographs, of several sizes."""
    photos = tmp_path / "home" / "photos"
    photos.mkdir(parents=True)
    for number in range(20):
        Image.effect_noise((640 + 10 * (number % 3), 408), 60).convert("RGB").save(photos / f"{number}.jpg")
    return tmp_path / "home"


@pytest.fixture
def shell(clone, home, shell_environment):
    """Runs a block in bash, from the clone, with what `./twins` built already."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    variables = {**shell_environment, "HOME": str(home), "XDG_CACHE_HOME": cache}

    def run(block, **more):
        return subprocess.run(
            ["bash", "-ec", block],
            cwd=clone,
            env={**variables, **more},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=900,
        )

    return run


def lines(block):
    return block.strip().splitlines()


def adapted(block):
    return "\n".join(line + ADDED.get(line, "") for line in lines(block))


def needs_docker(block):
    return "docker " in block or "docker/" in block


def check(done):
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_additions_are_for_commands_that_the_readme_holds():
    every = {line for block in BLOCKS for line in lines(block)}
    assert set(ADDED) <= every


@pytest.mark.parametrize(
    "block",
    [
        block
        for block in BLOCKS
        if "./twins" in block and "./twins repro" not in block and lines(block) != ["./twins test"]
    ],
)
def test_twins_blocks(shell, clone, block, request):
    if needs_docker(block):
        request.getfixturevalue("images")
    out = check(shell(adapted(block)))
    if "bench" in block and "--out" not in block:
        assert json.loads((clone / "results" / "latest" / "results.json").read_text())["status"] == "complete"
    elif "bench" not in block:
        assert "False" in out and "GIL" in out  # exec prints the GIL's state, info a page


def test_repro_blocks(shell, clone, request):
    blocks = [block for block in BLOCKS if "./twins repro" in block or "ft-repro" in block]
    assert len(blocks) == 2
    (clone / "results").mkdir(exist_ok=True)
    request.getfixturevalue("images")
    try:
        for block in blocks:
            done = shell(block)
            assert done.returncode == 10, f"{done.stdout}\n{done.stderr}"  # fails only without the GIL
            assert "**Fails only without the GIL" in done.stdout
    finally:
        shell("docker compose down --volumes")


def test_the_test_command_is_the_one_that_runs_this():
    assert "```sh\n./twins test\n```" in README
    assert (CHECKOUT / ".ci" / "run").read_text().rstrip().endswith("\n./twins test")


def test_main_command(shell, images, clone):
    (block,) = [block for block in BLOCKS if lines(block) == ["docker compose run --rm ft-bench"]]
    try:
        check(shell(adapted(block)))
        assert json.loads((clone / "results" / "latest" / "results.json").read_text())["status"] == "complete"
    finally:
        shell("docker compose down --volumes")


def test_image_block(shell, images):
    (block,) = [block for block in BLOCKS if "docker run -it" in block]
    interactive, info = lines(block)
    # -it needs a terminal, which script(1) gives it.
    if shutil.which("script") is None:
        pytest.skip("script(1) is not installed")
    shown = check(shell(f"printf 'exit()\\n' | script -qec '{interactive}' /dev/null"))
    assert "the GIL is OFF" in shown
    assert "torch" in check(shell(info))


def test_gpu_block(engine, shell, images):
    (block,) = [block for block in BLOCKS if "compose.gpu.yaml" in block]
    if "nvidia" not in engine.info().get("Runtimes", {}):
        pytest.skip("no GPU: the Docker engine has no NVIDIA runtime")
    assert "GPU" in check(shell(block))


def test_closed_network_block(shell, images, shell_environment):
    (block,) = [block for block in BLOCKS if "docker/base-image" in block]
    status = subprocess.run([CHECKOUT / "docker" / "engine", "status"], env=shell_environment, capture_output=True)
    if status.returncode:
        pytest.skip("this machine has a Docker engine of its own; a second, private one is not started beside it")
    if os.environ.get("BASE_IMAGE") != "ft-base:trixie":
        pytest.skip("the images under test are built on another base, and building them twice takes too long")
    check(shell(block))


def test_pip_install_block(shell, clone, tmp_path):
    (block,) = [block for block in BLOCKS if "pip install ." in block]
    # An interpreter of one's own, which has the dependencies already, so that no gigabytes are downloaded.
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    path = f"{own / 'bin'}{os.pathsep}{os.environ['PATH']}"
    site = subprocess.run(
        [own / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    packages = Path(sysconfig.get_path("purelib"))
    names = [str(packages), *(packages / "cuda-libraries.pth").read_text().split()]
    (Path(site) / "dependencies.pth").write_text("\n".join(names) + "\n")
    check(shell(block, PATH=path))
    done = subprocess.run(
        [own / "bin" / "python", "-c", "import ftloader; print(ftloader.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": path},
    )
    assert str(own) in check(done)
    listed = subprocess.run(
        [own / "bin" / "ft-bench", "--list"], cwd=tmp_path, capture_output=True, text=True, env={"PATH": path}
    )
    assert "pillow" in check(listed)


def test_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (CHECKOUT / target).exists(), target


def test_every_block_is_run():
    """Each block of the README belongs to one of the tests above."""
    covered = [
        block
        for block in BLOCKS
        if "./twins" in block
        or "docker run -it" in block
        or "compose.gpu.yaml" in block
        or "docker/base-image" in block
        or "ft-repro" in block
        or "pip install ." in block
        or lines(block) == ["docker compose run --rm ft-bench"]
    ]
    assert covered == BLOCKS and len(BLOCKS) >= 10
