"""The quantities that are measured: their units, and what a ratio of them above or below 1 means."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Significant digits of a small value, and the decimals that it has at most.
DIGITS, MOST_DECIMALS = 3, 6


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
    ideal: str = ""
    """What nothing can be better than, "1" or "workers" (as many as there are); "" for nothing of the kind."""

    @property
    def noun(self) -> str:
        """The title inside a sentence."""
        return self.title if self.title[:2].isupper() else self.title[0].lower() + self.title[1:]

    def write(self, value: float) -> str:
        """A value in figures, without its unit; small ones with so many digits that three of them say something."""
        text = format(value, self.figure)
        digits = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
        return text if digits <= len(text.partition(".")[2]) else f"{value:.{min(digits, MOST_DECIMALS)}f}"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("throughput", "Throughput", "samples/s", "faster", "slower", ".0f", "higher", "are"),
        Metric("gb_per_s", "Data rate", "GB/s", "faster", "slower", ".2f", "higher", "are"),
        Metric(
            "cpu_per_1000", "CPU time per 1,000 samples", "s", "more CPU time", "less CPU time", ".2f", "lower", "take"
        ),
        Metric("overhead_us", "Overhead per sample", "µs", "more overhead", "less overhead", ".2f", "lower", "have"),
        Metric(
            "time_to_first_batch", "Time to first batch", "s", "later", "sooner", ".3f", "lower", "give the first batch"
        ),
        Metric(
            "epoch_gap",
            "From epoch to epoch, new workers",
            "s",
            "later",
            "sooner",
            ".3f",
            "lower",
            "begin the next epoch",
        ),
        Metric(
            "epoch_gap_persistent",
            "From epoch to epoch, persistent workers",
            "s",
            "later",
            "sooner",
            ".4f",
            "lower",
            "begin the next epoch",
        ),
        Metric(
            "worker_setup",
            "Time to a worker's first image",
            "s",
            "later",
            "sooner",
            ".3f",
            "lower",
            "have their first image",
        ),
        Metric(
            "gpu_mib_per_worker",
            "GPU memory per worker",
            "MiB",
            "more GPU memory",
            "less GPU memory",
            ".0f",
            "lower",
            "take",
        ),
        Metric("pss_mib", "Peak memory (PSS)", "MiB", "more memory", "less memory", ".0f", "lower", "take"),
        Metric("step_median_ms", "Median step", "ms", "slower", "faster", ".2f", "lower", "make steps"),
        Metric(
            "step_p99_ms",
            "99th percentile of steps",
            "ms",
            "slower",
            "faster",
            ".2f",
            "lower",
            "make the slowest steps",
        ),
        Metric(
            "step_over_max",
            "Step over max(load, train)",
            "times max(load, train)",
            "worse",
            "better",
            ".2f",
            "lower",
            "overlap",
            "1",
        ),
        Metric(
            "step_over_sum",
            "Step over load + train",
            "times (load + train)",
            "a larger part",
            "a smaller part",
            ".2f",
            "lower",
            "take of the sum",
        ),
        Metric(
            "scaling",
            "Scaling over one worker",
            "times one worker",
            "better",
            "worse",
            ".2f",
            "higher",
            "scale",
            "workers",
        ),
        Metric("operation_ns", "Time of an operation", "ns", "longer", "shorter", ",.1f", "lower", "take"),
        Metric("epoch_seconds", "Time per epoch", "s", "slower", "faster", ".2f", "lower", "train"),
        Metric("utilisation", "Utilisation", "%", "busier", "less busy", ".0f", "higher", "keep what trains"),
        Metric(
            "uss_mib",
            "Peak memory of their own (USS)",
            "MiB",
            "more memory of their own",
            "less memory of their own",
            ".0f",
            "lower",
            "take",
        ),
    )
}
