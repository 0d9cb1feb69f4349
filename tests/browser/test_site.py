"""The site, built as .ci/site does, in a real browser."""

import re

import pytest

from tests.checkout import CHECKOUT
from tests.programs import completed

pytestmark = pytest.mark.slow
# Pixels by which the page is wider than its window. Wide tables scroll within the page.
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "made"
    done = completed([CHECKOUT / ".ci/site", "--no-runs", folder], status=0)
    assert f"the site is in {folder}" in done.stdout
    return folder


def test_links_lead_to_pages(site):
    home = (site / "index.html").read_text()
    assert 'href="loader/"' in home and 'href="examples/"' in home
    assert not re.search(r'href="[^":]*\.(md|py|toml)[#"]', home)
    api = (site / "api" / "index.html").read_text()
    assert "copy_dataset" in api and "GrowingCache" in api
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


@pytest.mark.parametrize(
    "page",
    ["index.html", "loader/index.html", "results/index.html", "tutorials/gpu-waits/index.html"],
)
def test_phones(site, browser, page):
    look = browser.look(site / page, WIDE, width=390)
    assert look.value == 0, "the page is wider than the phone"
    assert not look.requests, "the page asks other hosts"


def test_dark(site, browser):
    look = browser.look(site / "index.html", "getComputedStyle(document.body).color", dark=True)
    assert max(map(int, re.findall(r"\d+", look.value)[:3])) > 200, "light words"
