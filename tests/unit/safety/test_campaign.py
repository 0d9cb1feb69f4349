"""Rounds over configurations, and what is said where they end early."""

from __future__ import annotations

import io
import math

import pytest

from ftrun.configurations import CONFIGURATIONS
from ftrun.interruption import Interrupted
from ftsafety.repro import verdict
from ftsafety.repro.campaign import Campaign
from ftsafety.repro.limits import Limits
from ftsafety.repro.outcome import GIL, OK, SIGNAL, Outcome
from ftsafety.repro.progress import Progress
from ftsafety.repro.script import Script


class Twin:
    """Gives these outcomes, one after the other, and then raises."""

    def __init__(self, *outcomes):
        self._outcomes = iter(outcomes)

    def reproduce(self, *_):
        done = next(self._outcomes)
        if isinstance(done, Exception):
            raise done
        return done


def campaign(*outcomes, deadline=math.inf):
    twin = Twin(*outcomes)
    return Campaign(Script("bug.py", b""), {"ft": twin, "gil": twin}, Limits(), lambda *_: None, deadline)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (campaign(*[Outcome(OK, "")] * 3, deadline=0), "used up after 1 of 20 rounds"),
        (campaign(*[Outcome(OK, "")] * 4, Interrupted(2)), "in round 2 of 20"),
    ],
    ids=["budget", "Ctrl-C"],
)
def test_no_all_clear_where_rounds_are_missing(ended, words):
    found = verdict.judge(ended.run(CONFIGURATIONS, 20, 2))
    assert found.kind == verdict.UNJUDGED and "Not reproduced" not in found.sentence
    assert words in found.sentence and sum(words in remark for remark in found.remarks) == 1


def test_a_failure_is_told_though_rounds_are_missing():
    ended = campaign(*[Outcome(SIGNAL, "SIGSEGV")] * 3, deadline=0)
    found = verdict.judge(ended.run(CONFIGURATIONS, 20, 2))
    assert found.kind == verdict.EVERYWHERE and "gil, ft-gil, ft were not run to the end" in " ".join(found.remarks)


def test_all_rounds_are_an_all_clear():
    whole = campaign(*[Outcome(OK, "")] * 6)
    assert verdict.judge(whole.run(CONFIGURATIONS, 2, 2)).kind == verdict.NOT_REPRODUCED and whole.stopped is None
    # The first run of ft that an import gave the GIL is made again.
    again = campaign(Outcome(GIL, "importing x turned the GIL on"), Outcome(OK, ""))
    assert verdict.judge(again.run(["ft"], 1, 2)).kind == verdict.NOT_REPRODUCED


def test_a_line_of_ours_is_not_made_by_others():
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.note("repro: x\n\rrepro: Not reproduced\x1b[2J")
    assert stream.getvalue() == "repro: x  repro: Not reproduced\\x1b[2J\n"
