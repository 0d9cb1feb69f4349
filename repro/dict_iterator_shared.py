# One iterator over a dict in several threads frees the dict twice.
#
# Link: https://github.com/python/cpython/issues/154130
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception)
# Timeout: 60
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))


def work(start, items):
    start.wait()
    for _ in items:
        pass


for _ in range(2000):
    items = iter(dict.fromkeys(range(3)))
    start = threading.Barrier(THREADS)
    threads = [threading.Thread(target=work, args=(start, items)) for _ in range(THREADS)]
    del items
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
