# One array.array that a thread empties and fills while another reads it.
#
# Link: https://github.com/python/cpython/issues/128942
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import array
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = array.array("i", range(10))


def change():
    for _ in range(60_000):
        shared.clear()
        shared.extend(range(10))


def read():
    for _ in range(100_000):
        try:
            shared[0]
            shared.tolist()
        except IndexError:
            pass  # the array was empty, which is fair


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
