# unittest.mock.ThreadingMock, which is made for threads, loses calls.
#
# Link: https://github.com/python/cpython/issues/150175
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.14
# Expected gil: may fail (wrong result)
# Expected ft-gil: may fail (wrong result)
# Expected ft: may fail (wrong result)
# Timeout: 60
import os
import sys
import threading
from unittest import mock

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
CALLS = 3000
sys.setswitchinterval(1e-6)
shared = mock.ThreadingMock()
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for _ in range(CALLS):
        shared()


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(shared.call_count != THREADS * CALLS)
