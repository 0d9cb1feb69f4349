"""What a cache has done, as numbers and as one line."""

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counted from the begin, in this process alone; ``later - earlier`` is what happened between the two."""

    seconds: float
    samples: int
    """Complete, at this moment."""
    epoch_samples: int
    bytes_used: int
    """Of the budget, at this moment."""
    max_bytes: int
    oldest: float
    """Age of the epoch's oldest sample, in seconds."""
    fetched: int
    fetched_bytes: int
    retried: int
    failed: int
    read: int
    """Samples read from the cache. (Not those that worker processes read.)"""
    read_bytes: int
    evictions: int
    """Segments."""
    fetchers_waited: float
    """Seconds that the fetchers had no room, all together."""
    epochs_waited: float
    """Seconds that ``set_epoch`` waited for samples."""
    trouble: str
    """What went wrong with the latest sample; empty if nothing did."""

    def __sub__(self, earlier: "Statistics") -> "Statistics":
        counts = (
            "seconds fetched fetched_bytes retried failed read read_bytes evictions fetchers_waited epochs_waited"
        ).split()
        return dataclasses.replace(self, **{name: getattr(self, name) - getattr(earlier, name) for name in counts})

    @property
    def fetched_per_second(self) -> float:
        """Bytes."""
        return self.fetched_bytes / self.seconds if self.seconds else 0.0

    @property
    def read_per_second(self) -> float:
        """Bytes."""
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
    """Shows what happened in the last *every* seconds, again and again. On a terminal, a line takes the place of the
    one before."""
    file = sys.stderr if file is None else file
    terminal, ended = file.isatty(), threading.Event()

    def show() -> None:
        before = statistics()
        while not ended.wait(every):
            now = statistics()
            print(
                f"\r{now - before}\33[K" if terminal else now - before,
                end="" if terminal else "\n",
                file=file,
                flush=True,
            )
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
