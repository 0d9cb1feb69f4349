"""README's pictures say what their sources say today."""

import runpy
from pathlib import Path

from tests.checkout import CHECKOUT

PICTURES = CHECKOUT / "evaluation/pictures"


def draw(program: str, **places: Path) -> None:
    main = runpy.run_path(str(PICTURES / program))["main"]
    main.__globals__.update(places)
    main()


def test_the_bars_are_those_of_the_kept_runs(tmp_path):
    draw("throughput.py", PICTURE=tmp_path / "throughput.svg")
    assert (tmp_path / "throughput.svg").read_text() == (
        CHECKOUT / "docs/throughput.svg"
    ).read_text()


def test_the_badges_are_true(tmp_path):
    draw("badges.py", BADGES=tmp_path)
    kept = {path.name: path.read_text() for path in (CHECKOUT / "docs/badges").iterdir()}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept
