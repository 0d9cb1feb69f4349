# Not of threads: an io.BytesIO is closed by the __buffer__ of what is written to it.
#
# Link: https://github.com/python/cpython/issues/143378
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: fails (signal)
# Expected ft-gil: fails (signal)
# Expected ft: fails (signal)
# Timeout: 60
import io


class Value:
    def __buffer__(self, flags):
        memory.close()
        return memoryview(b"x" * 1000)


memory = io.BytesIO(b"0" * 1000)
try:
    memory.write(Value())
except (ValueError, BufferError):
    pass
