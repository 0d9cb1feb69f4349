# One csv.reader that several threads read rows from.
#
# Link: https://github.com/python/cpython/pull/141365
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.1
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import csv
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
start = threading.Barrier(THREADS)
rows = csv.reader(iter(["1,abc,def,ghi"] * 200_000))


def work():
    start.wait()
    for row in rows:
        assert row == ["1", "abc", "def", "ghi"], row


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
