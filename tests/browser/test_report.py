"""The report's page in a real browser, made from a real run and from documents grown from it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from ftbench.data import synthesis
from ftbench.document.results import load
from ftbench.report import charts, html, overview, waterfall_chart, words
from ftrun.configurations import this_twin
from tests.browser import devtools
from tests.checkout import importable
from tests.unit.bench import documents

PHONE, DESK = 390, 1200

pytestmark = [pytest.mark.timeout(600), pytest.mark.thread_unsafe(reason="there is one browser")]

# Brings every chart into view, those in folded parts too, and waits until it is drawn.
DRAW_ALL = """
(async () => {
  document.querySelectorAll("details.more").forEach((part) => { part.open = true; });
  for (const chart of document.querySelectorAll(".chart")) {
    chart.scrollIntoView();
    await new Promise((drawn) => {
      if (chart.dataset.drawn) return drawn();
      const seen = new MutationObserver(() => { seen.disconnect(); drawn(); });
      seen.observe(chart, {attributes: true, attributeFilter: ["data-drawn"]});
    });
  }
  scrollTo(0, 0);
})()
"""
# What each chart shows: its traces' values as plotly has them, and the marks that it drew.
CHARTS = """
[...document.querySelectorAll(".chart")].map((chart) => {
  const legend = chart.querySelector(".legend"), title = chart.querySelector(".xtitle");
  const box = chart.getBoundingClientRect(), svg = chart.querySelector("svg.main-svg").getBoundingClientRect();
  return {
    id: chart.id, width: box.width, svg: svg.width, height: svg.height, right: svg.right,
    overlaps: Boolean(legend && legend.getBoundingClientRect().top < title.getBoundingClientRect().bottom),
    shown: chart.data.length, marks: chart.querySelectorAll(".point path, path.point, .js-line, path.box").length,
    traces: chart.data.map((trace) => ({type: trace.type, name: trace.name,
      x: [...(trace.x || trace.median || [])], y: [...(trace.y || [])]})),
    smallest: Math.min(...[...chart.querySelectorAll("text")].filter((t) => t.textContent.trim())
      .map((t) => parseFloat(getComputedStyle(t).fontSize))),
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
COLOURS = """
(() => {
  const chart = document.querySelector(".chart"), style = (e) => getComputedStyle(e);
  return {page: style(document.body).backgroundColor, text: style(document.body).color,
          chart: style(chart.querySelector("svg.main-svg")).backgroundColor,
          label: style(chart.querySelector(".xtick text")).fill};
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory):
    """A browser for all tests."""
    executable = devtools.find()
    if executable is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with devtools.Browser(executable, tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two rounds of one configuration."""
    directory = tmp_path_factory.mktemp("run")
    (directory / "photos").mkdir()
    for number in range(4):
        synthesis.photograph(number).save(directory / f"photos/{number}.jpg", "JPEG", **synthesis.JPEG_SETTINGS)
    twin = this_twin()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ftbench",
            "pillow",
            "--quick",
            "--data",
            directory / "photos",
            "--out",
            directory / "results",
            "--configs",
            twin,
            "--workers",
            "1",
            "--batch-size",
            "2",
            "--rounds",
            "2",
        ],
        env={**os.environ, "PYTHONPATH": importable()},
        text=True,
        capture_output=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return (directory / "results/latest").resolve()


@pytest.fixture(scope="module")
def many(run: Path) -> dict:
    """A document with a scenario of each kind."""
    return documents.with_inside(documents.many(load(run / "results.json")))


@pytest.fixture(scope="module")
def page(many, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of that document."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(html.page(many))
    return path


def assert_quiet(browser: devtools.Browser) -> None:
    """Nothing was complained of, and nothing asked for beyond the page."""
    assert browser.problems() == []
    assert browser.requests() == []


def in_order(document: dict) -> list[charts.Chart]:
    """The charts of a document's page as they follow each other in it."""
    first = [waterfall_chart.chart(document, fall) for fall in document["waterfalls"]]
    first += filter(None, [overview.chart(document)])
    found = [
        chart
        for scenario in document["scenarios"]
        for chart in sorted(charts.charts(scenario), key=lambda chart: bool(chart.folded))
    ]
    return first + found


def test_page_of_a_real_run(browser, run, tmp_path):
    document = load(run / "results.json")
    browser.window(DESK)
    browser.open(run / "report.html")
    browser.run(DRAW_ALL)
    assert_quiet(browser)
    drawn = browser.run(CHARTS)
    assert [chart["id"] for chart in drawn] == [f"chart-{chart.name}" for chart in in_order(document)]
    medians = [c["metrics"]["throughput"]["median"] for c in document["scenarios"][0]["analysis"]["contestants"]]
    waterfall, measured, *_ = drawn
    bars = [x for trace in measured["traces"] if trace["type"] == "bar" for x in trace["x"]]
    assert sorted(bars) == pytest.approx(sorted(medians))
    # A bar from nothing for the start, one for each of two steps, and one for the whole; a dot for every process.
    rounds = len(document["scenarios"][0]["rounds"])
    assert [len(trace["x"]) for trace in waterfall["traces"]] == [1, rounds] * 4
    browser.screenshot(tmp_path / "shot.png")
    with Image.open(tmp_path / "shot.png") as image:
        assert image.width == DESK
        assert len(image.convert("RGB").getcolors(image.width * image.height)) > 50  # the text's and the bars'


@pytest.mark.parametrize("width, dark", [(PHONE, True), (966, False), (DESK, False)])
def test_every_chart_is_drawn_and_nothing_is_too_wide(browser, page, many, width, dark):
    browser.window(width, dark=dark)
    browser.open(page)
    browser.run(DRAW_ALL)
    assert_quiet(browser)
    drawn, wanted = browser.run(CHARTS), in_order(many)
    assert [chart["id"] for chart in drawn] == [f"chart-{chart.name}" for chart in wanted]
    for chart, own in zip(drawn, wanted, strict=True):
        assert chart["shown"] == len(own.figure.data) and chart["marks"] > 0, chart["id"]
        assert chart["smallest"] >= 12 and not chart["overlaps"], chart["id"]
        assert 100 < chart["svg"] <= chart["width"] and chart["right"] <= width, chart["id"]
        for trace, figure in zip(chart["traces"], own.figure.data, strict=True):
            values = figure.median if figure.type == "box" else figure.x
            assert trace["x"] == pytest.approx(list(values)), (chart["id"], trace["name"])
    assert browser.run("document.documentElement.clientWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(WIDE) == []


def test_tables_hold_the_documents_figures(browser, page, many):
    browser.window(DESK)
    browser.open(page)
    tables = dict(browser.run(TABLES))
    for chart in in_order(many):
        head, *rows = tables[f"chart-{chart.name}"]
        assert head == list(chart.table.head)
        assert rows == [[cell.strip() for cell in row] for row in chart.table.rows]
    for scenario in many["scenarios"]:
        metric = words.metric(scenario)
        head, *rows = tables[f"chart-{words.slug(scenario['name'] + '-' + metric.name)}"]
        medians = [row[head.index(f"median, {metric.unit}")] for row in rows]
        assert sorted(medians) == sorted(
            metric.write(c["metrics"][metric.name]["median"]) for c in scenario["analysis"]["contestants"]
        )


def test_colours_follow_the_preference_at_once(browser, page):
    browser.window(PHONE)
    browser.open(page)
    browser.run(DRAW_ALL)
    light = browser.run(COLOURS)
    redrawn = """
    new Promise((done) => {
      const look = () => document.querySelector(".chart").dataset.drawn.endsWith(" WANTED");
      if (look()) return done();
      const seen = new MutationObserver(() => { if (look()) { seen.disconnect(); done(); } });
      seen.observe(document.querySelector(".chart"), {attributes: true});
    })
    """
    browser.prefer(dark=True)
    browser.run(redrawn.replace("WANTED", "dark"))
    dark = browser.run(COLOURS)
    assert light["page"] == "rgb(255, 255, 255)"
    assert all(dark[part] != light[part] for part in light), (light, dark)
    assert dark["chart"] == dark["page"] and light["chart"] == light["page"]
    browser.prefer(dark=False)
    browser.run(redrawn.replace("WANTED", "light"))
    assert browser.run(COLOURS) == light
    assert_quiet(browser)


def test_values_show_on_hovering(browser, page, many):
    browser.window(DESK)
    browser.open(page)
    browser.run(DRAW_ALL)
    shown = browser.run("""
    (() => {
      const chart = document.getElementById("chart-sizes-throughput");
      Plotly.Fx.hover(chart, [{curveNumber: 0, pointNumber: 0}]);
      return chart.querySelector(".hoverlayer").textContent;
    })()
    """)
    first = charts.charts(next(s for s in many["scenarios"] if s["name"] == "sizes"))[0].figure.data[0].customdata[0]
    assert shown == first.replace("<br>", "")
    assert first.count("<br>") == 4 and "median" in shown and "rounds" in shown


def test_downloads(browser, page, many, tmp_path):
    browser.window(PHONE, dark=True)
    browser.open(page)
    browser.downloads(tmp_path)
    for kind in ("svg", "png"):
        browser.download(f"document.querySelector('[data-chart=chart-sizes-throughput][data-format={kind}]').click()")
    browser.download("document.getElementById('save-results').click()")
    assert_quiet(browser)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "results.json",
        "sizes-throughput.png",
        "sizes-throughput.svg",
    ]
    root = ElementTree.fromstring((tmp_path / "sizes-throughput.svg").read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    assert "sizes: Throughput with 2 workers: higher is better" in text and "4 MiB" in text and "CPUs usable" in text
    with Image.open(io.BytesIO((tmp_path / "sizes-throughput.png").read_bytes())) as image:
        assert image.format == "PNG" and image.width == 1800
        assert image.convert("RGB").getpixel((1, 1)) == (255, 255, 255)  # light, whatever the page is
    assert load(tmp_path / "results.json") == many  # to the last digit, or its seal would be broken


def test_page_without_scripts_has_its_tables(browser, page, many):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.window(PHONE)
        browser.open(page)
        text = browser.run("document.querySelector('noscript').textContent + document.body.innerText")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "which this browser does not run" in text and "Table" in text


def test_hostile_results_run_nothing(browser, many, tmp_path):
    page = tmp_path / "report.html"
    page.write_bytes(html.page(documents.hostile(many)))
    browser.window(PHONE)
    browser.open(page)
    browser.run(DRAW_ALL)
    assert browser.run("window.hurt === undefined")
    assert browser.run("document.images.length") == 0
    assert browser.run(
        "[...document.querySelectorAll('a')].every((a) => !/^(javascript|https?):/.test("
        "a.getAttribute('href') || a.getAttribute('xlink:href') || ''))"
    )
    assert "window.hurt=1" in browser.run("document.querySelector('h2[id$=-title]').textContent")
    assert_quiet(browser)
    # And if escaping failed: the policy lets no other script run.
    browser.run("""
    new Promise((done) => {
      addEventListener("securitypolicyviolation", done);
      const script = document.createElement("script");
      script.textContent = "window.hurt = 4";
      document.body.append(script);
    })
    """)
    assert browser.run("window.hurt === undefined")
