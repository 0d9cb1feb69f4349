# One itertools.islice iterator in several threads gives more items than it should.
#
# Link: https://github.com/python/cpython/issues/151409
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (wrong result, signal)
# Timeout: 300
import itertools
import os
import sys
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
ITEMS = 2000


def work():
    start.wait()
    given.append(sum(1 for _ in items))


for _ in range(300):
    items, given = itertools.islice(itertools.repeat(None), ITEMS), []
    start = threading.Barrier(THREADS)
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sum(given) != ITEMS:
        sys.exit(f"{sum(given)} items instead of {ITEMS}")
