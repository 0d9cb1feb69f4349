"""Statistics of a cache, as numbers and as one line."""

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts since the start, of this process alone. ``later - earlier`` is what happened in between."""

    seconds: float
    samples: int
    """Complete samples at this moment."""
    epoch_samples: int
    bytes_used: int
    """Bytes of the budget in use at this moment."""
    max_bytes: int
    oldest: float
    """Age of the epoch's oldest sample in seconds."""
    fetched: int
    fetched_bytes: int
    retried: int
    failed: int
    read: int
    """Samples read from the cache, without those that worker processes read."""
    read_bytes: int
    evictions: int
    """Evicted segments."""
    fetchers_waited: float
    """Seconds for which fetchers waited for room, summed over the threads."""
    epochs_waited: float
    """Seconds for which ``set_epoch`` waited for samples."""
    trouble: str
    """Error of the latest sample; empty if there was none."""

    def __sub__(self, earlier: "Statistics") -> "Statistics":
        counts = "seconds fetched fetched_bytes retried failed read read_bytes evictions fetchers_waited epochs_waited"
        return dataclasses.replace(
            self, **{name: getattr(self, name) - getattr(earlier, name) for name in counts.split()}
        )

    @property
    def fetched_per_second(self) -> float:
        """Bytes fetched per second."""
        return self.fetched_bytes / self.seconds if self.seconds else 0.0

    @property
    def read_per_second(self) -> float:
        """Bytes read per second."""
        return self.read_bytes / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        parts = [
            f"{self.samples} samples, {self.epoch_samples} in this epoch, oldest {self.oldest:.0f} s",
            f"{self.bytes_used / 1e9:.2f} of {self.max_bytes / 1e9:.2f} GB",
            f"in {self.fetched_per_second / 1e6:.0f} MB/s, out {self.read_per_second / 1e6:.0f} MB/s",
            f"waited {self.epochs_waited:.1f} s for samples",
        ]
        if self.failed or self.trouble:
            parts.append(f"{self.failed} failed, {self.trouble or 'none now'}")
        return "; ".join(parts)


@contextlib.contextmanager
def live_line(statistics: Callable[[], Statistics], every: float, file: TextIO | None) -> Iterator[None]:
    """Show every *every* seconds what happened since the line before. On a terminal each line replaces the last."""
    file = sys.stderr if file is None else file
    terminal, ended = file.isatty(), threading.Event()
    start, end = ("\r", "\33[K") if terminal else ("", "\n")

    def show() -> None:
        before = statistics()
        while not ended.wait(every):
            now = statistics()
            print(start, now - before, sep="", end=end, file=file, flush=True)
            before = now

    thread = threading.Thread(target=show, name="cache-live-line", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if terminal:
            print(file=file)
