# An object's __dict__ that outlives the object is emptied by the garbage collector.
#
# Link: https://github.com/python/cpython/issues/130327
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.13
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import gc
import sys


class Thing:
    pass


thing = Thing()
thing.self = thing
thing.x = [1]
values = thing.__dict__
del thing
gc.collect()
sys.exit(values["x"] != [1])
