# One memoryview that several threads slice: its count of exports is not atomic, so it is released under them.
#
# Link: https://github.com/python/cpython/issues/155606
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (exception, signal)
# Timeout: 60
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = memoryview(bytes(4096))
failed = []


def cut():
    try:
        for number in range(2_000_000):
            shared[number % 4096 :]
            if failed:
                return
    except ValueError as error:  # "operation forbidden on released memoryview object"
        failed.append(error)


threads = [threading.Thread(target=cut) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failed:
    raise failed[0]
