# One generator in several threads: ValueError with the GIL, a crash or StopIteration without it.
#
# Link: https://github.com/python/cpython/issues/156351
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal, exception)
# Timeout: 60
import threading


def endless():
    while True:
        yield 1


shared = endless()
start = threading.Barrier(2)


def work():
    start.wait()
    for _ in range(300_000):
        try:
            next(shared)
        except ValueError:
            pass  # "generator already executing", as documented


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
