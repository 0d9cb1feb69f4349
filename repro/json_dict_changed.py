# json.dumps() of a dict whose values other threads replace: it uses items that have been freed.
#
# Link: https://github.com/python/cpython/issues/157105
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import json
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = {str(number): [number] for number in range(200)}


def read():
    for _ in range(2000):
        json.dumps(shared)
    readers.pop()


def change():
    number = 0
    while readers:
        number += 1
        shared[str(number % 200)] = [number]


readers = [None] * (THREADS // 2)
threads = [threading.Thread(target=work) for work in (read, change) for _ in range(len(readers))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
