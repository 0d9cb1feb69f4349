# linecache raises KeyError while another thread clears it.
#
# Link: https://github.com/python/cpython/issues/133253
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: may fail (exception)
# Expected ft-gil: may fail (exception)
# Expected ft: may fail (exception)
# Timeout: 60
import linecache
import os
import sys
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
sys.setswitchinterval(1e-6)


def read():
    try:
        for _ in range(10_000):
            linecache.getlines(linecache.__file__)
    finally:
        readers.pop()


def clear():
    while readers:
        linecache.clearcache()


readers = [None] * (THREADS - 1)
threads = [threading.Thread(target=read) for _ in readers] + [threading.Thread(target=clear)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
