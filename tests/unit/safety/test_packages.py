"""A resolver's reason in a few words, and versions that differ."""

import pytest

from ftsafety.repro.packages import NO_WHEEL, differences

MSGPACK = (
    "... Because all of: msgpack<=1.0.4 msgpack>=1.0.5 have no usable wheels and only the "
    "following versions of msgpack are available: msgpack<=1.0.4 we can conclude that all of: "
    "msgpack<1.0.5rc1 cannot be used."
)


@pytest.mark.parametrize(
    ("said", "package"),
    [
        (MSGPACK, "msgpack"),
        ("Because lxml<=4.9.4 has no usable wheels and only the following versions", "lxml"),
        (
            "Because only-gil==1.0 has no wheels with a matching Python ABI tag (e.g., `cp313t`)",
            "only-gil",
        ),
        ("Because zope.interface was not found in the package registry", None),
    ],
)
def test_the_package_without_a_wheel_is_found(said, package):
    match = NO_WHEEL.search(said)
    assert (match and match[1]) == package


# in time that grows with the square of the length, each takes more than an hour
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part", ["a", "a-", "a>=1", "a.b<", "a has no ", "a>=1 have no usable ", "- ", "=>"]
)
def test_a_hostile_resolver_costs_time_in_proportion_to_what_it_says(part):
    assert NO_WHEEL.search(part * 1_000_000) is None


def test_versions_that_differ():
    versions = {
        "ft": {"pillow": "13", "numpy": "2"},
        "gil": {"pillow": "12", "numpy": "2"},
        "3.14.1t": {"pillow": "13"},
    }
    assert differences(versions) == "pillow 13 (ft, 3.14.1t), 12 (gil)"
