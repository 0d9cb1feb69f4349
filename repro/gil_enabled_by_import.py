# An extension module that does not declare that it can do without the GIL turns the GIL on (CPython's own test module).
#
# Link: https://github.com/python/cpython/pull/116882
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: GIL enabled
# Timeout: 300
import importlib.machinery
import importlib.util

import _testmultiphase  # in builds with test modules: those that were optimised with a training run

name = "_testmultiphase_null_slots"  # the same file holds this module, which declares nothing
loader = importlib.machinery.ExtensionFileLoader(name, _testmultiphase.__file__)
importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
