"""An image derived from each twin, by the recipe of docs/benchmark.md: every user of the container
has its package.
"""

import os
import re
import shlex
import zipfile

import pytest

from tests.checkout import CHECKOUT
from tests.images.compose_project import Project
from tests.markdown_files import code_blocks
from tests.programs import completed

pytestmark = pytest.mark.timeout(3600)  # the first test builds the images

RECIPE = (CHECKOUT / "docs" / "benchmark.md").read_text()
BUILDS = re.findall(r"`(docker build -t [^`]+)`", RECIPE)
(FT_IMAGE, GIL_IMAGE) = re.search(r"`FT_IMAGE=(\S+) GIL_IMAGE=(\S+)`", RECIPE).groups()
# The engine may have no network: pip finds the package in a folder of the twin's image.
WITH_WHEEL = """
FROM {twin}
USER root
COPY my_package-1.0-py3-none-any.whl /wheels/
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
USER ft
"""
DATASET = "import my_package\ntrain_set = my_package.SAMPLES\n"


def write_wheel(folder):
    """Write my_package-1.0, which has a list of samples."""
    about = "my_package-1.0.dist-info"
    files = {
        "my_package.py": "SAMPLES = list(range(100))\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(folder / "my_package-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.fixture(scope="module")
def derived(engine, images, shell_environment, tmp_path_factory):
    """The derived images, built as the document says; returns the variables that name them."""
    made = []
    contexts = []
    for twin in images:
        folder = tmp_path_factory.mktemp(twin)
        write_wheel(folder)
        (folder / "Dockerfile").write_text(WITH_WHEEL.format(twin=f"{twin}-env"))
        made.append(f"ft-env-test-{twin}-wheel")
        completed(["docker", "build", "-t", made[-1], folder], 0, env=shell_environment)
        contexts += ["--build-context", f"{twin}-env=docker-image://{made[-1]}"]
    folder = tmp_path_factory.mktemp("derived")
    (recipe,) = code_blocks(RECIPE, "dockerfile")
    (folder / "Dockerfile").write_text(recipe)
    for command in BUILDS:
        build = [*shlex.split(command), *contexts]
        completed(build, 0, cwd=folder, env=shell_environment)
    yield {"FT_IMAGE": FT_IMAGE, "GIL_IMAGE": GIL_IMAGE}
    for name in (FT_IMAGE, GIL_IMAGE, *made):
        engine.images.remove(name, force=True)


@pytest.mark.parametrize("owner", [0, 1000, 1234])
def test_every_owner_of_the_results_has_the_package(
    derived, images, shell_environment, tmp_path, owner
):
    if os.geteuid() != 0:
        pytest.skip("only root can give results/ to another user")
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(DATASET)
    folder = tmp_path / "project"
    folder.mkdir()
    variables = {**shell_environment, **derived, "CODE": str(code)}
    project = Project(folder, variables, owner)
    try:
        least = "--quick --rounds 1 --workers 1 --batch-size 16"
        project.run("ft-bench", "--dataset", "train.py:train_set", *least.split(), status=0)
        assert (project.results / "latest").resolve().stat().st_uid == owner
    finally:
        project.down()


def test_without_the_package_the_recipe_is_named(project, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(DATASET)
    project.environment = {**project.environment, "CODE": str(code)}
    done = project.run("ft-bench", "--dataset", "train.py:train_set", "--quick")
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "No module named 'my_package'; derive an image" in said and "docs/benchmark.md" in said
