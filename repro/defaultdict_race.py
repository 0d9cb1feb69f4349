# Two threads that miss the same key of a defaultdict get two values; one of them is lost.
#
# Link: https://github.com/python/cpython/issues/142495
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import collections
import sys
import threading

both = threading.Barrier(2)


def default():
    both.wait()  # both threads are in the factory
    return []


shared = collections.defaultdict(default)
threads = [threading.Thread(target=lambda: shared["key"].append(1)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(shared["key"] != [1, 1])
