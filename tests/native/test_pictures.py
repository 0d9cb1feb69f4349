"""The documents' pictures say what their sources say today."""

import json
import runpy
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.markdown_files import code_blocks

PICTURES = CHECKOUT / "evaluation/pictures"
TUTORIALS = CHECKOUT / "docs/tutorials"
PAGES = sorted(TUTORIALS.glob("*.md"))


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


def test_the_tutorials_pictures_are_those_of_the_kept_runs(tmp_path):
    draw("tutorials.py", PICTURES=tmp_path)
    kept = {path.name: path.read_text() for path in TUTORIALS.glob("*.svg")}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept
    assert sorted(kept) == [f"{page.stem}.svg" for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_shows_what_its_command_printed(page):
    run = json.loads((TUTORIALS / "runs.json").read_text())[page.stem]
    text = page.read_text()
    assert code_blocks(text, "sh") == [run["command"]]
    shown = [line for block in code_blocks(text, "text") for line in block.splitlines()]
    assert set(shown) <= {*run["printed"], "..."}
    assert f"]({page.stem}.svg)" in text
    assert f"(tutorials/{page.name})" in (CHECKOUT / "docs/tutorials.md").read_text()
