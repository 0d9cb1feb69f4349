# Not of threads: a PickleBuffer is released by the callback that pickle calls for it.
#
# Link: https://github.com/python/cpython/issues/143308
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: fails (signal)
# Expected ft-gil: may fail (signal)
# Expected ft: may fail (signal)
# Timeout: 10
import pickle


def callback(buffer):
    buffer.release()
    data.clear()
    return True  # in band


data = bytearray(b"x" * (1 << 24))
try:
    pickle.dumps(pickle.PickleBuffer(data), protocol=5, buffer_callback=callback)
except (ValueError, BufferError):
    pass
