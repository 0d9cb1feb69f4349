"""Errors of the cache."""


class CacheError(RuntimeError):
    """Error of the cache. The message says what the cache cannot do, why, and what the user can do."""


class PartlyListedError(OSError):
    """Error for a source that could be listed only in part. ``keys()`` raises it after the last key found."""


class CorruptSampleError(CacheError):
    """Error for a damaged sample: its checksum differs, or its file is missing, unreadable or too short."""
