# threading.settrace_all_threads() and setprofile_all_threads() while other threads run.
#
# Link: https://github.com/python/cpython/issues/137400
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.10
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal)
# Timeout: 60
import os
import threading

THREADS = int(os.environ.get("REPRO_THREADS", 4))
stop = threading.Event()


def function():
    return 1


def work():
    while not stop.is_set():
        for _ in range(100):
            function()


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for _ in range(300):
    threading.setprofile_all_threads(lambda *_: None)
    threading.settrace_all_threads(lambda *_: None)
    threading.setprofile_all_threads(None)
    threading.settrace_all_threads(None)
stop.set()
for thread in threads:
    thread.join()
