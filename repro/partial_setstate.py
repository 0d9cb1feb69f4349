# A functools.partial whose __setstate__ one thread calls while another calls the partial.
#
# Link: https://github.com/python/cpython/issues/157841
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import functools
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = functools.partial(max, 0)


def change():
    for number in range(50_000):
        shared.__setstate__((max, (number, number + 1), {}, None))


def read():
    for _ in range(50_000):
        repr(shared)
        shared(3)


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
