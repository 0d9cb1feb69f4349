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
    above: str
    """Word that follows the percentage by which a value is larger: "faster" in "10% faster"."""
    below: str
    multiple: str
    """Words that follow a factor: "as fast" in "2.1 times as fast"."""
    best: str = "lower"
    """The better direction: "higher" or "lower"."""
    ideal: str = ""
    """The best possible value: "1", "workers" (the number of workers), or "" if there is none."""
    of_turns: bool = False
    """True if a trial with turns has the value of its mean turn."""
    answers: bool = False
    """True if a report also has a sentence on this metric
    where it is not the main metric of a scenario.
    """

    @property
    def noun(self) -> str:
        """The title for use inside a sentence: its first letter is in lower case,
        unless it begins an acronym.
        """
        if self.title[:2].isupper():
            return self.title
        return self.title[0].lower() + self.title[1:]

    def write(self, value: float) -> str:
        """Format a value, without its unit. A small value has three significant digits."""
        text = format(value, self.figure)
        if not value:
            return text
        digits = DIGITS - 1 - math.floor(math.log10(abs(value)))
        if digits <= len(text.partition(".")[2]):
            return text
        return f"{value:.{min(digits, MOST_DECIMALS)}f}"


MAX, SUM, ONE = "times max(load, train)", "times (load + train)", "times one worker"
ALONE = "times the step alone"
METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "throughput",
            "Throughput",
            "samples/s",
            ".0f",
            "faster",
            "slower",
            "as fast",
            "higher",
            of_turns=True,
        ),
        Metric(
            "slowest_rank",
            "Throughput of the slowest rank",
            "samples/s",
            ".0f",
            "faster",
            "slower",
            "as fast",
            "higher",
        ),
        Metric(
            "gb_per_s",
            "Data rate",
            "GB/s",
            ".2f",
            "faster",
            "slower",
            "as fast",
            "higher",
            of_turns=True,
        ),
        Metric(
            "cpu_per_1000",
            "CPU time per 1,000 samples",
            "s",
            ".2f",
            "more CPU time",
            "less CPU time",
            "as much CPU time",
        ),
        Metric(
            "overhead_us",
            "Overhead per sample",
            "µs",
            ".2f",
            "more overhead",
            "less overhead",
            "as much overhead",
            of_turns=True,
        ),
        Metric(
            "time_to_first_batch", "Time to first batch", "s", ".3f", "later", "sooner", "as long"
        ),
        Metric(
            "epoch_gap",
            "From epoch to epoch, new workers",
            "s",
            ".3f",
            "later",
            "sooner",
            "as long",
            answers=True,
        ),
        Metric(
            "epoch_gap_persistent",
            "From epoch to epoch, persistent workers",
            "s",
            ".4f",
            "later",
            "sooner",
            "as long",
        ),
        Metric(
            "worker_setup",
            "Time to a worker's first image",
            "s",
            ".3f",
            "later",
            "sooner",
            "as long",
        ),
        Metric(
            "gpu_mib_per_worker",
            "GPU memory per worker",
            "MiB",
            ".0f",
            "more GPU memory",
            "less GPU memory",
            "as much GPU memory",
        ),
        # Of a command.
        Metric(
            "peak_mib",
            "Peak memory of its largest process",
            "MiB",
            ".0f",
            "more memory",
            "less memory",
            "as much memory",
        ),
        # ftbench.machine.usage.Usage.total.
        Metric(
            "memory_mib",
            "Peak memory",
            "MiB",
            ".0f",
            "more memory",
            "less memory",
            "as much memory",
        ),
        Metric(
            "uss_mib",
            "Peak memory of their own (USS)",
            "MiB",
            ".0f",
            "more own memory",
            "less own memory",
            "as much own memory",
        ),
        Metric(
            "slowdown_python",
            "Step in Python while loading",
            ALONE,
            ".2f",
            "longer",
            "shorter",
            "as long",
            ideal="1",
        ),
        Metric(
            "slowdown_torch",
            "Step in torch while loading",
            ALONE,
            ".2f",
            "longer",
            "shorter",
            "as long",
            ideal="1",
        ),
        Metric(
            "slowdown_half",
            "Step in Python, half the rate",
            ALONE,
            ".2f",
            "longer",
            "shorter",
            "as long",
            ideal="1",
        ),
        Metric("epoch_seconds", "Time per epoch", "s", ".2f", "slower", "faster", "as long"),
        Metric(
            "operation_ns",
            "Time of an operation",
            "ns",
            ",.1f",
            "longer",
            "shorter",
            "as long",
            of_turns=True,
        ),
        Metric(
            "step_over_max",
            "Step over max(load, train)",
            MAX,
            ".2f",
            "worse",
            "better",
            "as large",
            ideal="1",
        ),
        Metric(
            "step_over_sum", "Step over load + train", SUM, ".2f", "larger", "smaller", "as large"
        ),
        Metric(
            "scaling",
            "Scaling over one worker",
            ONE,
            ".2f",
            "better",
            "worse",
            "as large",
            "higher",
            "workers",
        ),
        Metric(
            "utilisation", "Utilisation", "%", ".0f", "busier", "less busy", "as busy", "higher"
        ),
    )
}
"""All metrics, by name."""
