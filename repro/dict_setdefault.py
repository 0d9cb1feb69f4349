# Not a bug: dict.setdefault is atomic, so all threads see the value of the first.
#
# Link: https://github.com/python/cpython/issues/150708
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: ok
# Timeout: 300
import os
import sys
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
KEYS = 100_000
shared = {}
seen = []
start = threading.Barrier(THREADS)


def work():
    start.wait()
    mine = object()
    seen.append([shared.setdefault(key, mine) for key in range(KEYS)])


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(any(values != seen[0] for values in seen))
