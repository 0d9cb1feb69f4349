# Not of the GIL: a logger's handler is skipped while the one before it is being removed.
#
# Link: https://github.com/python/cpython/issues/79366
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.15
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import logging
import sys


class Once(logging.Handler):
    def emit(self, record):
        log.removeHandler(self)


class Count(logging.Handler):
    seen = 0

    def emit(self, record):
        Count.seen += 1


log = logging.getLogger("gallery")
log.propagate = False
log.addHandler(Once())
log.addHandler(Count())
log.warning("one")
sys.exit(Count.seen != 1)
