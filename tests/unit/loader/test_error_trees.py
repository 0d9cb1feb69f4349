"""Trees of exceptions: one base a package, and the bases that users' ``except`` clauses name."""

import pytest

from ftloader.cache import errors as cache
from ftloader.decode import errors as decode

BASES = {
    cache.CacheError: [RuntimeError],
    cache.CorruptSampleError: [cache.CacheError],
    cache.PartlyListedError: [cache.CacheError, OSError],
    decode.ReadError: [],
    decode.DecodeError: [decode.ReadError, OSError, ValueError],
    decode.BackendUnavailable: [decode.ReadError, RuntimeError],
}


@pytest.mark.parametrize("kind", BASES)
def test_an_error_can_be_caught_by_each_of_its_bases(kind):
    for base in [kind, *BASES[kind]]:
        with pytest.raises(base, match="the reason"):
            raise kind("the reason")


@pytest.mark.parametrize("module", [cache, decode])
def test_the_tree_in_the_docstring_has_all_classes(module):
    kinds = {name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert kinds == {kind.__name__ for kind in BASES if kind.__module__ == module.__name__}
    assert all(f"\n{' ' * 4 * (name not in ('CacheError', 'ReadError'))}{name}" in module.__doc__ for name in kinds)
