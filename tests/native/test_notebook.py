"""The notebook of examples/, executed in each twin
with the packages that docker/install-notebook installs.
"""

import json
import re

import pytest

from native.build import TWINS
from tests.checkout import CHECKOUT

pytestmark = pytest.mark.slow

NOTEBOOK = CHECKOUT / "examples" / "notebook" / "workers_and_augmentation.ipynb"
EXECUTE = """
import nbclient, nbformat, sys
source, target = sys.argv[1:]
notebook = nbformat.read(source, 4)
(settings,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
settings.source += "\\nIMAGES, WORKERS, PASSES, BATCH = 16, [0, 2], 2, 8"
nbclient.NotebookClient(notebook, timeout=300).execute()
nbformat.write(notebook, target)
"""


@pytest.fixture(scope="module")
def notebook_folders():
    return {}


@pytest.fixture
def packages(twins, notebook_folders, tmp_path_factory):
    """Return ``packages(twin)``, the folder that has the notebook's packages for this twin."""

    def packages(twin):
        if twin not in notebook_folders:
            folder = tmp_path_factory.mktemp("notebook") / twin
            install = CHECKOUT / "docker" / "install-notebook"
            twins("exec", twin, install, "python", folder, status=0)
            (notebook_folders[twin],) = folder.glob("lib/python*/site-packages")
        return notebook_folders[twin]

    return packages


@pytest.fixture
def execute(twins, packages, tmp_path):
    """Return ``execute(twin, *folders)``: execute the notebook with these folders first on the
    module path. Return the outputs of its code cells by the cells' ids.
    """

    def execute(twin, *folders):
        target = tmp_path / "executed.ipynb"
        path = ":".join(map(str, (*folders, packages(twin))))
        command = ["python", "-c", EXECUTE, NOTEBOOK, target]
        twins("exec", twin, *command, status=0, PYTHONPATH=path)
        cells = json.loads(target.read_text())["cells"]
        return {cell["id"]: cell["outputs"] for cell in cells if cell["cell_type"] == "code"}

    return execute


def printed(outputs):
    return "".join("".join(output.get("text", "")) for output in outputs)


def has_picture(outputs):
    return any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize(
    ("twin", "state", "workers"),
    [("ft", "OFF", "threads"), ("gil", "ON", "processes")],
)
def test_the_notebook_runs(execute, twin, state, workers):
    outputs = execute(twin)
    assert f"the GIL is {state}" in printed(outputs["python"])
    assert f"workers are {workers}" in printed(outputs["python"])
    rates = re.findall(
        r"^(\w+), +(\d+) workers: +\d+ ± \d+ images/s$", printed(outputs["measure"]), re.M
    )
    assert rates == [(name, number) for name in ("light", "heavy") for number in "02"]
    assert has_picture(outputs["batch"]) and has_picture(outputs["chart"])


def test_without_matplotlib_the_chart_says_so(execute, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not installed')\n")
    outputs = execute("gil", tmp_path)
    assert "The chart needs matplotlib" in printed(outputs["chart"])
    assert has_picture(outputs["batch"]) and not has_picture(outputs["chart"])


def test_the_notebook_is_kept_without_outputs():
    code = [
        cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    assert code and all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("twin", TWINS)
def test_every_package_leaves_the_gil_as_it_is(twins, packages, twin):
    lock = CHECKOUT / "docker" / "notebook.lock"
    check = ["-m", "ftrun.info", "--verify", "--expect", twin, "--lock", lock]
    twins("exec", twin, "python", *check, status=0, PYTHONPATH=str(packages(twin)))
