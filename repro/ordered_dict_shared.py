# One collections.OrderedDict in which several threads move and remove keys.
#
# Link: https://github.com/python/cpython/issues/125996
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.1
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, hang)
# Timeout: 60
import collections
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = collections.OrderedDict.fromkeys(range(50))


def work():
    for number in range(40_000):
        try:
            shared[number % 50] = None
            shared.move_to_end(number % 50)
            shared.popitem(last=False)
        except KeyError:
            pass  # another thread removed it, which is fair


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
