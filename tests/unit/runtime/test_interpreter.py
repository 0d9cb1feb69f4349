"""Bugs of CPython that the twins' interpreters do not have: docker/patches.txt, docker/patches."""

import collections
import gc
import os
import resource
import threading
import zlib

import pytest


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


def test_a_default_does_not_replace_a_concurrent_value():
    def default():
        values["key"] = "concurrent"
        return "default"

    values = collections.defaultdict(default)
    assert values["key"] == "concurrent"  # gh-142495: "default"
    assert values == {"key": "concurrent"}


def test_closing_a_file_does_not_give_up_the_cpu(tmp_path):
    """gh-114203: with others busy, it took as long as 40 of their turns."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            zlib.crc32(bytes(10_000_000))

    def switches():
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return used.ru_nvcsw + used.ru_nivcsw

    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = threading.Thread(target=busy)
    other.start()  # on the same CPU
    try:
        for _ in range(20):
            file = open(path, "rb")
            before = switches()
            file.close()
            found = switches() - before
            if found < 5:
                return
        pytest.fail(f"in each of 20 calls: {found} times in the last")
    finally:
        stop.set()
        other.join()
        os.sched_setaffinity(0, allowed)
