"""Rounds over configurations, and the verdict if they end early."""

import contextlib
import io
import math

import pytest

from ftrun.configurations import CONFIGURATIONS
from ftrun.errors import Interrupted
from ftsafety.repro.campaign import Campaign
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.progress import ProgressPrinter
from ftsafety.repro.request import Limits
from ftsafety.repro.script import Script
from ftsafety.repro.verdict import Pattern
from tests.unit.safety.test_verdict import judged


class Twin:
    """A twin that gives these outcomes, one after the other, and then raises."""

    config = None

    def __init__(self, *outcomes):
        self._outcomes = iter(outcomes)

    def reproduce(self, *_):
        done = next(self._outcomes)
        if isinstance(done, Exception):
            raise done
        return done


def campaign(*outcomes, deadline=math.inf):
    twin = Twin(*outcomes)
    return Campaign(
        Script("bug.py", b""), {"ft": twin, "gil": twin}, Limits(), lambda *_: None, deadline
    )


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (campaign(*[Outcome(Kind.OK, "")] * 3, deadline=0), "used up after 1 of 20 rounds"),
        (campaign(*[Outcome(Kind.OK, "")] * 4, Interrupted(2)), "in round 2 of 20"),
    ],
    ids=["budget", "Ctrl-C"],
)
def test_no_all_clear_where_rounds_are_missing(ended, words):
    pattern, sentence, remarks = judged(ended.run(CONFIGURATIONS, 20, 2))
    assert pattern == Pattern.UNJUDGED and "Not reproduced" not in sentence
    assert words in sentence and sum(words in remark for remark in remarks) == 1


def test_a_failure_is_reported_though_rounds_are_missing():
    ended = campaign(*[Outcome(Kind.SIGNAL, "SIGSEGV")] * 3, deadline=0)
    pattern, _, remarks = judged(ended.run(CONFIGURATIONS, 20, 2))
    assert pattern == Pattern.EVERYWHERE and "gil, ft-gil, ft were not run to the end" in " ".join(
        remarks
    )


def test_all_rounds_are_an_all_clear():
    whole = campaign(*[Outcome(Kind.OK, "")] * 6)
    assert (
        judged(whole.run(CONFIGURATIONS, 2, 2))[0] == Pattern.NOT_REPRODUCED
        and whole.stopped is None
    )
    # The first run of ft that an import gave the GIL is made again.
    again = campaign(Outcome(Kind.GIL, "importing x turned the GIL on"), Outcome(Kind.OK, ""))
    assert judged(again.run(["ft"], 1, 2))[0] == Pattern.NOT_REPRODUCED


def test_a_line_of_ours_is_not_made_by_others():
    stream = io.StringIO()
    with contextlib.closing(ProgressPrinter(stream)) as progress:
        progress.note("repro: x\n\rrepro: Not reproduced\x1b[2J")
    assert stream.getvalue() == "repro: x  repro: Not reproduced\\x1b[2J\n"
