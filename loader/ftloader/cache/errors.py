"""What the cache raises."""


class CacheError(RuntimeError):
    """The cache cannot do what was asked of it; the text says why, and what would help."""


class DamagedSegmentError(CacheError):
    """A file is the cache's, and damaged where it says what is in it."""


class CorruptSampleError(CacheError):
    """A sample is not what was written: its checksum differs, or its file is gone or too short."""
