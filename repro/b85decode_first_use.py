# Not of the GIL: the first call of base64.b85decode() in two threads: one sees the other's unfinished table.
#
# Link: https://github.com/python/cpython/issues/141141
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.10
# Expected gil: fails (exception)
# Expected ft-gil: fails (exception)
# Expected ft: fails (exception)
# Timeout: 60
import base64
import threading

encoded = base64.b85encode(b"data")
inside, tried = threading.Event(), threading.Event()


class Alphabet(bytes):
    """Stops the thread that fills the table, until the other thread has tried to use it."""

    def __iter__(self):
        if not inside.is_set():
            inside.set()
            tried.wait()
        return super().__iter__()


base64._b85alphabet = Alphabet(base64._b85alphabet)
first = threading.Thread(target=base64.b85decode, args=(encoded,))
first.start()
inside.wait()
try:
    assert base64.b85decode(encoded) == b"data"
finally:
    tried.set()
    first.join()
