"""Modules that turn the GIL on, next to the dataset's file."""

import sys
import sysconfig

import pytest

from ftrun import imports
from ftrun.configurations import this_twin
from tests.checkout import importable
from tests.extension_modules import compiled
from tests.programs import completed

SOURCE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "decoder", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_decoder(void) { return PyModule_Create(&module); }
"""


@pytest.mark.skipif(this_twin() == "gil", reason="the GIL is always on in this build")
@pytest.mark.slow
def test_an_extension_module_next_to_the_datasets_file(tmp_path):
    compiled(SOURCE, tmp_path / f"decoder{sysconfig.get_config_var('EXT_SUFFIX')}")
    (tmp_path / "data.py").write_text("import decoder\ndataset = [1, 2, 3]\n")
    command = [
        sys.executable,
        "-m",
        "ftsafety.audit",
        f"{tmp_path}/data.py:dataset",
        "--seconds",
        "0.1",
    ]
    done = completed(command, env={"PYTHONPATH": importable()}, status=1)
    assert "importing decoder turns the GIL back on" in done.stdout
    assert f"{tmp_path}/data.py:1  import decoder" in done.stdout
    (verdict,) = imports.judge_modules([("data", "1", ["data"], [])], 600, [str(tmp_path)])
    assert verdict.turned_gil_on and verdict.turned_on_at == "data, line 1: import decoder"
