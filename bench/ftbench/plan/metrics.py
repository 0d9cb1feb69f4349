"""The quantities that are measured, and their units."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Significant digits of a small value, and its largest number of decimals.
DIGITS, MOST_DECIMALS = 3, 6


@dataclass(frozen=True)
class Metric:
    """One measured quantity and its unit."""

    name: str
    title: str
    unit: str
    figure: str
    """Format specification of a value."""
    best: str = "lower"
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


MAX, SUM, ONE = "times max(load, train)", "times (load + train)", "times one worker"
METRICS = {
    metric.name: metric
    for metric in (
        Metric("throughput", "Throughput", "samples/s", ".0f", "higher"),
        Metric("gb_per_s", "Data rate", "GB/s", ".2f", "higher"),
        Metric("cpu_per_1000", "CPU time per 1,000 samples", "s", ".2f"),
        Metric("overhead_us", "Overhead per sample", "µs", ".2f"),
        Metric("time_to_first_batch", "Time to first batch", "s", ".3f"),
        Metric("epoch_gap", "From epoch to epoch, new workers", "s", ".3f"),
        Metric("epoch_gap_persistent", "From epoch to epoch, persistent workers", "s", ".4f"),
        Metric("worker_setup", "Time to a worker's first image", "s", ".3f"),
        Metric("gpu_mib_per_worker", "GPU memory per worker", "MiB", ".0f"),
        Metric("pss_mib", "Peak memory (PSS)", "MiB", ".0f"),
        Metric("uss_mib", "Peak memory of their own (USS)", "MiB", ".0f"),
        Metric("step_median_ms", "Median step", "ms", ".2f"),
        Metric("step_p99_ms", "99th percentile of steps", "ms", ".2f"),
        Metric("epoch_seconds", "Time per epoch", "s", ".2f"),
        Metric("operation_ns", "Time of an operation", "ns", ",.1f"),
        Metric("step_over_max", "Step over max(load, train)", MAX, ".2f", ideal="1"),
        Metric("step_over_sum", "Step over load + train", SUM, ".2f"),
        Metric("scaling", "Scaling over one worker", ONE, ".2f", "higher", "workers"),
        Metric("utilisation", "Utilisation", "%", ".0f", "higher"),
    )
}
"""By name. ftbench.report.verdict_words.COMPARED has the words for a larger and a smaller value of each."""
