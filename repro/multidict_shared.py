# One multidict in several threads (from 6.8.0 its wheels for 3.13t are of Python alone).
#
# Link: https://github.com/aio-libs/multidict/issues/1321
# Package: multidict
# Fails: 6.7.1
# Fixed: 6.9.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 30
import os
import threading

from multidict import MultiDict

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = MultiDict()
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for number in range(4000):
        key = f"key {number % 40}"
        shared.add(key, number)
        shared.get(key)
        shared.popall(key, None)
        if number % 50 == 0:
            try:
                list(shared.items())
            except RuntimeError:
                pass  # another thread changed it, which is fair


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
