# One bytearray that a thread empties and fills while another copies and searches it.
#
# Link: https://github.com/python/cpython/issues/129107
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = bytearray(1000)


def change():
    for number in range(100_000):
        shared.clear()
        shared.extend(bytes(number % 1000))


def read():
    for _ in range(100_000):
        shared.copy()
        shared.find(b"x")


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
