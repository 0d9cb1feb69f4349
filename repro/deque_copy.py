# A copy of a collections.deque that another thread changes.
#
# Link: https://github.com/python/cpython/issues/144809
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.4
# Expected gil: ok
# Expected ft-gil: may fail (exception)
# Expected ft: may fail (exception, signal)
# Timeout: 60
import collections
import copy
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = collections.deque(range(1000))


def change():
    for number in range(50_000):
        shared.append(number)
        shared.popleft()


def read():
    for _ in range(50):
        copy.copy(shared)


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
