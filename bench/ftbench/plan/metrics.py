"""The metrics: their units, and the words for a ratio above and below 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Significant digits of a small value, and its largest number of decimals.
DIGITS, MOST_DECIMALS = 3, 6


@dataclass(frozen=True)
class Metric:
    """One measured quantity, its unit, and the words for a ratio above and below 1."""

    name: str
    title: str
    unit: str
    above: str
    below: str
    figure: str
    """Format specification of a value."""
    best: str
    """The better direction: "higher" or "lower"."""
    ideal: str = ""
    """The best possible value: "1", "workers" (their number), or "" if there is none."""

    @property
    def noun(self) -> str:
        """Title inside a sentence."""
        return self.title if self.title[:2].isupper() else self.title[0].lower() + self.title[1:]

    def write(self, value: float) -> str:
        """Return a value in figures, without its unit; a small one with three significant digits."""
        text = format(value, self.figure)
        digits = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
        return text if digits <= len(text.partition(".")[2]) else f"{value:.{min(digits, MOST_DECIMALS)}f}"


def _late(name: str, title: str, figure: str = ".3f") -> Metric:
    """Return a metric of the seconds until something is there."""
    return Metric(name, title, "s", "later", "sooner", figure, "lower")


def _much(name: str, title: str, unit: str, what: str, figure: str = ".0f") -> Metric:
    """Return a metric of something that is used up."""
    return Metric(name, title, unit, f"more {what}", f"less {what}", figure, "lower")


def _slow(name: str, title: str, unit: str) -> Metric:
    """Return a metric of the time that a repeated step takes."""
    return Metric(name, title, unit, "slower", "faster", ".2f", "lower")


MAX, SUM, ONE = "times max(load, train)", "times (load + train)", "times one worker"
METRICS = {
    metric.name: metric
    for metric in (
        Metric("throughput", "Throughput", "samples/s", "faster", "slower", ".0f", "higher"),
        Metric("gb_per_s", "Data rate", "GB/s", "faster", "slower", ".2f", "higher"),
        _much("cpu_per_1000", "CPU time per 1,000 samples", "s", "CPU time", ".2f"),
        _much("overhead_us", "Overhead per sample", "µs", "overhead", ".2f"),
        _late("time_to_first_batch", "Time to first batch"),
        _late("epoch_gap", "From epoch to epoch, new workers"),
        _late("epoch_gap_persistent", "From epoch to epoch, persistent workers", ".4f"),
        _late("worker_setup", "Time to a worker's first image"),
        _much("gpu_mib_per_worker", "GPU memory per worker", "MiB", "GPU memory"),
        _much("pss_mib", "Peak memory (PSS)", "MiB", "memory"),
        _much("uss_mib", "Peak memory of their own (USS)", "MiB", "memory of their own"),
        _slow("step_median_ms", "Median step", "ms"),
        _slow("step_p99_ms", "99th percentile of steps", "ms"),
        _slow("epoch_seconds", "Time per epoch", "s"),
        Metric("operation_ns", "Time of an operation", "ns", "longer", "shorter", ",.1f", "lower"),
        Metric("step_over_max", "Step over max(load, train)", MAX, "worse", "better", ".2f", "lower", "1"),
        Metric("step_over_sum", "Step over load + train", SUM, "larger", "smaller", ".2f", "lower"),
        Metric("scaling", "Scaling over one worker", ONE, "better", "worse", ".2f", "higher", "workers"),
        Metric("utilisation", "Utilisation", "%", "busier", "less busy", ".0f", "higher"),
    )
}
