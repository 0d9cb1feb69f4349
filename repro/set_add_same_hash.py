# Not of threads: two objects of one hash are put into the same slot of a set.
#
# Link: https://github.com/python/cpython/issues/141805
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: fails (signal, wrong result)
# Expected ft-gil: fails (signal, wrong result)
# Expected ft: may fail (signal, wrong result)
# Timeout: 60
import sys


class Same:
    adding = None

    def __hash__(self):
        return 1

    def __eq__(self, other):
        if self is other:
            return True
        if Same.adding is not None:
            more, Same.adding = Same.adding, None
            items.add(more)
        return False


for _ in range(100):
    first, second = Same(), Same()
    items = {first, second}
    items.remove(first)
    Same.adding = Same()
    items.add(Same())
    if len(items) != len(list(items)):
        sys.exit(1)
