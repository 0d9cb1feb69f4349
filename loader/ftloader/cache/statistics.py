"""What a cache has done, as numbers and as one line."""

import dataclasses


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
