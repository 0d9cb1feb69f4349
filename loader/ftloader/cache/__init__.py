"""A cache on the local disk that grows while a training job reads
it (``help(GrowingCache)``, docs/cache.md).

The path of a sample:

    source -> fetchers (threads) -> store (budget, eviction) -> segment (a file) -> Snapshot (an
    epoch) -> dataset[i]
"""

from ftloader.cache.arrays import RawArray
from ftloader.cache.errors import CacheError, CorruptSampleError
from ftloader.cache.growing import GrowingCache
from ftloader.cache.sources import Share, Source, UrlSource
from ftloader.cache.statistics import Statistics

__all__ = [
    "CacheError",
    "CorruptSampleError",
    "GrowingCache",
    "RawArray",
    "Share",
    "Source",
    "Statistics",
    "UrlSource",
]
