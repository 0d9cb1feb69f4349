# dict(vars(cls)) of a class to which another thread adds: merging from a mappingproxy takes no lock.
#
# Link: https://github.com/python/cpython/issues/157217
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (exception)
# Timeout: 60
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
done = threading.Event()
failed = []


class Shared:
    pass


for number in range(500):
    setattr(Shared, f"name{number}", number)


def change(first):
    number = first
    while not done.is_set():
        number += 1
        setattr(Shared, f"new{number}", number)
        delattr(Shared, f"new{number}")


def merge():
    try:
        for _ in range(2_000):
            dict(vars(Shared))
    except (RuntimeError, KeyError) as error:  # "dictionary changed size during iteration", or a deleted name
        failed.append(error)
    finally:
        done.set()


threads = [threading.Thread(target=merge) for _ in range(THREADS // 2)]
threads += [threading.Thread(target=change, args=(1_000_000 * n,)) for n in range(THREADS // 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failed:
    raise failed[0]
