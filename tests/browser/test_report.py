"""The report's page in a real browser."""

import math
import re
from pathlib import Path

import pytest
from PIL import Image

from ftbench.report import charts, draw, waterfalls
from ftbench.report import page as pages
from ftbench.report.view import view
from ftbench.stats.analysis import Analysis, analyse
from ftrun.configurations import this_twin
from tests.unit.bench import documents, simulated

pytestmark = pytest.mark.slow

PHONE, DESK = 390, 1200

# Opens all that is folded but the tables; an expression follows it.
OPEN = "document.querySelectorAll('details.more').forEach((part) => { part.open = true; }), "
# What each chart shows: its texts, those for hovering, marks, what is cut off at an edge, and the
# size of letters.
CHARTS = """
[...document.querySelectorAll(".chart")].map((chart) => {
  const svg = chart.querySelector("svg"), box = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")];
  const scale = box.width / svg.viewBox.baseVal.width;
  const overlap = (a, b) => {
    const [one, other] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
    return one.left < other.right && other.left < one.right && one.top < other.bottom - 3 && other.top < one.bottom - 3;
  };
  const outside = (e) => e.left < box.left - 1 || e.right > box.right + 1 || e.bottom > box.bottom + 1;
  return {
    id: chart.id, width: chart.getBoundingClientRect().width, svg: box.width, right: box.right,
    texts: texts.map((text) => text.textContent),
    hovering: [...svg.querySelectorAll("title")].map((title) => title.textContent),
    marks: [...svg.querySelectorAll("path, use")].filter((e) => e.getBoundingClientRect().width).length,
    cut: texts.filter((text) => outside(text.getBoundingClientRect())).map((text) => text.textContent),
    overlapping: texts.filter((text, at) => at && overlap(text, texts[at - 1])).map((text) => text.textContent),
    smallest: scale * Math.min(...texts.map((text) => parseFloat(getComputedStyle(text).fontSize))),
  };
})
"""
WIDE = """
(() => {
  const width = document.documentElement.clientWidth;
  return [...document.querySelectorAll("body *")]
    .filter((e) => !e.closest(".scroll, nav, svg") && e.getBoundingClientRect().width
                   && e.getBoundingClientRect().right > width + 0.5)
    .map((e) => e.outerHTML.slice(0, 90));
})()
"""
TABLES = """
[...document.querySelectorAll("figure")].map((figure) => [figure.querySelector(".chart").id,
  [...figure.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))])
"""
WIDTHS = """
(({clientWidth: client, scrollWidth: scroll}) => (
  {client, scroll, viewport: document.querySelector("meta[name=viewport]").content}))(document.documentElement)
"""
TOPMOST = """
(name) => [...document.querySelectorAll(`#chart-${name} title`)].map((title) => {
  title.parentNode.scrollIntoView({block: "center"});
  const box = title.parentNode.getBoundingClientRect();
  const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  return top.closest("g:has(> title)").querySelector("title").textContent;
})
"""
HOSTILE = """
(() => {
  const found = {
    hurt: window.hurt ?? null, images: document.images.length,
    links: [...document.querySelectorAll("[href]")].map((e) => e.getAttribute("href").slice(0, 40)),
    title: document.querySelector("h2[id$=-title]").textContent,
  };
  const script = document.createElement("script");
  script.textContent = "window.hurt = 4";
  document.body.append(script);
  return {...found, then: window.hurt ?? null};
})()
"""
COLOURS = """
(() => {
  const style = (e) => getComputedStyle(e), label = document.querySelector(".chart g > text");
  return {page: style(document.body).backgroundColor, text: style(document.body).color,
          label: style(label).fill};
})()
"""


@pytest.fixture(scope="module")
def many() -> Analysis:
    """A run with a scenario of each kind."""
    run = simulated.document(simulated.blank(this_twin()), 0, rounds=2)
    return analyse(documents.with_inside(documents.many(run)))


@pytest.fixture(scope="module")
def page(many, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(pages.write(view(many)))
    return path


def in_order(run: Analysis) -> list[charts.Chart]:
    """The charts of a document's page as they follow each other in it."""
    first = [waterfalls.chart(run, fall) for fall in run.waterfalls]
    first += filter(None, [charts.overview(run)])
    found = [
        chart
        for scenario in run.scenarios
        for chart in sorted(charts.charts(scenario), key=lambda chart: bool(chart.folded))
    ]
    return first + found


def hovering(chart: charts.Chart) -> list[str]:
    picture = chart.picture
    if isinstance(picture, draw.Rows):
        return [row.hover for row in picture.rows]
    steps = [math.ceil(len(line.x) / draw.MOST_MARKS) for line in picture.lines]
    return [
        text
        for line, step in zip(picture.lines, steps)
        for text in (*line.hover[:-1:step], line.hover[-1])
    ]


@pytest.mark.parametrize("width, dark", [(PHONE, True), (966, False), (DESK, False)])
def test_every_chart_is_drawn_and_nothing_is_too_wide(browser, page, many, width, dark):
    look = browser.look(
        page, f"{OPEN} {{charts: {CHARTS}, widths: {WIDTHS}, wide: {WIDE}}}", width, dark
    )
    assert look.logged == look.requests == []
    drawn, wanted = look.value["charts"], in_order(many)
    assert [chart["id"] for chart in drawn] == [f"chart-{chart.name}" for chart in wanted]
    for chart, own in zip(drawn, wanted, strict=True):
        assert chart["hovering"] == hovering(own) and chart["marks"] > len(chart["hovering"]), (
            chart["id"]
        )
        assert chart["smallest"] >= 12 and chart["cut"] == chart["overlapping"] == [], chart["id"]
        assert 300 < chart["svg"] <= chart["width"] and chart["right"] <= width, chart["id"]
    assert look.value["widths"]["client"] == width >= look.value["widths"]["scroll"]
    assert look.value["widths"]["viewport"] == "width=device-width, initial-scale=1"
    assert look.value["wide"] == []


def test_pixels(browser, page, tmp_path):
    browser.screenshot(page, tmp_path / "shot.png", DESK)
    with Image.open(tmp_path / "shot.png") as image:
        assert image.width == DESK
        # the text's and the bars'
        assert len(image.convert("RGB").getcolors(image.width * image.height)) > 50


def test_tables_hold_the_documents_figures(browser, page, many):
    shown = dict(browser.look(page, TABLES, DESK).value)
    for chart in in_order(many):
        head, *rows = shown[f"chart-{chart.name}"]
        assert head == list(chart.table.head)
        assert rows == [[cell.strip() for cell in row] for row in chart.table.rows]


def test_colours_follow_the_preference(browser, page):
    light, dark = (browser.look(page, COLOURS, PHONE, dark) for dark in (False, True))
    assert light.value["page"] == "rgb(255, 255, 255)"
    assert all(dark.value[part] != light.value[part] for part in light.value), (light, dark)
    for colours in (light, dark):
        assert colours.value["label"] == colours.value["text"] and colours.logged == []


def test_values_show_on_hovering(browser, page, many):
    """What a browser shows: the title of what is topmost under the pointer,
    or of what holds that.
    """
    names = ["sizes-throughput", "kinds-throughput", "sizes-throughput-ratios", "waterfall-chain"]
    topmost = browser.look(page, f"{OPEN} {names}.map({TOPMOST})", DESK).value
    for name, shown in zip(names, topmost, strict=True):
        (chart,) = [chart for chart in in_order(many) if chart.name == name]
        wanted = hovering(chart)
        # Marks of curves may lie on each other.
        assert (
            len(shown) == len(wanted)
            and set(shown) <= set(wanted)
            and len(set(shown)) >= len(wanted) / 2
        )
        assert isinstance(chart.picture, draw.Curves) or shown == wanted
    first = hovering(next(chart for chart in in_order(many) if chart.name == "sizes-throughput"))[0]
    assert first.count("\n") == 3 and "mean" in first and "rounds" in first


@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not
def test_hostile_results_run_nothing(browser, many, tmp_path):
    page = tmp_path / "report.html"
    page.write_bytes(pages.write(view(analyse(documents.hostile(many.results)))))
    look = browser.look(page, f"{OPEN} {HOSTILE}", PHONE)
    assert look.value["images"] == 0 and "window.hurt=1" in look.value["title"]
    links = look.value["links"]
    assert all(re.match("#|data:,$|data:application/json;base64,", link) for link in links), links
    assert look.value["hurt"] is None and look.requests == []
    # And if escaping failed: the policy lets no script run.
    assert look.value["then"] is None
    assert len(look.logged) == 1 and "Content Security Policy" in look.logged[0], look.logged
