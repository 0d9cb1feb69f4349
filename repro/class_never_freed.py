# A class is never freed once the program has started a thread: the free-threaded build makes it immortal.
#
# Link: https://github.com/python/cpython/issues/117783
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.0
# Expected gil: ok
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import gc
import sys
import threading
import weakref

thread = threading.Thread(target=int)
thread.start()
thread.join()


class Temporary:
    pass


left = weakref.ref(Temporary)
del Temporary
gc.collect()
print(left())
sys.exit(left() is not None)
