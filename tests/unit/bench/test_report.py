"""What reports say of a document: sentences, verdicts, charts with their tables, and what they let through."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from statistics import geometric_mean

import pytest
from PIL import Image

from ftbench import arguments, report
from ftbench.document.integrity import check
from ftbench.document.results import load
from ftbench.plan.contest import Contest
from ftbench.plan.metrics import METRICS
from ftbench.report import (
    charts,
    figures,
    html,
    markdown,
    overview,
    plot,
    repeat,
    series,
    spreads,
    tables,
    waterfall,
    within_trials,
    words,
)
from ftbench.stats.waterfall import waterfalls
from tests.unit.bench import documents

pytestmark = pytest.mark.thread_unsafe(reason="they share a page of many megabytes")


@pytest.fixture(scope="module")
def many(finished_run) -> dict:
    """A document with a scenario of each kind, as consistent as a run's."""
    document = documents.many(load(finished_run[1] / "results.json"))
    check(document)
    return document


@pytest.fixture(scope="module")
def page(many) -> Page:
    return Page(html.page(many).decode())


def entry(document: dict, name: str) -> dict:
    return next(s for s in document["scenarios"] if s["name"] == name)


def alone(document: dict, *scenarios: dict) -> dict:
    """The document of a run of these scenarios alone."""
    return {**document, "scenarios": [*scenarios], "waterfalls": waterfalls(scenarios)}


@dataclass(frozen=True)
class OneTwin(Contest):
    """A contest of one configuration, whatever else there is."""

    config: str = ""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool):
        return super().candidates((self.config,), workers, quick)


class Page(HTMLParser):
    """A page's elements as a browser finds them: (tag, attributes), and the text of scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.scripts: list[tuple[dict, str]] = []
        self.shown: list[str] = []
        self._script: dict | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._script = {"tag": tag, **dict(attrs)} if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._script = None

    def handle_data(self, data):
        if self._script is None:
            self.shown.append(data)
        else:
            self.scripts.append((self._script, data))

    def running(self) -> list[str]:
        """The scripts that are run, whole."""
        found: dict[int, str] = {}
        for attributes, text in self.scripts:
            if attributes.get("tag") == "script" and "type" not in attributes:
                found[id(attributes)] = found.get(id(attributes), "") + text
        return list(found.values())

    def data(self, name: str) -> object:
        """The JSON of the script with this id."""
        return json.loads("".join(text for attributes, text in self.scripts if attributes.get("id") == name))


def test_a_scenario_without_a_waterfall_tells_its_first_conclusion(many):
    (sentence,) = overview.sentences(alone(many, entry(many, "workers")))
    assert re.match(
        r"workers: With 8 workers, loader threads in the free-threaded build against loader processes in the GIL "
        r"build: (9\d|10\d)% faster \(\d+% to \d+%\)\.$",
        sentence,
    )
    (sentence,) = overview.sentences(alone(many, entry(many, "sizes")))
    assert re.match(
        r"sizes: With 2 workers, of 3 comparisons with .* did better in all \(typically by a factor of", sentence
    )


def test_the_waterfalls_sentence_comes_first(many):
    first, second, *_ = overview.sentences(many)
    assert first.startswith("pillow: threads") and "too few rounds" in first
    assert re.match(
        r"chain: threads without the GIL against torch's DataLoader with processes: (9\d|10\d)% faster "
        r"\(\d+% to \d+%\), \d+ against \d+ samples/s; removing the GIL by itself: ",
        second,
    )
    # What could not be measured on the way is part of the last step, which is not the GIL's by itself.
    fall = json.loads(json.dumps(many["waterfalls"][1]))
    fall["steps"][-1]["name"] = "the free-threaded build, GIL on; the GIL removed"
    assert "by itself" not in waterfall.sentence(many, {**fall, "missing": ["loader threads"]})
    # Each step with its factor and in words, then the whole, in every output.
    steps = waterfall.rows(many, many["waterfalls"][1])
    assert [row.name for row in steps][-2:] == ["the GIL removed", "in all"] and len(steps) == 6
    assert all(row.before == before.value for before, row in zip(steps[:4], steps[1:5], strict=True))
    assert (steps[-1].before, steps[-1].value) == (0, steps[-2].value)
    values = [m.values for m in series.measured(entry(many, "chain"), "throughput") if m.key == "ft/loader-thread/2"]
    assert [steps[-2].dots] == values and steps[-2].value == pytest.approx(geometric_mean(values[0]))


@pytest.mark.parametrize(
    "fastest, text, code",
    [
        ("ft/loader-thread/2", "loader threads in free-threaded Python", 'num_workers=2, worker_method="thread")'),
        ("gil/loader-process/2", "loader processes in ordinary Python", 'num_workers=2, worker_method="process")'),
        ("gil/torch-process/2", "torch DataLoader processes in ordinary Python", "num_workers=2)"),
        # It is there to be compared, not to be used.
        ("ft-gil/loader-thread/2", "loader threads in free-threaded Python (ft)", 'worker_method="thread")'),
    ],
)
def test_what_is_advised_is_the_fastest_that_was_measured(many, fastest, text, code):
    document = json.loads(json.dumps(many))
    for one in entry(document, "chain")["rounds"]:
        for trial in one["trials"]:
            if trial["contestant"] == fastest:
                trial["metrics"]["throughput"] = 1e6
    advised, line = waterfall.advice(document, document["waterfalls"][1])
    assert text in advised and line.endswith(code)
    assert f"from {'torch.utils.data' if 'torch' in fastest else 'ftloader'} import DataLoader; " in line


THROUGHPUT, MEMORY = METRICS["throughput"], METRICS["pss_mib"]


@pytest.mark.parametrize(
    "metric, ratio, wanted",
    [
        (THROUGHPUT, 1.57, "57% faster"),
        (THROUGHPUT, 0.86, "14% slower"),
        (MEMORY, 0.86, "14% less memory"),
        (THROUGHPUT, 1.004, "0.4% faster"),
        (THROUGHPUT, 0.996, "0.4% slower"),
        (THROUGHPUT, 2.49, "149% faster"),
        (THROUGHPUT, 3.4, "faster by a factor of 3.4"),
        (THROUGHPUT, 0.25, "slower by a factor of 4.0"),
        (MEMORY, 250.0, "more memory by a factor of more than 100"),
    ],
)
def test_a_ratio_in_words(metric, ratio, wanted):
    assert words.directed(metric, ratio) == wanted
    assert words.change(ratio, words.as_factor(ratio)) in wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        ({"mean": 1.57, "low": 1.48, "high": 1.66, "verdict": "faster"}, "57% faster (48% to 66%)"),
        ({"mean": 0.86, "low": 0.80, "high": 0.92, "verdict": "slower"}, "14% slower (8% to 20%)"),
        (
            {"mean": 1.21, "low": 0.77, "high": 1.92, "verdict": words.NO_DIFFERENCE},
            "between 23% slower and 92% faster",
        ),
        # The smaller first, whichever way; an interval is told as its ratio is.
        ({"mean": 0.41, "low": 0.30, "high": 0.56, "verdict": "slower"}, "59% slower (44% to 70%)"),
        ({"mean": 3.1, "low": 2.0, "high": 4.0, "verdict": "faster"}, "faster by a factor of 3.1 (2.0 to 4.0)"),
        ({"mean": 1.1, "low": 0.3, "high": 4.0, "verdict": words.NO_DIFFERENCE}, "between 70% slower and 300% faster"),
        (
            {"mean": 0.5, "low": 0.004, "high": 60, "verdict": words.NO_DIFFERENCE},
            "between more than 99% slower and 5,900% faster",
        ),
        (
            {"mean": 1.2, "low": 1.01, "high": 1.4, "verdict": words.NO_DIFFERENCE},
            "20% faster (1% to 40%), not certain among so many comparisons",
        ),
        ({"mean": 1.002, "low": 1.001, "high": 1.003, "verdict": words.NO_DIFFERENCE}, "the same within 0.3%"),
        (
            {"mean": 1.2, "low": None, "high": None, "n": 1, "verdict": words.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
        (
            {"mean": 1.2, "low": 1.1, "high": 1.3, "n": 2, "verdict": words.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
    ],
)
def test_outcomes_in_words(change, wanted):
    assert words.short({}, {"metric": "throughput", "n": 5, **change}) == wanted
    # Of steps of waterfalls, too.
    step = {"ratio": change["mean"], **{name: change[name] for name in ("low", "high", "verdict")}}
    assert words.outcome(THROUGHPUT, step) == wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        # Twice as narrow takes four times as long: three times 200 s more.
        ({"mean": 1.1, "low": 1.1 / 1.21, "high": 1.1 * 1.21}, "10 more minutes would settle it"),
        ({"mean": 1.1, "low": 0.9999, "high": 1.1 * 1.1001}, "1 more minute would settle it"),
        # What would take ten times as long is no advice.
        ({"mean": 1.01, "low": 0.8, "high": 1.28}, "less than 40% cannot be seen in 4 rounds"),
        ({"mean": 1.3, "low": 1.2, "high": 1.4}, None),
        ({"mean": 1.3, "low": 1.2, "high": 1.4, "verdict": "faster"}, None),
        ({"mean": 1.3, "low": None, "high": None, "verdict": words.TOO_FEW}, None),
    ],
)
def test_what_would_settle_it(change, wanted):
    scenario = {"rounds": [{"seconds": 50.0}] * 4}
    assert words.settles(scenario, {"verdict": words.NO_DIFFERENCE, "resolution": 1.4, **change}) == wanted


def test_the_resolution_in_words():
    def scenario(*found: float | None) -> dict:
        comparisons = [{"metric": "pss_mib", "resolution": each} for each in found]
        comparisons.append({"metric": "throughput", "resolution": 9.0})
        return {"metrics": ["pss_mib"], "rounds": [{}] * 7, "analysis": {"comparisons": comparisons}}

    assert words.resolution(scenario(1.04, 1.21, None)) == (
        "The smallest difference that these 7 rounds could have shown is 4% to 21%, by comparison."
    )
    assert words.resolution(scenario(None)) == "One round cannot tell a difference from noise."


def test_disturbed_rounds_are_told():
    def one(number: int, *marks: str) -> dict:
        return {
            "number": number,
            "seconds": 3.0,
            "disturbance": {
                "marks": list(marks),
                "own_cpus": 1.9,
                "other_cpus": 0.25,
                "stolen_cpus": None,
                "throttled_seconds": None,
                "before": {"load": [1.5, 1.0, 0.5]},
            },
        }

    scenario = {"rounds": [one(1), one(2, "other processes used 0.25 of 2 CPUs"), {**one(3), "disturbance": None}]}
    assert words.disturbed(scenario) == ["1 of 3 rounds was disturbed (round 2: other processes used 0.25 of 2 CPUs)."]
    assert words.disturbed({"rounds": [one(1)]}) == []
    table = tables.rounds(scenario)
    assert table.head == ("round", "seconds", "load before", "CPUs used", "by others", "disturbed by")
    assert table.rows[1] == ("2", "3", "1.50", "1.90", "0.25", "other processes used 0.25 of 2 CPUs")
    assert table.rows[2] == ("3", "3", "", "", "", "")


def test_every_chart_has_its_figures_in_its_table(many):
    """Of each scenario's own metric: a row for each contestant, and the chart's values among those of the document."""
    for scenario in many["scenarios"]:
        first = words.metric(scenario)
        found = charts.charts(scenario)
        assert found[0].name == words.slug(f"{scenario['name']}-{first.name}")
        analysed = scenario["analysis"]["contestants"]
        place = found[0].table.head.index(f"median, {first.unit}")
        assert sorted(row[place] for row in found[0].table.rows) == sorted(
            first.write(c["metrics"][first.name]["median"]) for c in analysed
        )
        assert all(chart.alt and chart.caption and chart.table.rows for chart in found)
        ratios = next(c for c in found if c.name.endswith("-ratios"))
        outcomes = [words.short(scenario, c) for c in words.comparisons(scenario, first.name)]
        assert [row[ratios.table.head.index("verdict")] for row in ratios.table.rows] == outcomes


def test_cases_on_an_axis_become_curves(many):
    scenario = entry(many, "sizes")
    measured = charts.charts(scenario)[0].figure
    assert measured.layout.xaxis.type == "log"
    assert list(measured.layout.xaxis.ticktext) == ["64 KiB", "512 KiB", "4 MiB"]
    medians = {c["key"]: c["metrics"]["throughput"]["median"] for c in scenario["analysis"]["contestants"]}
    (line,) = [t for t in measured.data if t.name == "free-threaded: loader threads, x2"]
    assert list(line.x) == [64 * 1024, 512 * 1024, 4096 * 1024]
    assert list(line.y) == [medians[f"ft/loader-thread/2@{case.name}"] for case in documents.SIZES]
    # Twelve curves are too many for one chart: those of one worker have their own, on request.
    others = [c for c in charts.charts(scenario) if c.folded == "1 worker"]
    assert len(measured.data) == 6 and others and "1 worker" in others[0].title


def test_cases_by_name_become_groups_of_bars(many):
    scenario = entry(many, "kinds")
    figure = charts.charts(scenario)[0].figure
    bars = [t for t in figure.data if t.type == "bar"]
    assert len(bars) == 6 and all(len(bar.x) == 4 for bar in bars)  # two cases, one and two workers
    headings = [a.text for a in figure.layout.annotations]
    assert headings == [f"<b>{case.title}, {n} worker{'s' * (n > 1)}</b>" for case in documents.WORK for n in (1, 2)]


def test_many_numbers_of_workers_become_curves_with_deviations(many):
    scenario = entry(many, "workers")
    figure = charts.charts(scenario)[0].figure
    (line,) = [t for t in figure.data if t.name == "free-threaded: loader threads"]
    own = [m for m in series.measured(scenario, "throughput") if m.series == ("ft", "loader-thread")]
    assert list(line.x) == [1, 2, 4, 8]
    assert list(line.y) == pytest.approx([m.mean for m in own])
    assert list(line.error_y.array) == pytest.approx([m.deviation for m in own])


def test_many_numbers_of_workers_under_cases_become_a_chart_for_each(many):
    scenario = documents.scenario(many["scenarios"][0], "scaling", documents.WORK, "work", workers=(1, 2, 4))
    first, *found = [c for c in charts.charts(scenario) if re.fullmatch(r"scaling-throughput(-\d)?", c.name)]
    assert first.title == "Throughput with 4 workers: higher is better"  # all cases in one chart
    assert sum(len(t.x) for t in first.figure.data if t.type == "bar") == len(documents.WORK) * 6
    assert [c.title for c in found] == [f"Throughput: higher is better ({case.title})" for case in documents.WORK]
    for chart, case in zip(found, documents.WORK, strict=True):
        own = {m.key: m.mean for m in series.measured(scenario, "throughput") if m.case == case.name}
        ideal, *lines = chart.figure.data
        assert sorted(y for line in lines for y in line.y) == pytest.approx(sorted(own.values()))
        # Nobody can do more than as many times the best of one worker.
        one = max(value for key, value in own.items() if "/1@" in key)
        assert ideal.name == "ideal" and list(ideal.y) == pytest.approx([one, 2 * one, 4 * one])


def test_distributions_are_kept_with_their_tails(many):
    scenario = entry(many, "steps")
    ((unit, by_key),) = within_trials.pooled(scenario).values()
    values = by_key["ft/loader-thread/2@decode"]
    assert unit == "ms" and len(values) == 50 * documents.ROUNDS and values == sorted(values)
    (box,) = [c for c in charts.charts(scenario) if c.name == "steps-step-times"]
    row = next(r for r in box.table.rows if r[0] == "ft loader threads x2, decode only")
    (own,) = [
        c["distributions"]["step-times"]["percentiles"]["99"]
        for c in scenario["analysis"]["contestants"]
        if c["key"] == "ft/loader-thread/2@decode"
    ]
    assert box.table.head == ("contestant", "values", "median, ms", "90%", "99%", "largest")
    assert row[1] == "250" and row[5] == f"{values[-1]:.4g}"
    assert row[4] == f"{own['median']:.4g} ({own['min']:.4g} to {own['max']:.4g})"


def test_quantiles_are_values_that_were_measured():
    values = [float(n) for n in range(1, 101)]
    assert [spreads.quantile(values, share) for share in (0, 0.01, 0.5, 0.99, 1)] == [1, 1, 50, 99, 100]
    assert spreads.quantile([3.0], 0.5) == 3.0


@pytest.mark.parametrize(
    "value, unit, wanted",
    [
        (64 * 1024, "bytes", "64 KiB"),
        (4 << 20, "bytes", "4 MiB"),
        (1000, "bytes", "1 kB"),
        (10**9, "bytes", "1 GB"),
        (1, "bytes", "1 B"),
        (0, "bytes", "0 B"),
        (0.005, "seconds", "5 ms"),
        (0, "seconds", "0 s"),
        (2, "seconds", "2 s"),
        (1000, "names", "1,000 names"),
        (3, "", "3"),
    ],
)
def test_values_of_an_axis(value, unit, wanted):
    assert series.quantity(value, unit) == wanted


def test_overview_turns_what_should_be_small(many):
    chart = overview.chart(many)
    # One for each size, kind of work and so on: 3 + 2 + 1 + 2. The waterfalls speak for themselves.
    assert len(chart.table.rows) == 8
    flipped = json.loads(json.dumps(many))
    for scenario in flipped["scenarios"]:
        for c in scenario["analysis"]["comparisons"]:
            if c["metric"] == "pss_mib":
                c.update(mean=0.5, low=0.4, high=0.6, verdict="less memory")
        scenario["metrics"].sort(key=lambda name: name != "pss_mib")
    assert overview.chart(flipped).table.rows[0][2:] == ("2.00x", "50% less memory (40% to 60%)")
    assert {x for trace in overview.chart(flipped).figure.data[:1] for x in trace.x} >= {2.0}


def test_page_holds_everything_and_names_no_address(many, page):
    assert page.data("results") == many
    ids = [attributes["data-figure"] for tag, attributes in page.elements if "data-figure" in attributes]
    # The waterfalls before all others, then the overview.
    assert ids[:3] == ["figure-waterfall-pillow", "figure-waterfall-chain", "figure-overview"]
    assert len(ids) == len(set(ids)) == 3 + sum(len(charts.charts(s)) for s in many["scenarios"])
    for name in ids:
        assert page.data(name)["data"]
    for tag, attributes in page.elements:
        assert not {"src", "action", "onclick", "onload", "onerror"} & set(attributes), (tag, attributes)
        assert attributes.get("href", "#").startswith(("#", "data:,")), attributes


def test_picture_of_samples(many, tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    png, entry = buffer.getvalue(), many["scenarios"][0]
    other = next(scenario for scenario in many["scenarios"] if scenario["name"] == "workers")
    document = alone(many, {**entry, "picture": base64.b64encode(png).decode()}, other)
    text = html.page(document).decode()
    assert "<p>Workers: With 8 workers, " in text  # which is not what the waterfall's sentence above it is about
    (source,) = [a["src"] for tag, a in Page(text).elements if tag == "img"]
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == png
    assert dict(report.files(document))["pillow-samples.png"] == png
    for nonsense in ('"><script>', base64.b64encode(b"<svg/>").decode(), None):
        assert words.picture({**entry, "picture": nonsense}) is None


def test_policy_allows_the_pages_scripts_alone(page):
    (policy,) = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    scripts = page.running()
    assert len(scripts) == 2
    for text in scripts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy and "http" not in policy


def test_what_a_screen_reader_finds(many, page):
    for tag, attributes in page.elements:
        if attributes.get("class") == "chart":
            assert attributes["role"] == "img" and len(attributes["aria-label"]) > 40
        if tag == "th":
            assert attributes["scope"] == "col"
        if tag == "button":
            assert attributes["type"] == "button"
    assert ("html", {"lang": "en"}) in page.elements
    links = {a["href"] for tag, a in page.elements if tag == "a"}
    assert links >= {f"#scenario-{words.slug(s['name'])}" for s in many["scenarios"]}
    assert links <= {f"#{a['id']}" for _, a in page.elements if "id" in a}


def test_commands_ask_for_the_same(document):
    """What the page says to repeat a run is understood, and means the options that it was run with."""
    found = {what: shlex.split(line) for what, line in repeat.commands(document)}
    line = found["The same measurement"]
    start = line.index("./twins")
    assert line[start : start + 2] == ["./twins", "bench"]
    given, said = arguments.parse(line[start + 2 :]), document["options"]
    assert [s.name for s in given.scenarios] == said["scenarios"]
    assert (
        given.quick,
        given.rounds,
        list(given.workers),
        given.batch_size,
        str(given.data),
        list(given.configs),
    ) == tuple(said[key] for key in ("quick", "rounds", "workers", "batch_size", "data", "configs"))
    docker = found["The same with Docker"]
    assert docker[0] == f"DATA={said['data']}" and docker[docker.index("--data") + 1] == "/data"


@pytest.mark.parametrize(
    "place, ratio, half, precision",
    [
        ("step", 1.04, 0.06, 0.039),
        ("total", 1.04, 0.06, 0.039),
        ("step", 1.0004, 0.001, 0.001),  # --precision takes no less
        ("step", 4.0, 2.0, 0.05),  # no less precise than the run itself
    ],
)
@pytest.mark.parametrize("where", ["/usr/bin/python3", "unix:/run/ft"], ids=["native", "docker"])
def test_a_run_that_would_settle_it_is_a_longer_one(many, place, ratio, half, precision, where):
    document = json.loads(json.dumps({**many, "waterfalls": many["waterfalls"][1:]}))
    options, (fall,) = document["options"], document["waterfalls"]
    options.update(twins={"ft": where}, data=None)
    for one in (*fall["steps"], fall["total"]):
        one.update(verdict="faster")
    assert repeat.longer(document) == ""
    one = fall["total"] if place == "total" else fall["steps"][1]
    one.update(ratio=ratio, low=ratio / math.exp(half), high=ratio * math.exp(half), verdict=words.NO_DIFFERENCE)
    line = shlex.split(repeat.longer(document))
    given = arguments.parse(line[line.index("ft-bench" if where.startswith("unix:") else "bench") + 1 :])
    assert given.rounds is None and given.budget > options["budget"] and given.precision == precision


def test_summary_in_markdown(many):
    text = report.summary(many)
    for sentence in overview.sentences(many):
        assert markdown.text(words.capital(sentence)) in text
    assert "| ft loader threads / gil loader processes, x2, 64 KiB samples |" in text
    assert "\\`" not in text  # commands are no markup
    # What to use comes last.
    assert text.rstrip().splitlines()[-2] == waterfall.advice(many, many["waterfalls"][1])[1]
    assert "./twins bench" in text and "The smallest difference that these" in text
    # Every row has as many cells as its head: five of a waterfall, two of comparisons.
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert {line.count(" | ") for line in table.splitlines()} in ({4}, {1}), table
    assert all(row.name in text and row.throughput in text for row in waterfall.rows(many, many["waterfalls"][1]))


def test_report_prints_the_summary_and_writes_nothing(finished_run, run_bench, tmp_path):
    (tmp_path / "results.json").write_bytes((finished_run[1] / "results.json").read_bytes())
    done = run_bench("report", tmp_path, "--markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (finished_run[1] / "summary.md").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_pictures_of_every_kind(many):
    for picture in (plot.waterfalls(many), *(plot.png(many, scenario) for scenario in many["scenarios"])):
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"


def test_hostile_text_stays_text_in_the_page(many):
    spoilt = documents.hostile(many)
    page = Page(html.page(spoilt).decode())
    assert page.data("results") == spoilt
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    # The scripts are those of any page; what else is in script elements is JSON.
    assert len([a for tag, a in page.elements if tag == "script" and a.get("type") != "application/json"]) == 2
    assert "{{ 7*7 }}" in "".join(page.shown)
    for _, attributes in page.elements:
        if "data-figure" in attributes:
            drawn = json.dumps(page.data(attributes["data-figure"])["data"])
            drawn += json.dumps(page.data(attributes["data-figure"])["layout"])
            # plotly reads <br>, <b> and <a>: only those that this project writes may be left.
            assert set(re.findall(r"<(/?\w+)", drawn)) <= {"br", "b", "/b", "extra", "/extra"}


@pytest.mark.filterwarnings("ignore::UserWarning")  # glyphs that a font has not, and room that is not there
def test_hostile_text_does_not_reach_the_terminal_or_leave_the_directory(many, tmp_path, capsys):
    spoilt = documents.hostile(many)
    report.show(spoilt, tmp_path)
    out = capsys.readouterr().out
    assert "\x1b" not in out and "[bold red]" in out
    # One is enough of the pictures.
    names = [name for name, _ in report.files(alone(spoilt, spoilt["scenarios"][0], spoilt["scenarios"][1]))]
    assert len(names) == 4 and all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names), names


def test_hostile_text_stays_text_in_markdown(many):
    text = report.summary(documents.hostile(many))
    assert "\x1b" not in text
    # The commands, two failures of the thread-safety suite and the advice of two waterfalls are blocks of code, which
    # nothing in them ends.
    block = re.compile(r"^(`{3,})(?:console|python)\n.*?\n\1$", re.DOTALL | re.MULTILINE)
    assert len(block.findall(text)) == 5
    rest = re.sub(r"^<details><summary>[\w ]+</summary>$|^</details>$", "", block.sub("", text), flags=re.MULTILINE)
    assert "```" not in rest
    for line in rest.splitlines():
        assert not re.search(r"(?<!\\)<(?!!-- -->)", line), line


def test_chart_text_is_escaped():
    assert figures.safe('<a href="x">&amp;\x1b') == '&lt;a href="x"&gt;&amp;amp;\\x1b'
    assert figures.safe("<" * 9, most=3) == "&lt;&lt;…"
