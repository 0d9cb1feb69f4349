"""Modules that turn the GIL on, next to the dataset's file."""

import sys
import sysconfig

import pytest

from ftrun.configurations import this_twin
from ftsafety.audit import gil
from tests.checkout import importable
from tests.extension_modules import compiled
from tests.programs import completed

SOURCE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "decoder", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_decoder(void) { return PyModule_Create(&module); }
"""


@pytest.mark.skipif(this_twin() == "gil", reason="the GIL is always on in this build")
def test_an_extension_module_next_to_the_datasets_file(tmp_path):
    compiled(SOURCE, tmp_path / f"decoder{sysconfig.get_config_var('EXT_SUFFIX')}")
    (tmp_path / "data.py").write_text("import decoder\ndataset = [1, 2, 3]\n")
    command = [sys.executable, "-m", "ftsafety.audit", f"{tmp_path}/data.py:dataset", "--seconds", "0.1"]
    done = completed(command, env={"PYTHONPATH": importable()}, status=1)
    assert "importing decoder turns the GIL back on" in done.stdout
    assert f"{tmp_path}/data.py:1" in done.stdout


def test_all_imports_together_have_one_time_limit(tmp_path, monkeypatch):
    for number in range(6):  # each ends its interpreter, so the next is imported in a new one
        code = "import os, time; open(__file__ + '-begun', 'w'); time.sleep(1); os._exit(1)\n"
        (tmp_path / f"ends_{number}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert gil.turns_on([f"ends_{number}" for number in range(6)], seconds=2.5) is None
    assert len(list(tmp_path.glob("*-begun"))) < 6
