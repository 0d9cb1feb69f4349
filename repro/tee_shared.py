# One itertools.tee iterator in several threads: not safe by its documentation, and crashes.
#
# Link: https://github.com/python/cpython/issues/153062
# Expected gil: may fail (exception)
# Expected ft-gil: may fail (exception)
# Expected ft: may fail (signal, exception)
# Timeout: 60
import itertools
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))


def work(start, items):
    start.wait()
    for _ in items:
        pass


for _ in range(100):
    items, _ = itertools.tee(iter(range(2000)))
    start = threading.Barrier(THREADS)
    threads = [threading.Thread(target=work, args=(start, items)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
