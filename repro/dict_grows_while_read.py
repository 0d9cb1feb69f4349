# Not of the GIL: iterating over a dict to which another thread adds raises a RuntimeError; iterate over a copy.
#
# Link: https://github.com/fsspec/filesystem_spec/pull/893
# Expected gil: fails (exception)
# Expected ft-gil: fails (exception)
# Expected ft: fails (exception)
# Timeout: 300
import threading

entries = {"a": 1, "b": 2}
reading, grown = threading.Event(), threading.Event()


def other():
    reading.wait()
    entries["c"] = 3
    grown.set()


thread = threading.Thread(target=other)
thread.start()
for _ in entries:
    reading.set()
    grown.wait()
