"""Errors of the cache."""


class CacheError(RuntimeError):
    """Error of the cache. The message says what the cache cannot do, why, and how to help."""


class DamagedSegmentError(CacheError):
    """Error for a segment file whose head or index is damaged."""


class PartlyListedError(OSError):
    """Raised by ``keys()`` of a source after its last key, if a part of the source could not be listed."""


class CorruptSampleError(CacheError):
    """Error for a damaged sample: its checksum differs, or its file is missing or too short."""
