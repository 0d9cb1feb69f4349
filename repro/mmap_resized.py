# A slice of a memory map that another thread resizes.
#
# Link: https://github.com/python/cpython/pull/139237
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.1
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception)
# Timeout: 60
import mmap
import os
import tempfile
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
file = tempfile.TemporaryFile()
file.truncate(8192)
shared = mmap.mmap(file.fileno(), 8192)


def change():
    for number in range(20_000):
        shared.resize((4096, 8192)[number % 2])


def read():
    for _ in range(100_000):
        shared[5000:8000]


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
