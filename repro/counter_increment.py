# A counter that threads increment without a lock: the load, the addition and the store are three steps.
#
# Link: https://github.com/python/cpython/issues/124366
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: fails (wrong result)
# Timeout: 300
import os
import sys
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
EACH = 2_000_000
counter = 0
start = threading.Barrier(THREADS)


def work():
    global counter
    start.wait()
    for _ in range(EACH):
        counter += 1


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(counter, "of", THREADS * EACH)
sys.exit(counter != THREADS * EACH)
