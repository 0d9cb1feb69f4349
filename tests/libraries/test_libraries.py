"""Other people's code, unchanged, with our class in torch's place:
it gives what it gives with torch's.

Each file with_LIBRARY.py is a handful of small programs. The twins have few of the libraries:
`./twins exec gil python tests/libraries/run.py` runs the files of the others.
"""

import functools
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.checkout import importable
from tests.programs import completed

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAMS = [
    pytest.param(file, name, id=f"{file.stem}-{name.removeprefix('program_')}")
    for file in sorted(HERE.glob("with_*.py"))
    for name in re.findall(r"^def (program_\w+)", file.read_text(), re.MULTILINE)
]


@functools.cache
def outcomes(file):
    """Run all programs of a file with each class; return {class:
    {program: (kinds of iterators, result)}}.
    """
    environment = {**os.environ, "PYTHONPATH": importable()}
    done = completed([sys.executable, HERE / "in_place.py", file], 0, env=environment, timeout=280)
    lines = [
        line.split(" ", 1)
        for line in done.stdout.splitlines()
        if re.match(r"(torch|thread|auto|tuned) \{", line)
    ]
    return {loader: json.loads(found) for loader, found in lines}


@functools.cache
def unchanged(file):
    """Run all programs of a file under ``python -m ftloader``;
    return ({program: result}, stderr).
    """
    command = [sys.executable, "-m", "ftloader", HERE / "unchanged.py", file]
    environment = {**os.environ, "PYTHONPATH": importable()}
    done = completed(command, 0, env=environment, timeout=280)
    (found,) = re.findall(r"^unchanged (\{.*)", done.stdout, re.MULTILINE)
    return json.loads(found), done.stderr


@pytest.mark.parametrize(("file", "program"), PROGRAMS)
def test_under_python_m_ftloader(file, program):
    skip_without(file)
    results, err = unchanged(file)
    assert "error" not in results[program], results[program]
    assert results[program] == outcomes(file)["torch"][program][1]
    assert "python -m ftloader: loaders of this program" in err


def skip_without(file):
    library = file.stem.removeprefix("with_")
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: run tests/libraries/run.py in this twin")


@pytest.mark.parametrize("loader", ["thread", "auto", "tuned"])
@pytest.mark.parametrize(("file", "program"), PROGRAMS)
def test_as_with_torchs_class(file, program, loader):
    skip_without(file)
    torch_kinds, torchs = outcomes(file)["torch"][program]
    kinds, ours = outcomes(file)[loader][program]
    for result in torchs, ours:
        if "error" in result:
            pytest.fail(result["error"], pytrace=False)
    assert ours == torchs
    threads = loader != "auto" or not sys._is_gil_enabled()
    assert "process" in torch_kinds
    assert kinds == sorted(
        "thread" if kind == "process" and threads else kind for kind in torch_kinds
    )
