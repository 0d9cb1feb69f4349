"""Modules that turn the GIL on, next to the dataset's file."""

import subprocess
import sys
import sysconfig
import time

import pytest

from ftrun.configurations import this_twin
from ftsafety.audit import gil
from tests.checkout import importable
from tests.extension_modules import compiled

pytestmark = pytest.mark.thread_unsafe(reason="starts programs enough")

SOURCE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "decoder", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_decoder(void) { return PyModule_Create(&module); }
"""


@pytest.mark.skipif(this_twin() == "gil", reason="the GIL is always on in this build")
@pytest.mark.timeout(300)
def test_an_extension_module_next_to_the_datasets_file(tmp_path):
    compiled(SOURCE, tmp_path / f"decoder{sysconfig.get_config_var('EXT_SUFFIX')}")
    (tmp_path / "data.py").write_text("import decoder\ndataset = [1, 2, 3]\n")
    command = [sys.executable, "-m", "ftsafety.audit", f"{tmp_path}/data.py:dataset", "--seconds", "0.1"]
    done = subprocess.run(command, env={"PYTHONPATH": importable()}, capture_output=True, text=True, timeout=250)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "importing decoder turns the GIL back on" in done.stdout
    assert f"{tmp_path}/data.py:1" in done.stdout


def test_all_imports_together_have_one_time_limit(tmp_path, monkeypatch):
    for number in range(6):  # each ends its interpreter, so the next is imported in a new one
        (tmp_path / f"ends_{number}.py").write_text("import os, time; time.sleep(1); os._exit(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    begin = time.monotonic()
    assert gil.turns_on([f"ends_{number}" for number in range(6)], seconds=2.5) is None
    assert time.monotonic() - begin < 5
