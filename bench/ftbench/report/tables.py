"""Tables of figures: what each chart shows, for reading, copying and screen readers."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ftbench.plan.candidates import CONFIGS, VARIANTS
from ftbench.plan.metrics import Metric
from ftbench.report import phrases
from ftbench.stats.waterfall import in_each_process


@dataclass(frozen=True)
class Table:
    """Headings and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    """The columns that hold figures, which are lined up on the right."""


def _table(columns: Sequence[tuple[str, bool, Callable]], entries: Sequence) -> Table:
    """A table from (heading, whether it holds figures, text of an entry); columns without any text are left out."""
    texts = [(title, number, [write(entry) for entry in entries]) for title, number, write in columns]
    texts = [(title, number, cells) for title, number, cells in texts if any(cells)]
    return Table(
        tuple(title for title, _, _ in texts),
        tuple(zip(*(cells for _, _, cells in texts), strict=True)),
        frozenset(place for place, (_, number, _) in enumerate(texts) if number),
    )


@dataclass(frozen=True)
class Measured:
    """One candidate's values of one metric, in the metric's unit, one for each round."""

    candidate: dict
    values: tuple[float, ...]
    median: float
    low: float
    high: float

    @property
    def series(self) -> tuple[str, str]:
        """Configuration and variant: what has a colour and a hatching of its own."""
        return self.candidate["config"], self.candidate["variant"]

    @property
    def case(self) -> str:
        """The name of the condition it ran under, "" where the scenario has none."""
        return self.candidate["case"]

    @property
    def workers(self) -> int:
        """How many it had."""
        return self.candidate["workers"]

    @property
    def mean(self) -> float:
        """The arithmetic mean over the rounds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation over the rounds (n - 1), 0 of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


def candidates(scenario: dict, metric: str) -> list[Measured]:
    """Whoever took part in all rounds, in the order of cases, configurations, variants and workers."""
    spreads = {c["key"]: c["metrics"].get(metric) for c in scenario["analysis"]["candidates"]}
    found = [
        Measured(c, tuple(in_each_process(scenario, c["key"], metric)), spread["median"], spread["min"], spread["max"])
        for c in scenario["candidates"]
        if (spread := spreads.get(c["key"]))
    ]
    cases, variants = ["", *(case["name"] for case in scenario["cases"])], [*VARIANTS]

    def place(m: Measured) -> tuple:
        config, variant = m.series
        return cases.index(m.case), CONFIGS.index(config), variants.index(variant), m.workers

    return sorted(found, key=place)


def measured(scenario: dict, metric: Metric) -> Table:
    """What candidates measured of a metric."""
    write = metric.write
    return _table(
        [
            (scenario["case_axis"] or "case", False, lambda m: phrases.case_title(scenario, m.case)),
            ("candidate", False, lambda m: phrases.own_title(m.candidate)),
            (f"median, {metric.unit}", True, lambda m: write(m.median)),
            ("lowest", True, lambda m: write(m.low)),
            ("highest", True, lambda m: write(m.high)),
            ("mean", True, lambda m: write(m.mean)),
            ("standard deviation", True, lambda m: write(m.deviation) if len(m.values) > 1 else ""),
            ("rounds", True, lambda m: str(len(m.values))),
        ],
        candidates(scenario, metric.name),
    )


def ratios(scenario: dict, comparisons: Sequence[dict]) -> Table:
    """Comparisons with their intervals and verdicts."""
    return _table(
        [
            (scenario["case_axis"] or "case", False, lambda c: phrases.case_of(scenario, c)),
            ("comparison", False, lambda c: c["title"]),
            ("ratio", True, lambda c: phrases.times(c["mean"])),
            ("95% CI", True, phrases.interval),
            ("could have seen", True, lambda c: phrases.change(c["resolution"]) if c["resolution"] else ""),
            ("p, adjusted", True, lambda c: "" if c["q"] is None else phrases.probability(c["q"])),
            ("verdict", False, lambda c: phrases.short(c)),
            ("target", False, phrases.target),
        ],
        comparisons,
    )


def outcomes(scenario: dict, comparisons: Sequence[dict]) -> Table:
    """Comparisons in words."""
    return _table(
        [
            ("comparison", False, lambda c: phrases.title_with_case(scenario, c)),
            (f"{phrases.metric(scenario).noun} (95% confidence interval)", False, lambda c: phrases.short(c)),
            ("target", False, phrases.target),
        ],
        comparisons,
    )


def pooled(unit: str, entries: Sequence[tuple[str, dict, Sequence[float]]]) -> Table:
    """Values of all rounds: `entries` are (name, percentiles as the analysis has them, values in order of size).

    Percentiles are those of each round: their median, and from the lowest round to the highest.
    """

    def percentile(which: str) -> Callable[[tuple], str]:
        def write(entry: tuple) -> str:
            found = entry[1].get(which)
            return f"{found['median']:.4g} ({found['min']:.4g} to {found['max']:.4g})" if found else ""

        return write

    return _table(
        [
            ("candidate", False, lambda e: e[0]),
            ("values", True, lambda e: f"{len(e[2]):,}"),
            (f"median, {unit}", True, percentile("50")),
            ("90%", True, percentile("90")),
            ("99%", True, percentile("99")),
            ("smallest", True, lambda e: f"{e[2][0]:.4g}"),
            ("largest", True, lambda e: f"{e[2][-1]:.4g}"),
        ],
        entries,
    )


def rounds(scenario: dict) -> Table:
    """What else the machine did in each round, as far as it could be read."""

    def figure(name: str) -> Callable[[dict], str]:
        def write(one: dict) -> str:
            value = one["disturbance"][name]
            return "" if value is None else f"{value:.2f}"

        return write

    def load(one: dict) -> str:
        values = one["disturbance"]["before"]["load"]
        return f"{values[0]:.2f}" if values else ""

    return _table(
        [
            ("round", True, lambda one: str(one["number"])),
            ("seconds", True, lambda one: f"{one['seconds']:.0f}"),
            ("load before", True, load),
            ("CPUs used", True, figure("own_cpus")),
            ("by others", True, figure("other_cpus")),
            ("stolen", True, figure("stolen_cpus")),
            ("throttled, s", True, figure("throttled_seconds")),
            ("disturbed by", False, lambda one: ", ".join(one["disturbance"]["marks"])),
        ],
        scenario["rounds"],
    )
