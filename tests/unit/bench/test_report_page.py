"""The page and the summary: complete, without a script, and with hostile text as text."""

import re
from xml.etree import ElementTree

import pytest

from ftbench import cli
from ftbench.document.convert import as_json
from ftbench.report import (
    advice,
    charts,
    files,
    markdown,
    pictures,
    run_words,
    style,
    terminal,
    verdict_words,
    waterfalls,
)
from ftbench.report import page as pages
from ftbench.report.view import view
from ftbench.stats.analysis import Analysis, analyse
from ftrun import escape
from tests.unit.bench import documents
from tests.unit.bench.reports import alone, glance, named, page_of, summary_of


def test_page_holds_everything_and_names_no_address(many, page):
    assert page.results() == as_json(many.results)
    ids = [attributes["id"].removeprefix("chart-") for attributes in page.having("class", "chart")]
    # The waterfalls before all others, then the overview.
    assert ids[:3] == ["waterfall-pillow", "waterfall-chain", "overview"]
    assert len(ids) == 3 + sum(len(charts.charts(s)) for s in many.scenarios)
    assert sum(tag == "svg" for tag, _ in page.elements) == len(ids)
    for tag, attributes in page.elements:
        assert not {"src", "action", "onclick", "onload", "onerror"} & set(attributes), (
            tag,
            attributes,
        )
        assert attributes.get("href", "#").startswith(("#", "data:")), attributes


def test_the_page_has_the_load_of_every_round(many, page):
    heads = [place for place, text in enumerate(page.shown) if text == "disturbed by"]
    assert len(heads) == len(many.scenarios)
    for head, scenario in zip(heads, many.results.scenarios, strict=True):
        cells = [text for text in page.shown[head:] if text.strip()][
            1 : 1 + 7 * len(scenario.rounds)
        ]
        rounds = scenario.rounds
        if not any(run_words.marked(one) for one in rounds):  # else there is another cell
            assert cells[::7] == [str(one.number) for one in rounds]
            assert cells[3::7] == [f"{one.disturbance.own_cpus:.2f}" for one in rounds]
            told = [
                value
                for one in rounds
                for value in (one.disturbance.before.load, *vars(one.disturbance).values())
            ]
            assert ("unknown" in cells) == (None in told)


def test_nothing_in_the_page_has_the_id_of_another(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = {
        name
        for _, a in page.elements
        for value in a.values()
        for name in re.findall(r"url\(#([^)]+)", value or "")
    }
    used |= {a["href"][1:] for tag, a in page.elements if tag == "use"}
    assert used and used <= set(ids)


def test_a_chart_has_the_pages_colours_and_no_title(many):
    chart = charts.charts(named(many, "kinds"))[0]
    drawn = pictures.svg(chart)
    assert "var(--text)" in drawn and style.TEXT not in drawn
    root = ElementTree.fromstring(drawn)
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert shown and not {chart.title, *style.wrapped(chart.caption)} & set(shown)
    hovering = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert hovering == [row.hover for row in chart.picture.rows]
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {
        "svg",
        "defs",
        "g",
        "path",
        "use",
        "text",
        "title",
        "clipPath",
        "pattern",
        "rect",
    }, tags


@pytest.mark.slow
def test_a_scenario_without_a_waterfall_is_named_in_its_sentence(many):
    run = alone(many, many.results.scenarios[0], many.scenario("workers"))
    text = pages.write(view(run)).decode()
    # which is not what the waterfall's sentence above it is about
    assert "<p>Workers: With 8 workers, " in text


def test_memory_is_described_as_it_is_counted(page):
    """See ftbench.machine.usage.Usage.total."""
    text = "".join(page.shown)
    assert (
        "proportional set size" not in text
        and "pages of files count as if no other program had mapped them" in text
    )


def test_page_has_no_script_and_allows_none(page):
    (policy,) = [a["content"] for a in page.having("http-equiv", "Content-Security-Policy")]
    assert not [tag for tag, _ in page.elements if tag in ("script", "noscript")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "script" not in policy and "http" not in policy


def test_what_a_screen_reader_finds(many, page):
    for tag, attributes in page.elements:
        if attributes.get("class") == "chart":
            assert attributes["role"] == "img" and len(attributes["aria-label"]) > 40
        if tag == "th":
            assert attributes["scope"] == "col"
        if "download" in attributes:
            assert attributes["id"] == "save-results"
    assert ("html", {"lang": "en"}) in page.elements
    links = {a["href"] for tag, a in page.elements if tag == "a" and "download" not in a}
    assert links >= {f"#scenario-{run_words.slug(s.name)}" for s in many.results.scenarios}
    assert links <= {f"#{a['id']}" for _, a in page.elements if "id" in a}


def test_summary_in_markdown(many):
    text = summary_of(many)
    falls = [verdict_words.sentence(many, fall) for fall in many.waterfalls]
    for sentence in (*falls, *(answer for _, answer in glance(many))):
        assert escape.markdown(run_words.capital(sentence)) in text
    assert "| ft loader threads / gil loader processes, x2, 64 KiB samples |" in text
    assert "\\`" not in text  # commands are no markup
    # a block says of each of its commands what it does
    assert "\n# The same with Docker\nDATA=" in text
    # Under the answers stands what to use, before all tables.
    before = text[: text.index("\n| ")]
    for each in advice.openings(many):
        assert before.index(escape.markdown(each.sentence)) < before.index(
            escape.markdown(each.advice)
        )
        assert not each.code or f"\n```python\n{each.code}\n```\n" in before
    assert "./twins bench" in text
    # Every row has as many cells as its head: five of a waterfall, two of comparisons.
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert {line.count(" | ") for line in table.splitlines()} in ({4}, {1}), table
    assert all(
        row[0] in text and row[3] in text
        for row in waterfalls.chart(many, many.waterfalls[1]).table.rows
    )


def test_report_prints_the_summary_and_writes_nothing(document, saved_run, capsys):
    assert (
        cli.main(
            ["--out", "/results", "--twin", "ft=python", "report", str(saved_run), "--markdown"]
        )
        == 0
    )
    # It names the results that it was made of.
    assert capsys.readouterr().out == markdown.write(view(analyse(document), saved_run)).decode()
    assert [p.name for p in saved_run.iterdir()] == ["results.json"]


@pytest.fixture(scope="module")
def spoilt(many) -> Analysis:
    """The run with every string that is free to choose ending in a hostile one."""
    return analyse(documents.hostile(many.results))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not
def test_hostile_text_stays_text_in_the_page(spoilt):
    page = page_of(spoilt)
    assert page.results() == as_json(spoilt.results)
    assert not [
        tag
        for tag, _ in page.elements
        if tag in ("img", "script", "iframe", "object", "foreignobject")
    ]
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert "{{ 7*7 }}" in "".join(page.shown)
    for tag, attributes in page.elements:
        assert attributes.get("href", "#").startswith(("#", "data:application/json;base64,")) or (
            attributes == {"rel": "icon", "href": "data:,"}
        ), (tag, attributes)


@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not
@pytest.mark.slow
def test_hostile_text_does_not_reach_the_terminal_or_leave_the_directory(spoilt, tmp_path, capsys):
    terminal.write(view(spoilt, page=tmp_path / "report.html"))
    out = capsys.readouterr().out
    assert "\x1b" not in out and "[bold red]" in out and ":boom:" in out
    # One is enough of the pictures.
    names = [name for name, _ in files.write(view(alone(spoilt, *spoilt.results.scenarios[:2])))]
    assert len(names) == 4 and all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names), names


def test_hostile_text_stays_text_in_markdown(spoilt):
    text = summary_of(spoilt)
    assert "\x1b" not in text
    # The commands, the advice and two failures of the suite are blocks of code,
    # which nothing in them ends.
    block = re.compile(r"^(`{3,})(?:console|python)\n.*?\n\1$", re.DOTALL | re.MULTILINE)
    assert len(block.findall(text)) == 4
    rest = re.sub(
        r"^<details><summary>[\w ]+</summary>$|^</details>$",
        "",
        block.sub("", text),
        flags=re.MULTILINE,
    )
    assert "```" not in rest
    for line in rest.splitlines():
        assert not re.search(r"(?<!\\)<(?!!-- -->)", line), line
