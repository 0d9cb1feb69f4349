# Not a bug: list.append is atomic in both builds.
#
# Link: https://github.com/python/cpython/issues/124366
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: ok
# Timeout: 300
import os
import sys
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
EACH = 200_000
items = []
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for number in range(EACH):
        items.append(number)


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(len(items) != THREADS * EACH)
