# Not of threads: an Element of xml.etree is emptied by the __index__ of a slice of it.
#
# Link: https://github.com/python/cpython/issues/143200
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.12
# Expected gil: fails (signal)
# Expected ft-gil: fails (signal)
# Expected ft: fails (signal)
# Timeout: 10
from xml.etree import ElementTree


class Start:
    def __index__(self):
        element.clear()
        return 0


element = ElementTree.Element("outer")
for _ in range(10):
    ElementTree.SubElement(element, "inner")
print(element[Start() :])
