# Not a bug: functools.cached_property has had no lock since 3.12, so its function may run once for each thread.
#
# Link: https://github.com/python/cpython/issues/87634
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


class Dataset:
    @functools.cached_property
    def index(self):
        calls.append(None)
        inside.wait()  # until every thread is in this function at the same time


dataset = Dataset()


def work():
    return dataset.index


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(calls), "calls of a cached property")
sys.exit(len(calls) != 1)
