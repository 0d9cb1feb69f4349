"""Bugs of CPython that the twins' interpreters do not have: docker/patches.txt, docker/patches."""

import collections
import gc


def test_a_dict_that_outlives_its_object_keeps_its_values():
    class Thing:
        pass

    thing = Thing()
    thing.self = thing
    thing.x = [1]
    values = thing.__dict__
    del thing
    gc.collect()
    assert values["x"] == [1]  # gh-130327: []


def test_a_default_does_not_replace_what_came_meanwhile():
    def default():
        values["key"] = "came meanwhile"
        return "default"

    values = collections.defaultdict(default)
    assert values["key"] == "came meanwhile"  # gh-142495: "default"
    assert values == {"key": "came meanwhile"}
