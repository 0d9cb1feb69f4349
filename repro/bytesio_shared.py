# One io.BytesIO that several threads write to and truncate.
#
# Link: https://github.com/python/cpython/issues/132551
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.1
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception, hang)
# Timeout: 60
import io
import os
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
shared = io.BytesIO()


def change():
    for number in range(100_000):
        shared.seek(0)
        shared.truncate(0)
        shared.write(b"x" * (number % 5000))


def read():
    for _ in range(100_000):
        shared.seek(0)
        shared.read()
        shared.getvalue()


threads = [threading.Thread(target=(change, read)[number % 2]) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
