# Not of threads: a dict is cleared by the __eq__ of a key that is being inserted.
#
# Link: https://github.com/python/cpython/issues/140551
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.11
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 60
import sys


class Key:
    clears = True

    def __hash__(self):
        return hash("key 3")

    def __eq__(self, other):
        if self.clears:
            self.clears = False
            values.clear()
            values["fresh"] = 1
            return False
        return other == "key 3"


values = {f"key {number}": number for number in range(20)}
values[Key()] = None
sys.exit("key 3" not in values)
