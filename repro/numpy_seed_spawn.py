# Two threads that spawn from one numpy.random.SeedSequence get the same seeds.
#
# Link: https://github.com/numpy/numpy/issues/32063
# Expected gil: may fail (wrong result, exception)
# Expected ft-gil: may fail (wrong result, exception)
# Expected ft: may fail (wrong result, exception)
# Timeout: 60
import os
import sys
import threading

import numpy as np

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
sys.setswitchinterval(1e-5)
shared = np.random.SeedSequence(0)
start = threading.Barrier(THREADS)
keys = []


def work():
    start.wait()
    for _ in range(2000):
        keys.append(shared.spawn(1)[0].spawn_key)


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(len(set(keys)) != len(keys))
