"""The tree of exceptions: one base, and the bases that users' ``except`` clauses name."""

import pytest

from ftloader import errors
from ftloader.cache import errors as cache

BASES = {
    cache.CacheError: [errors.FtloaderError, RuntimeError],
    cache.CorruptSampleError: [cache.CacheError],
    cache.PartlyListedError: [cache.CacheError, OSError],
    errors.DecodeError: [errors.FtloaderError, OSError, ValueError],
    errors.BackendUnavailable: [errors.FtloaderError, RuntimeError],
}


@pytest.mark.parametrize("kind", BASES)
def test_an_error_can_be_caught_by_each_of_its_bases(kind):
    for base in [kind, *BASES[kind]]:
        with pytest.raises(base, match="the reason"):
            raise kind("the reason")


@pytest.mark.parametrize("module", [cache, errors])
def test_the_tree_in_the_docstring_has_all_classes(module):
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert [kind.__name__ for kind in own if kind.__name__ not in module.__doc__] == []
