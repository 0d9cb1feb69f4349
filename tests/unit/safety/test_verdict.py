"""Verdicts on outcomes, and their sentences."""

import math

import pytest

from ftsafety.repro import verdict_words
from ftsafety.repro.campaign import Runs
from ftsafety.repro.narrow import runs_needed
from ftsafety.repro.outcome import Kind, Outcome, Signature
from ftsafety.repro.verdict import Pattern, interval, judge, p_value


def judged(found):
    """(pattern, sentence, remarks) of runs."""
    verdict = judge(found)
    return (
        verdict.pattern,
        verdict_words.sentence(verdict, found),
        tuple(verdict_words.remarks(verdict, found)),
    )


def runs(**failures):
    """Runs of configurations, `ft_gil=(failures, runs)`."""
    found = {}
    for name, (failed, count) in failures.items():
        config = name.replace("_", "-")
        outcomes = [Outcome(Kind.SIGNAL, "SIGSEGV")] * failed + [Outcome(Kind.OK, "")] * (
            count - failed
        )
        found[config] = Runs(config, outcomes)
    return found


@pytest.mark.parametrize(
    ("failures", "pattern", "words"),
    [
        (
            {"gil": (0, 20), "ft_gil": (0, 20), "ft": (0, 20)},
            Pattern.NOT_REPRODUCED,
            "Not reproduced in 20 runs",
        ),
        (
            {"gil": (0, 20), "ft_gil": (0, 20), "ft": (9, 20)},
            Pattern.WITHOUT_GIL,
            "Fails only without the GIL",
        ),
        (
            {"gil": (0, 20), "ft_gil": (20, 20), "ft": (20, 20)},
            Pattern.FREE_THREADED,
            "even with the GIL on",
        ),
        (
            {"gil": (20, 20), "ft_gil": (20, 20), "ft": (20, 20)},
            Pattern.EVERYWHERE,
            "Fails everywhere",
        ),
        (
            {"gil": (0, 20), "ft_gil": (0, 20), "ft": (1, 20)},
            Pattern.OTHER,
            "too rarely to tell where",
        ),
        (
            {"gil": (0, 2), "ft_gil": (0, 2), "ft": (2, 2)},
            Pattern.OTHER,
            "too few runs to tell where",
        ),
        (
            {"gil": (20, 20), "ft_gil": (0, 20), "ft": (0, 20)},
            Pattern.OTHER,
            "the build with the GIL, and only there",
        ),
        (
            {"gil": (20, 20), "ft_gil": (20, 20), "ft": (0, 20)},
            Pattern.OTHER,
            "the GIL on, and only there",
        ),
        (
            {"ft": (5, 20)},
            Pattern.OTHER,
            "without the GIL (no other configuration could be judged)",
        ),
        ({"gil": (0, 20), "ft": (15, 20)}, Pattern.OTHER, "without the GIL, and only there"),
        ({"gil": (0, 0), "ft": (0, 0)}, Pattern.UNJUDGED, "no run could be counted"),
    ],
)
def test_verdicts(failures, pattern, words):
    found, sentence, _ = judged(runs(**failures))
    assert found == pattern and words in sentence, sentence


def test_a_difference_in_rates_is_a_remark_only_where_it_is_one():
    _, _, remarks = judged(runs(gil=(2, 50), ft_gil=(3, 50), ft=(45, 50)))
    assert any("more often without the GIL" in remark for remark in remarks)
    assert not judged(runs(gil=(20, 50), ft_gil=(25, 50), ft=(24, 50)))[2]


def test_runs_that_do_not_count_are_reported_and_not_counted():
    found = runs(gil=(0, 10), ft_gil=(0, 10), ft=(8, 10))
    found["ft"].outcomes.insert(0, Outcome(Kind.GIL, "importing x turned the GIL on"))
    found["ft"].forced_off = True
    found["gil"].outcomes[:] = [Outcome(Kind.LIMIT, "printed more than 64 MiB")] * 10
    found["gil"].missing = None
    pattern, _, remarks = judged(found)
    assert pattern == Pattern.OTHER  # nothing is known of the build with the GIL
    said = " ".join(remarks)
    assert "importing x turned the GIL on" in said and "PYTHON_GIL=0" in said
    assert "10 of 10 runs of gil do not count: printed more than 64 MiB" in said
    assert "Nothing is known of gil" in said


def test_a_twin_that_is_missing_is_reported():
    found = runs(gil=(0, 20), ft_gil=(0, 0), ft=(0, 0))
    found["ft"].missing = found["ft-gil"].missing = "no wheel"
    pattern, sentence, remarks = judged(found)
    assert pattern == Pattern.UNJUDGED and "ft-gil, ft were not run to the end" in sentence
    assert (
        "ft-gil, ft were not run: no wheel." in remarks
        and "Nothing is known of ft-gil, ft." in remarks
    )


@pytest.mark.parametrize("config", ["gil", "ft-gil", "ft"])
def test_no_all_clear_where_a_configuration_was_not_run_to_the_end(config):
    clear = {"gil": (0, 20), "ft_gil": (0, 20), "ft": (0, 20)}
    assert judged(runs(**clear))[0].value == 0
    lost = runs(**clear)
    lost[config].missing = "lost in run 21: the server has gone"
    none = runs(**{**clear, config.replace("-", "_"): (0, 0)})
    limited = runs(**clear)
    limited[config].outcomes[:] = [Outcome(Kind.LIMIT, "printed more than 64 MiB")] * 20
    # A run or two that happened to end do not speak for the 18 that did not.
    mostly = runs(**clear)
    mostly[config].outcomes[2:] = [Outcome(Kind.LIMIT, "used more than 4096 MiB of memory")] * 18
    for each in (lost, none, limited, mostly):
        pattern, sentence, _ = judged(each)
        assert pattern.value == 14 and "Not reproduced" not in sentence
        assert f"{config} was not run to the end" in sentence


def test_figures_against_their_definitions():
    def at_least(failures, runs, share):
        return sum(
            math.comb(runs, k) * share**k * (1 - share) ** (runs - k)
            for k in range(failures, runs + 1)
        )

    # Clopper-Pearson: the rates at which 7 or more, or 7 or fewer,
    # failures have a probability of 2.5%.
    low, high = interval(7, 20)
    assert at_least(7, 20, low) == pytest.approx(0.025, rel=1e-6)
    assert 1 - at_least(8, 20, high) == pytest.approx(0.025, rel=1e-6)
    assert interval(0, 20) == pytest.approx((0, 1 - 0.025 ** (1 / 20)))
    # Fisher: all 7 failures among 20 of 60 runs; the other extreme is likelier,
    # so only this one counts.
    assert p_value((7, 20), (0, 40)) == pytest.approx(math.comb(20, 7) / math.comb(60, 7))


def test_runs_needed_to_see_a_failure():
    assert runs_needed(20, 20) == 5
    assert runs_needed(10, 20) == 5
    assert runs_needed(2, 20) == 29  # 0.9 ** 29 < 0.05
    assert runs_needed(1, 200) == 60


def mixed(**outcomes):
    """Runs of configurations, `ft_gil=[(number, kind, detail), ...]`."""
    found = {}
    for name, each in outcomes.items():
        config = name.replace("_", "-")
        runs = []
        for number, kind, *signatures in each:
            shown = tuple(Signature(*signature) for signature in signatures)
            runs += [Outcome(kind, shown[0].what if shown else "", signatures=shown)] * number
        found[config] = Runs(config, runs)
    return found


CRASH = ("signal", "SIGSEGV", "bug.py:3 in f")
RAISED = ("exception", "IndexError", "bug.py:9 in g")


def test_a_crash_without_the_gil_is_found_behind_an_exception_everywhere():
    always = [(4, Kind.EXCEPTION, RAISED)]
    found = mixed(gil=always, ft_gil=always, ft=[(4, Kind.SIGNAL, CRASH, RAISED)])
    pattern, sentence, remarks = judged(found)
    assert pattern == Pattern.WITHOUT_GIL
    assert sentence.startswith("SIGSEGV only without the GIL: 0 of 4 runs showed it in gil, ")
    assert "4 of 4 runs showed it in ft (Fisher's exact test: p = " in sentence
    assert any(
        each.startswith("Besides, IndexError in every configuration: 4 of 4 runs")
        for each in remarks
    )
    # A crash hides what would have come later: nothing is known of the exception without the GIL.
    hidden = mixed(gil=always, ft_gil=always, ft=[(4, Kind.SIGNAL, CRASH)])
    pattern, sentence, remarks = judged(hidden)
    assert pattern == Pattern.WITHOUT_GIL and sentence.startswith("SIGSEGV only without the GIL")
    assert (
        "Besides, IndexError: 4 of 4 runs showed it in gil, 4 of 4 runs showed it in ft-gil."
        in remarks
    )


def test_a_place_can_tell_two_bugs_of_one_type_apart():
    here, there = (
        ("exception", "KeyError", "bug.py:3 in f"),
        ("exception", "KeyError", "bug.py:7 in g"),
    )
    half = [(10, Kind.EXCEPTION, here), (10, Kind.OK)]
    found = mixed(
        gil=half, ft_gil=half, ft=[(10, Kind.EXCEPTION, here), (10, Kind.EXCEPTION, there)]
    )
    pattern, sentence, _ = judged(found)
    assert pattern == Pattern.WITHOUT_GIL and sentence.startswith(
        "KeyError at bug.py:7 in g only without the GIL"
    )


def test_several_signatures_of_one_bug_are_one_failure():
    sound = [(10, Kind.OK)]
    found = mixed(
        gil=sound,
        ft_gil=sound,
        ft=[(5, Kind.SIGNAL, CRASH), (3, Kind.EXCEPTION, RAISED), (2, Kind.OK)],
    )
    pattern, sentence, remarks = judged(found)
    assert pattern == Pattern.WITHOUT_GIL and sentence.startswith("Fails only without the GIL")
    assert "8 of 10 runs failed in ft" in sentence and not any(
        "Besides" in each for each in remarks
    )


def test_rare_failures_of_many_signatures_make_no_claim():
    def rare(config):
        return [
            (1, Kind.EXCEPTION, ("exception", f"Error{n}", f"bug.py:{n} in {config}"))
            for n in range(5)
        ]

    sound = [(15, Kind.OK)]
    found = mixed(**{config: [*rare(config), *sound] for config in ("gil", "ft_gil", "ft")})
    assert judged(found)[0] == Pattern.EVERYWHERE
    one = mixed(
        gil=[(20, Kind.OK)], ft_gil=[(20, Kind.OK)], ft=[(3, Kind.SIGNAL, CRASH), (17, Kind.OK)]
    )
    assert judged(one)[0] == Pattern.WITHOUT_GIL  # p = 0.03
    many = [(3, Kind.EXCEPTION, ("exception", f"Error{n}", "")) for n in range(5)]
    with_others = mixed(gil=many, ft_gil=many, ft=[(3, Kind.SIGNAL, CRASH), *many])
    assert judged(with_others)[0] == Pattern.EVERYWHERE  # not one of six tests may claim that


def test_other_interpreters_are_remarks():
    found = {
        **runs(gil=(0, 5), ft_gil=(0, 5), ft=(5, 5)),
        "3.14.1t": Runs("3.14.1t", [Outcome(Kind.OK, "")] * 5),
    }
    assert judged(found)[0] == Pattern.WITHOUT_GIL
    assert list(verdict_words.others(found)) == ["3.14.1t: 0 of 5 runs failed."]


@pytest.mark.parametrize(
    ("fixes", "source", "words"),
    [
        (0, "", None),
        (14, "print(1)", "An unpatched 3.13.5 may fail: --interpreter PATH"),
        (
            14,
            "# Package: CPython\n# Fails: 3.13.5\n# Fixed: 3.13.12\n",
            "unpatched 3.13.5 fails, as the script's header",
        ),
        (14, "# Package: CPython\n# Fails: 3.13.50\n", "may fail"),
        (14, "# Package: numpy\n# Fails: 3.13.5\n", "may fail"),
    ],
)
def test_a_script_that_only_an_unpatched_interpreter_is_known_to_fail(fixes, source, words):
    described = {"interpreter": {"version": "3.13.5", "upstream_fixes": fixes}}
    said = list(verdict_words.unpatched({"ft": described, "gil": described}, source))
    assert len(said) == bool(words) and all(words in text for text in said)
