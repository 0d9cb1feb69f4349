"""Errors of the cache."""


class CacheError(RuntimeError):
    """Error for something that the cache cannot do. The message says why, and what would help."""


class DamagedSegmentError(CacheError):
    """Error for a segment of this cache whose head or index is damaged."""


class CorruptSampleError(CacheError):
    """Error for a sample that is not what was written: its checksum differs, or its file is missing or too short."""
