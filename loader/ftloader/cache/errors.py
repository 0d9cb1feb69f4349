"""Errors of the cache.

CacheError
    CorruptSampleError
    PartlyListedError       also an OSError

``CacheError`` is an ``FtloaderError`` and a ``RuntimeError``. Wrong arguments raise ``ValueError``
or ``TypeError``, the disk ``OSError``.
"""

from ftloader.errors import FtloaderError


class CacheError(FtloaderError, RuntimeError):
    """Error of the cache. The message says what the cache cannot do,
    why, and what the user can do.
    """


class CorruptSampleError(CacheError):
    """Error for a damaged sample: its checksum differs,
    or its file is missing, unreadable or too short.
    """


class PartlyListedError(OSError, CacheError):
    """Error for a source that could be listed only in part.
    ``keys()`` raises it after the last key.
    """
