# Not a bug: functools.lru_cache calls the function once for each thread that comes before the first result is there.
#
# Link: https://github.com/python/cpython/pull/141869
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 300
import functools
import os
import sys
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
inside = threading.Barrier(THREADS, timeout=100)
calls = []


@functools.lru_cache
def load():
    calls.append(None)
    inside.wait()  # until every thread is in this function at the same time


threads = [threading.Thread(target=load) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(calls), "calls of a cached function")
sys.exit(len(calls) != 1)
