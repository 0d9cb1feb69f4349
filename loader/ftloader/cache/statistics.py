"""Statistics of a cache, as numbers and as one line."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics of a cache object since its creation. ``later - earlier`` has the counts of the
    time between them.
    """

    seconds: float = 0.0
    samples: int = 0  # complete samples at this moment
    epoch_samples: int = 0
    bytes_used: int = 0  # bytes of the budget in use at this moment
    max_bytes: int = 0
    oldest: float = 0.0  # age of the epoch's oldest sample in seconds
    fetched: int = 0
    fetched_bytes: int = 0
    retried: int = 0
    failed: int = 0
    failed_listings: int = 0  # number of times that the source could not be listed
    read: int = 0  # samples read from the cache, without those that worker processes read
    read_bytes: int = 0
    evictions: int = 0  # evicted segments
    # seconds for which fetchers waited for room, summed over the threads
    fetchers_waited: float = 0.0
    epochs_waited: float = 0.0  # seconds for which ``set_epoch`` waited for samples
    trouble: str = ""  # error of the latest sample; empty if there was none

    def __sub__(self, earlier: "Statistics") -> "Statistics":
        counts = (
            "seconds fetched fetched_bytes retried failed failed_listings read read_bytes "
            "evictions fetchers_waited epochs_waited"
        ).split()
        return dataclasses.replace(
            self, **{name: getattr(self, name) - getattr(earlier, name) for name in counts}
        )

    @property
    def fetched_per_second(self) -> float:
        """Bytes fetched per second, the average over ``seconds``."""
        return self._per_second(self.fetched_bytes)

    @property
    def read_per_second(self) -> float:
        """Bytes read per second, the average over ``seconds``."""
        return self._per_second(self.read_bytes)

    def _per_second(self, count: int) -> float:
        if not self.seconds:
            return 0.0
        return count / self.seconds

    def __str__(self) -> str:
        parts = [
            f"{self.samples} samples, {self.epoch_samples} in this epoch, oldest "
            f"{self.oldest:.0f} s"
        ]
        if self.max_bytes:
            parts.append(f"{_size(self.bytes_used)} of {_size(self.max_bytes)}")
        parts += [
            f"in {_size(self.fetched_per_second)}/s, out {_size(self.read_per_second)}/s",
            f"waited {self.epochs_waited:.1f} s for samples",
        ]
        if self.failed_listings:
            parts.append(f"the source could not be listed {self.failed_listings} times")
        if self.failed or self.trouble:
            parts.append(f"{self.failed} failed, {self.trouble or 'none now'}")
        return "; ".join(parts)


def _size(nbytes: float) -> str:
    """Return the size *nbytes* as a string with a unit, for example "12 MB"."""
    units = (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes")
    size, name = next((unit for unit in units if nbytes >= unit[0]), units[-1])
    number = nbytes / size
    if number >= 10:
        return f"{number:.0f} {name}"
    return f"{number:.1f}".removesuffix(".0") + f" {name}"
