# Not of threads: the list that bytes.join() joins is emptied by the __buffer__ of its item.
#
# Link: https://github.com/python/cpython/issues/151295
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.15
# Expected gil: fails (signal, hang)
# Expected ft-gil: fails (signal, hang)
# Expected ft: fails (signal, hang)
# Timeout: 5
class Value:
    def __buffer__(self, flags):
        items.clear()
        return memoryview(b"x")


items = [Value(), b"x" * 1000, b"y" * 1000]
try:
    b"-".join(items)
except RuntimeError:
    pass
