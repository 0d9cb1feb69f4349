"""Exceptions whose class overrides what others rely on: the dataset's own one is raised, or its
sample is left out.
"""

import dataclasses

import pytest

from ftloader import DataLoader
from tests.datasets import Failing, FailingBatches, FailingStream


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    path: str


class NoAttributes(Exception):
    def __setattr__(self, name, value):
        raise TypeError("no attributes")


class NoNotes(Exception):
    @property
    def __notes__(self):
        raise ValueError("no notes")


class OtherNotes(Exception):
    __notes__ = "not a list"


class NoTraceback(Exception):
    @property
    def __traceback__(self):
        raise ValueError("no traceback")


class NoText(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class NoReduction(Exception):
    def __reduce__(self):
        raise ValueError("not picklable")

    __reduce_ex__ = __reduce__


class NoComparison(Exception):
    def __eq__(self, other):
        raise ValueError("not comparable")

    __hash__ = None


class KeywordsOnly(Exception):
    def __init__(self, *, path):
        super().__init__(path)


class FailingInit(Exception):
    def __init__(self, path):
        raise OSError("no such exception")


MAKERS = {
    "frozen": (Frozen, lambda: Frozen("x.jpg")),
    "setattr": (NoAttributes, lambda: NoAttributes("x.jpg")),
    "notes": (NoNotes, lambda: NoNotes("x.jpg")),
    "other-notes": (OtherNotes, lambda: OtherNotes("x.jpg")),
    "traceback": (NoTraceback, lambda: NoTraceback("x.jpg")),
    "str": (NoText, lambda: NoText("x.jpg")),
    "reduce": (NoReduction, lambda: NoReduction("x.jpg")),
    "eq": (NoComparison, lambda: NoComparison("x.jpg")),
    "keywords": (KeywordsOnly, lambda: KeywordsOnly(path="x.jpg")),
    "init": (OSError, lambda: FailingInit("x.jpg")),
}


# And the batches without the failing sample.
STYLES = {
    "map": (Failing, [[0, 1], [2], [4, 5]]),
    "at-once": (FailingBatches, [[0, 1], [4, 5]]),
    "iterable": (FailingStream, [[0, 1], [2, 4], [5]]),
}
WORKERS = {
    "serial": {},
    "thread": {"worker_method": "thread"},
    "process": {"worker_method": "process"},
}
# Processes send an exception, or its text, in the same way
# from either style that loads single samples.
WAYS = [
    (workers, style)
    for workers in WORKERS
    for style in STYLES
    if (workers, style) != ("process", "at-once")
]


def loader(kind, style, workers, **arguments):
    dataset = STYLES[style][0](lambda _: MAKERS[kind][1](), 6, at=(3,))
    return DataLoader(
        dataset, 2, num_workers=int(workers != "serial"), **WORKERS[workers], **arguments
    )


@pytest.mark.parametrize(("workers", "style"), WAYS)
@pytest.mark.parametrize("kind", MAKERS)
def test_the_datasets_own_exception_is_raised(kind, style, workers):
    own = MAKERS[kind][0]
    try:
        for _ in loader(kind, style, workers):
            pass
    except Exception as error:  # not pytest.raises, which looks at the traceback
        raised, text = type(error), "" if own is NoText and type(error) is NoText else str(error)
    if workers == "process":
        assert raised in (own, RuntimeError)
        assert raised is own or own.__name__ in text
    else:
        assert raised is own


@pytest.mark.filterwarnings("ignore:.*on_error left them out")
@pytest.mark.parametrize(("workers", "style"), WAYS)
@pytest.mark.parametrize("kind", MAKERS)
def test_its_sample_is_left_out(kind, style, workers):
    dl = loader(kind, style, workers, on_error="skip")
    assert [batch.tolist() for batch in dl] == STYLES[style][1]
    assert dl.skipped.count == 1
    assert MAKERS[kind][0].__name__ in dl.skipped.samples[0].error
