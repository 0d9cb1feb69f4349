"""The unit of a scenario's work, in words: all that reports say differently of a command."""

from __future__ import annotations

from dataclasses import replace

from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.scenario import COMMAND


class Unit:
    """The sample. Speeds are in samples/s: "812", "812 samples/s"."""

    plural = "samples"
    column, changed = "samples/s", "throughput"
    """Headings of columns with speeds and with their changes."""
    in_full, in_short = " samples/s", "/s"
    """Ends of figures."""

    def metric(self, name: str) -> Metric:
        """Return the metric *name*, with this unit in its title and its unit."""
        metric = METRICS[name]
        title, unit = (text.replace("samples", self.plural) for text in (metric.title, metric.unit))
        return replace(metric, title=title, unit=unit)

    def figure(self, throughput: float) -> str:
        """Return a speed for a chart or a table, from the throughput in units/s."""
        return f"{throughput:.0f}"

    def speed(self, throughput: float) -> str:
        """Return a speed for a sentence, from the throughput in units/s."""
        return f"{METRICS['throughput'].write(throughput)} {self.column}"


class CommandUnit(Unit):
    """The run of a user-supplied command. Speeds are in seconds: "3.42 s", "3.42 s a run"."""

    plural = "runs"
    column, changed = "a run", "speed"
    in_full = in_short = ""

    def figure(self, throughput: float) -> str:
        seconds = 1 / throughput
        return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"

    def speed(self, throughput: float) -> str:
        return f"{self.figure(throughput)} {self.column}"


SAMPLE, RUN = Unit(), CommandUnit()


def unit_of(scenario: str) -> Unit:
    """Return the unit of the scenario with this name."""
    return RUN if scenario == COMMAND else SAMPLE
