"""Containers that threads share and use by atomic calls: pools, from which each sample takes an
object, and logs.
"""

import functools

import numpy as np
import pytest
import torch

from ftsafety.audit import audit
from tests.unit.safety.conftest import kinds, shown_as_harmless
from tests.unit.safety.pools import (
    Buffers,
    BuffersInSamples,
    BuffersPutBackEarly,
    CountingByClass,
    CountingDecoders,
    Decoders,
    DecodersOfAnotherQueue,
    FreeList,
    Handles,
    Log,
    Negatives,
    Parts,
    ReadByAnotherName,
    ReadByLambda,
    ReadLog,
    Refilled,
    Ring,
    Stack,
    Todo,
)

pytestmark = pytest.mark.thread_unsafe(
    reason="watches the whole process, and starts threads enough"
)


@pytest.mark.parametrize(
    "make", [Handles, Decoders, functools.partial(Decoders, 3), DecodersOfAnotherQueue, Log]
)
@pytest.mark.slow(cases=2)
def test_what_is_used_by_atomic_calls_is_a_note_at_most(make):
    report = audit(make, seconds=0.5, threads=4)
    assert report.ok, str(report)
    assert kinds(report) <= {"atomic-calls"}


@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_buffers_that_a_sample_has_alone(make):
    assert not audit(Buffers(make), seconds=0.1, threads=4).findings


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (functools.partial(Handles, reads_after=True), "file-position"),
        (CountingDecoders, "lost-update"),
        (functools.partial(CountingDecoders, 3), "lost-update"),
        (CountingByClass, "lost-update"),
        (Ring, "unguarded-write"),
        (BuffersPutBackEarly, "unguarded-write"),
        (BuffersInSamples, "unguarded-write"),
    ],
)
@pytest.mark.slow(cases=2)
def test_pools_and_logs_that_are_not_used_alone(make, kind):
    report = audit(make, seconds=0.1, threads=4)
    assert not report.ok
    assert kind in kinds(report), str(report)


@pytest.mark.parametrize(
    "make",
    [
        *(ReadLog, ReadByLambda, ReadByAnotherName, Ring, functools.partial(Ring, 300)),
        *(Stack, Refilled, Todo, Parts, Negatives, FreeList),
    ],
)
def test_what_samples_depend_on_is_not_harmless(make):
    """Though no thread may have got a wrong sample, since it takes many of them."""
    assert not shown_as_harmless(make())


@pytest.mark.parametrize("make", [Handles, Log])
def test_pools_and_logs_are_harmless_where_no_thread_gets_a_wrong_sample(make):
    assert shown_as_harmless(make())
