# repr() of a types.SimpleNamespace while other threads change it.
#
# Link: https://github.com/python/cpython/issues/135878
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.6
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception)
# Timeout: 60
import os
import threading
import types

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = types.SimpleNamespace(x=[0])


def change():
    number = 0
    while readers:
        number += 1
        # What was there before has no other reference: it is freed while it is being read.
        shared.x = [str(number)] * 20
        shared.x = {"number": number}
        shared.x = str(number) * 9


def read():
    for _ in range(100_000):
        repr(shared)
    readers.pop()


readers = [None] * (THREADS // 2)
threads = [threading.Thread(target=read) for _ in readers] + [threading.Thread(target=change)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
