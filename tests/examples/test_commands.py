"""examples/commands: each way and number of threads gives the same."""

import sys

import pytest

from tests.checkout import CHECKOUT
from tests.programs import completed

FOLDER = CHECKOUT / "examples/commands"


@pytest.mark.parametrize(
    "program, ways",
    [
        ("mandelbrot.py", ["threading", "pool", "asyncio"]),
        ("standard_library.py", ["json"]),
        ("standard_library.py", ["zlib"]),
        ("standard_library.py", ["sqlite"]),
    ],
)
def test_threads_and_ways_agree(program, ways):
    printed = set()
    for way in ways:
        for threads in ("1", "3"):
            done = completed([sys.executable, FOLDER / program, way, threads], status=0)
            printed.add(done.stdout)
    (only,) = printed
    assert int(only) > 0
