"""Errors of the cache."""


class CacheError(RuntimeError):
    """Error for something that the cache cannot do. The message says why, and what would help."""


class DamagedSegmentError(CacheError):
    """Error for a segment file whose head or index is damaged."""


class PartlyListedError(OSError):
    """Raised by ``keys()`` of a source after its last key, if a part of the source could not be listed."""


class CorruptSampleError(CacheError):
    """Error for a damaged sample: its checksum differs, or its file is missing or too short."""
