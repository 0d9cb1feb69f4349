"""Rounds end early when further ones would not change the verdict, and only then."""

import random
from dataclasses import replace

import pytest

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.blocked import settled
from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import Blocker, Kind, Outcome, Signature
from ftsafety.repro.stopping import EarlyStop, looks
from ftsafety.repro.verdict import Pattern, judge

OK, HANG = Outcome(Kind.OK, ""), Outcome(Kind.HANG, "did not end in time")
CRASH = Outcome(
    Kind.SIGNAL, "SIGSEGV", signatures=(Signature("signal", "SIGSEGV", "bug.py:3 in f"),)
)
ELSEWHERE = Outcome(
    Kind.SIGNAL, "SIGSEGV", signatures=(Signature("signal", "SIGSEGV", "bug.py:4 in g"),)
)
AND_ANOTHER = replace(
    CRASH, signatures=(*CRASH.signatures, Signature("exception", "KeyError", "bug.py:9 in h"))
)
NO_MODULE = Outcome(Kind.EXCEPTION, "ModuleNotFoundError", blocker=Blocker("module", "lxml"))

IN_THREAD = replace(NO_MODULE, blocker=Blocker("module", "lxml", "part"))


def rounds(repeat, every_run=False, **outcomes):
    """The number of rounds that are made, and the reason, if each configuration gives these
    outcomes in turn.
    """
    stop = EarlyStop(repeat, every_run)
    runs = {config: Runs(config) for config in CONFIGURATIONS}
    for number in range(repeat):
        for config, each in runs.items():
            given = outcomes[config.replace("-", "_")]
            each.outcomes.append(given[number % len(given)])
        if stop(runs, number + 1):
            return number + 1, stop.reason
    return repeat, stop.reason


@pytest.mark.parametrize(
    ("outcomes", "made", "reason"),
    [
        ({"gil": [OK], "ft_gil": [OK], "ft": [CRASH]}, 5, "significant"),
        ({"gil": [OK], "ft_gil": [CRASH], "ft": [CRASH]}, 5, "significant"),
        ({"gil": [CRASH], "ft_gil": [CRASH], "ft": [CRASH, ELSEWHERE]}, 5, "ended alike"),
        ({"gil": [HANG], "ft_gil": [HANG], "ft": [HANG]}, 3, "none of 9 runs ended"),
        ({"gil": [NO_MODULE], "ft_gil": [NO_MODULE], "ft": [NO_MODULE]}, 5, "no run got to"),
        ({"gil": [IN_THREAD], "ft_gil": [IN_THREAD], "ft": [IN_THREAD]}, 20, None),
        # A rare race needs all runs, also behind a failure of every run.
        ({"gil": [CRASH], "ft_gil": [CRASH], "ft": [CRASH, CRASH, CRASH, AND_ANOTHER]}, 20, None),
        ({"gil": [OK], "ft_gil": [OK], "ft": [OK]}, 20, None),
        ({"gil": [OK], "ft_gil": [OK], "ft": [OK, OK, OK, CRASH]}, 20, None),
        ({"gil": [OK, CRASH], "ft_gil": [OK, CRASH], "ft": [CRASH]}, 20, None),
    ],
)
def test_the_number_of_rounds(outcomes, made, reason):
    found, said = rounds(20, **outcomes)
    assert found == made and (said is None if reason is None else reason in said)
    assert rounds(20, True, **outcomes) == (20, None)


def test_looks():
    assert looks(5) == [] and looks(6) == [5] and looks(50) == [5, 10, 20, 40]
    assert EarlyStop(5).level == EarlyStop(50, every_run=True).level == 0.05
    assert EarlyStop(50).level == pytest.approx(0.046)


def test_runs_that_ended_early_are_judged_as_strictly_as_the_look_that_ended_them():
    stop = EarlyStop(20)
    runs = {config: Runs(config, [CRASH] * 5) for config in CONFIGURATIONS}
    assert stop(runs, 5) and stop.level == 0.001


def test_a_look_comes_after_the_rounds_of_a_task_that_pass_its_number():
    stop = EarlyStop(50)
    runs = {
        config: Runs(config, [OK if config == "gil" else CRASH] * 4) for config in CONFIGURATIONS
    }
    assert not stop(runs, 4)
    for each in runs.values():
        each.outcomes += each.outcomes[:3]
    assert stop(runs, 7) and "significant" in stop.reason


def test_no_runs_are_no_reason_to_end():
    stop = EarlyStop(20)
    runs = {config: Runs(config) for config in CONFIGURATIONS}
    assert not any(stop(runs, number) for number in range(1, 11)) and not stop.reason


@pytest.mark.slow
def test_looking_again_and_again_makes_no_more_wrong_claims():
    """A failure of the same rate everywhere is called one
    of the GIL in at most 5% of 400 campaigns.
    """
    draw = random.Random(5)
    wrong = 0
    for _ in range(400):
        rate = draw.choice((0.05, 0.1, 0.3))
        stop = EarlyStop(40)
        runs = {config: Runs(config) for config in CONFIGURATIONS}
        for number in range(40):
            for each in runs.values():
                each.outcomes.append(CRASH if draw.random() < rate else OK)
            if stop(runs, number + 1):
                break
        wrong += judge(settled(runs), stop.level).pattern in (
            Pattern.WITHOUT_GIL,
            Pattern.FREE_THREADED,
        )
    assert wrong <= 20
