# numpy.repeat() of one array in several threads changes the array's shape for a moment.
#
# Link: https://github.com/numpy/numpy/issues/28197
# Package: numpy
# Fails: 2.2.2
# Fixed: 2.2.3
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: fails (signal, exception)
# Timeout: 60
import os
import threading

import numpy as np

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = np.arange(10)
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for _ in range(10_000):
        assert len(np.repeat(shared, 2, axis=0)) == 20


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
