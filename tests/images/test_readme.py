"""Every command block of README and docs, run from a copy of the checkout as a user would type it.

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
from tests.markdown_files import code_blocks
from tests.programs import completed, copy_checkout, make_environment

# The same command may stand in several texts: it runs once, where it stands first.
DOCUMENTS = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
    *sorted((CHECKOUT / "docs/tutorials").glob("*.md")),
    CHECKOUT / "loader" / "README.md",
    CHECKOUT / "repro" / "README.md",
]


def lines(block):
    return block.strip().splitlines()


def blocks_to_run(texts):
    """Return the blocks of all texts, without lines of earlier blocks."""
    seen, blocks = set(), []
    for text in texts:
        for block in code_blocks(text, "sh"):
            new = [line for line in lines(block) if line not in seen]
            seen.update(new)
            if new:
                blocks.append("\n".join(new))
    return blocks


BLOCKS = blocks_to_run(document.read_text() for document in DOCUMENTS)

# Blocks that no test here runs, with the reason.
NOT_RUN = {
    "./twins test": "it is what runs this test",
    "python -m ftloader train.py --epochs 3\n"
    "python -m ftloader --workers auto --report loaders.json -m my_package.train --epochs 3\n"
    "torchrun --nproc-per-node 4 -m ftloader train.py": (
        "programs of the reader's; tests/unit/loader/drop_in runs some like them"
    ),
    "docker compose up notebook": "it does not end; tests/images/test_notebook.py starts it",
    "./twins exec ft docker/install-notebook python results/notebook\n"
    "PYTHONPATH=$(echo $PWD/results/notebook/lib/*/site-packages) ./twins exec ft python -m jupyterlab": (
        "it does not end; tests/native/test_notebook.py installs the same"
    ),
    "./twins exec gil python -m pip install --target other-torch torch\n"
    "PYTHONPATH=$PWD/other-torch ./twins exec gil python -m pytest tests/unit/loader "
    "tests/conformance": ("it downloads gigabytes"),
}

# Arguments that are added to a line, so that as little as possible is measured: one of two
# workloads, for one.
ONE_ROUND = " --rounds 1 --workers 1 --batch-size 16 --budget 1"
ADDED = {
    # "text" needs no images, which a new volume would have to be filled with.
    "docker compose run --rm ft-bench": " text --quick" + ONE_ROUND + " --configs gil",
    "./twins bench --quick": " pillow" + ONE_ROUND + " --configs ft",
    "./twins bench --dataset train.py:train_set --quick": ONE_ROUND + " --configs ft",
    (
        "CODE=~/project DATA=~/photos docker compose run --rm ft-bench --dataset "
        "train.py:train_set --quick"
    ): ONE_ROUND + " --configs gil",
    "DATA=~/photos docker compose run --rm ft-bench --quick --data /data": " pillow"
    + ONE_ROUND
    + " --configs gil",
    "./twins bench --quick --again 5 --every 1h": " pillow --again 2 --every 1s"
    + ONE_ROUND
    + " --configs ft",
    "./twins bench --dataset train.py:train_set --why": " --quick --rounds 2",
    (
        "./twins bench --quick --command 'python examples/commands/mandelbrot.py pool {n}' "
        "--parameter n=1,2"
    ): " --rounds 1",
    # Options that tests/unit/bench measures with, are only parsed.
    "./twins bench --quick --data ~/photos": " --list",
    "./twins bench pillow --quick --ranks 2": " --list",
    "./twins bench pillow --workers 1,2 --rounds 3 --batch-size 64 --out /tmp/results": " --list",
    "./twins bench peers --workers 2 --budget 1500": " --list",
    "./twins audit docs/audit/zip_members.py:per_thread": " --seconds 1",
    "./twins exec gil python tests/libraries/run.py": " webdataset",
}

# What the last lines of an example say.
EXAMPLES = {
    "elastic_ranks.py": "each of the 512 once: True",
    "how_many_workers.py": 'num_workers="auto": ',
    "growing_cache.py": "epoch 11: ",
    "threads_or_processes.py": 'worker_method="process": ',
    "progress_line.py": "by 8 threads; the loop waited for data",
    "resume_after_kill.py": "each of the 200 once: True",
    "audit_dataset.py": "verdict: nothing was found that is unsafe",
}


def kind(block):
    """Return the kind of test below that runs the block, or None."""
    if block in NOT_RUN:
        return "not run"
    for part, name in (
        ("docker run -it", "image"),
        ("info --requirements", "packages"),
        ("compose.gpu.yaml", "gpu"),
        (".ci/base-image", "closed network"),
        ("exec ft python examples/", "example"),
        ("pip install", "install"),
        ("./twins repro", "repro"),
        ("run --rm ft-repro", "repro"),
        ("./twins audit", "audit"),
        ("./twins bench", "bench"),
        ("run --rm ft-bench", "bench"),
        ("tests/libraries", "libraries"),
        ("./twins exec", "environment"),
    ):
        if part in block:
            return name
    return None


def of_kind(name):
    return [block for block in BLOCKS if kind(block) == name]


@pytest.fixture
def clone(tmp_path):
    directory = copy_checkout(tmp_path / "ft-env")
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
        Image.effect_noise((640 + 10 * (number % 3), 408), 60).convert("RGB").save(
            photos / f"{number}.jpg"
        )
    (tmp_path / "home/project").mkdir()
    (tmp_path / "home/project/train.py").write_text("train_set = list(range(100))\n")
    return tmp_path / "home"


@pytest.fixture
def shell(clone, home, shell_environment):
    """Return what a block prints in bash, from the clone, with what `./twins` built already."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    variables = {**shell_environment, "HOME": str(home), "XDG_CACHE_HOME": cache}

    shutil.copy(home / "project/train.py", clone)

    def run(block, status=0, **more):
        return completed(
            ["bash", "-ec", block], status, cwd=clone, env={**variables, **more}
        ).stdout

    return run


def adapted(block):
    return "\n".join(line + ADDED.get(line, "") for line in lines(block))


@pytest.fixture
def run_block(shell, request):
    """Run a block like `shell`. If it needs Docker, build the images first,
    and remove containers afterwards.
    """
    ran = []

    def run_block(block, status=0):
        if "docker " in block or "docker/" in block:
            request.getfixturevalue("images")
            ran.append(block)
        return shell(adapted(block), status)

    yield run_block
    if ran:
        shell("docker compose down --volumes", None)


def test_additions_are_for_commands_that_the_texts_hold():
    every = {line for block in BLOCKS for line in lines(block)}
    assert set(ADDED) <= every
    assert set(NOT_RUN) <= set(BLOCKS)


def test_every_block_is_run():
    assert [block for block in BLOCKS if kind(block) is None] == []
    # A test without a block would pass without a check.
    assert all(
        map(of_kind, ("bench", "environment", "example", "packages", "libraries", "audit", "repro"))
    )


def test_a_command_runs_once():
    texts = ["```sh\na\nb\n```\n```python\nc\n```", "```sh\nb\nd\n```\n```sh\na\n```"]
    assert blocks_to_run(texts) == ["a\nb", "d"]


@pytest.mark.parametrize("block", of_kind("bench"))
def test_bench_blocks(run_block, clone, block):
    shown = run_block(block)
    if "--list" in adapted(block):
        assert "peers-memory" in shown
    elif "--why" in block:
        assert re.search(r"\d threads without the GIL are ", " ".join(shown.split()))
    else:
        assert (
            json.loads((clone / "results" / "latest" / "results.json").read_text())["status"]
            == "complete"
        )


@pytest.mark.parametrize("block", of_kind("environment"))
def test_environment_blocks(run_block, block):
    out = run_block(block)
    assert "False" in out and "GIL" in out  # exec prints the GIL's state, info a page


@pytest.mark.parametrize("block", of_kind("example"))
def test_example_blocks(run_block, block):
    shown = run_block(block)
    for program in re.findall(r"python examples/(\S+)", block):
        assert EXAMPLES[program] in shown


@pytest.mark.parametrize("block", of_kind("packages"))
def test_packages_blocks(run_block, block):
    first, second = lines(block)
    # Which status it is depends on the newest releases:
    # packages below torch have turned the GIL on.
    assert "torch==" in run_block(first, None)
    assert '"requirement": "numpy==' in run_block(second, None)


@pytest.mark.parametrize("block", of_kind("libraries"))
def test_libraries_blocks(run_block, block):
    assert " passed" in run_block(block)


@pytest.mark.parametrize("block", of_kind("audit"))
def test_audit_blocks(run_block, block):
    assert "nothing was found that is unsafe" in run_block(block)


@pytest.mark.parametrize("block", of_kind("repro"))
def test_repro_blocks(run_block, clone, block):
    (clone / "results").mkdir(exist_ok=True)
    assert "**Fails only without the GIL" in run_block(block, 10)


def test_the_test_command_is_the_one_that_runs_this():
    assert "./twins test" in BLOCKS
    steps = (CHECKOUT / ".ci" / "run").read_text().splitlines()
    assert "timeout --foreground --kill-after=300 4500 ./twins test" in steps


def test_image_block(shell, images):
    (block,) = of_kind("image")
    interactive, info = lines(block)
    # -it needs a terminal, which script(1) gives it.
    if shutil.which("script") is None:
        pytest.skip("script(1) is not installed")
    assert "the GIL is OFF" in shell(f"printf 'exit()\\n' | script -qec '{interactive}' /dev/null")
    assert "torch" in shell(info)


def test_gpu_block(engine, shell, images):
    (block,) = of_kind("gpu")
    if "nvidia" not in engine.info().get("Runtimes", {}):
        pytest.skip("no GPU: the Docker engine has no NVIDIA runtime")
    assert "GPU" in shell(block)


def test_closed_network_block(shell, images, shell_environment):
    (block,) = of_kind("closed network")
    status = subprocess.run(
        [CHECKOUT / ".ci" / "engine", "status"], env=shell_environment, capture_output=True
    )
    if status.returncode:
        pytest.skip(
            "this machine has a Docker engine of its own; no second, private one is started"
        )
    if os.environ.get("BASE_IMAGE") != "ft-base:trixie":
        pytest.skip(
            "the images under test are built on another base, and building them twice takes "
            "too long"
        )
    shell(block)


def test_install_blocks(shell, tmp_path):
    loader, everything = of_kind("install")
    own = tmp_path / "own"
    make_environment(own, sys.executable, sysconfig.get_path("purelib"))
    path = f"{own / 'bin'}{os.pathsep}{os.environ['PATH']}"
    shell(loader, PATH=path)
    code = "import ftloader; print(ftloader.__file__)"
    assert (
        str(own)
        in completed(
            [own / "bin" / "python", "-c", code], 0, cwd=tmp_path, env={"PATH": path}
        ).stdout
    )
    assert not (own / "bin" / "ft-bench").exists()
    shell(everything, PATH=path)
    assert (
        "pillow"
        in completed(
            [own / "bin" / "ft-bench", "--list"], 0, cwd=tmp_path, env={"PATH": path}
        ).stdout
    )
