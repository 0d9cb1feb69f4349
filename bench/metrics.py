"""The quantities that are measured: their units, and what a ratio of them above or below 1 means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One measured quantity, its unit, and the verdicts for a ratio above and below 1."""

    name: str
    title: str
    unit: str
    above: str
    below: str
    figure: str
    """How a value is written, as a format specification."""
    best: str
    """Which end is good: "higher" or "lower"."""
    verb: str
    """What goes before `above` and `below` in a sentence about contestants."""

    @property
    def noun(self) -> str:
        """The title inside a sentence."""
        return self.title[0].lower() + self.title[1:]

    def write(self, value: float) -> str:
        """A value in figures, without its unit."""
        return format(value, self.figure)


METRICS = {metric.name: metric for metric in (
    Metric("throughput", "Throughput", "samples/s", "faster", "slower", ".0f", "higher", "are"),
    Metric("overhead_us", "Overhead per sample", "µs", "more overhead", "less overhead", ".2f", "lower",
           "have"),
    Metric("time_to_first_batch", "Time to first batch", "s", "later", "sooner", ".3f", "lower",
           "give the first batch"),
    Metric("pss_mib", "Peak memory (PSS)", "MiB", "more memory", "less memory", ".0f", "lower", "take"),
)}
