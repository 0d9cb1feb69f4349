# What the collector frees is taken off its count of new objects: it starts ever later, with and without the GIL.
#
# Link: https://github.com/python/cpython/issues/142048
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.10
# Expected gil: ok
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import gc
import sys

gc.disable()
for _ in range(100_000):
    cycle = []
    cycle.append(cycle)
gc.collect()
count = gc.get_count()[0]
print(count)
sys.exit(count < -10_000)
