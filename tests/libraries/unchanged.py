"""Runs a file's programs, and prints as JSON what each returned.

python unchanged.py FILE
python -m ftloader unchanged.py FILE
"""

import importlib.util
import json
import sys
import tempfile
import traceback
from pathlib import Path


def programs(path):
    """Return {name: function} of each function `program_*` of a file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: each for name, each in vars(module).items() if name.startswith("program_")}


def result_of(program):
    """Return what a program returns, or the error that it raises. It gets an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return program(Path(folder))
        except Exception:
            return {"error": traceback.format_exc()}


if __name__ == "__main__":
    results = {name: result_of(program) for name, program in programs(sys.argv[1]).items()}
    print(f"\nunchanged {json.dumps(results)}", flush=True)
