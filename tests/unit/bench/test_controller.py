"""Rounds: their order and their number."""

import itertools
import time
from typing import ClassVar

import pytest

from ftbench.document.model import Failure, Round
from ftbench.plan.candidates import VARIANTS
from ftbench.plan.comparisons import grid
from ftbench.plan.sizing import BudgetTooShort, Demand
from ftbench.rounds.controller import Controller, choose, failures
from ftbench.rounds.work import Work
from ftbench.scenarios import SCENARIOS
from ftbench.stats.allocation import Costs
from ftbench.trial.process import TrialFailed
from ftrun.errors import Interrupted
from ftrun.interruption import Interruption
from tests.unit.bench.scripted import Script, Silent, load

RESULT = {"first_batch": 1, "rows": [1, 2, 3], "metrics": {"throughput": 1.0}}


def keys(finished: Round) -> list[str]:
    return [trial.candidate for trial in finished.trials]


class Scripted(Script):
    """An endpoint whose trials take a known time; who fails does so every time, or `once`."""

    def __init__(self, seconds: float = 0.0, fail_at: int | None = None, once: bool = False):
        super().__init__()
        self.seconds = seconds
        self.fail_at = fail_at
        self.once = once
        self.broken: dict = {}

    def run(self, request: dict) -> dict:
        if len(self.ran) == self.fail_at:
            self.broken = {name: request[name] for name in ("config", "variant", "workers")}
        if self.broken and self.broken.items() <= request.items():
            if self.once:
                self.broken = {}
            raise TrialFailed("exit status 3\n    last words")
        time.sleep(self.seconds)
        return RESULT


RANKED = grid().ranked(("gil", "ft-gil", "ft"), [1, 2], quick=False)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by the trials alone."""
    slept: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)


@pytest.fixture
def make():
    with Interruption() as interruption:

        def build(endpoint: Scripted, seed: int = 0) -> Controller:
            work = Work(SCENARIOS["pillow"], {"": load(4, 3)}, {"": ["a.jpg"]})
            controller = Controller(
                work, {"ft": endpoint, "gil": endpoint}, Silent(), interruption, seed
            )
            controller.interruption = interruption
            return controller

        yield build


def test_every_candidate_once_a_round_in_a_new_order_that_the_seed_repeats(make):
    def order(seed: int) -> list[list[str]]:
        rounds = list(make(Scripted(), seed).rounds(RANKED, time.monotonic() + 60, 0.001, 4))
        return [keys(r) for r in rounds]

    first = order(5)
    assert len(first) == 4
    assert all(sorted(keys) == sorted(c.key for _, c in RANKED) for keys in first)
    assert len({tuple(keys) for keys in first}) == 4
    assert order(5) == first != order(6)


def test_requests_give_every_worker_as_many_batches(make):
    endpoint = Scripted()
    list(make(endpoint).rounds(RANKED, time.monotonic() + 60, 0.001, 1))
    assert {(r["workers"], r["batches"]) for r in endpoint.ran} == {(1, 3), (2, 6)}


def test_rounds_stop_before_the_budget_is_overrun(make, clock):
    rounds = list(make(Scripted(0.005)).rounds(RANKED, 1.5, 0.005, None))
    assert len(rounds) > 3
    # Nor is a round's time left.
    assert 1.5 - 1.1 * rounds[-1].seconds < time.monotonic() <= 1.5


def test_three_rounds_are_run_whatever_the_budget_and_lose_candidates_for_it(make):
    rounds = list(make(Scripted(0.01)).rounds(RANKED, time.monotonic(), 0.01, None))
    assert len(rounds) == 3
    assert len(rounds[0].trials) == len(RANKED)
    assert set(keys(rounds[2])) == {c.key for rank, c in RANKED if rank == 0}


def test_a_budget_ends_rounds_that_became_slow_before_the_fewest(make, clock):
    class Slower(Scripted):
        def run(self, request):
            self.seconds = 0.01 if len(self.ran) <= len(RANKED) else 1.0
            return super().run(request)

    controller, limit = make(Slower()), 3 * 0.011 * len(RANKED)
    controller.limit = limit
    rounds = list(controller.rounds(RANKED, limit, 0.01, None))
    # The second round took longer than the first told; a third one is not begun.
    assert len(rounds) == 2


def test_a_budget_that_is_over_in_the_warm_up_is_refused_then(make, clock):
    endpoint = Scripted(10.0)
    controller = make(endpoint)
    controller.limit = 5.0
    with pytest.raises(BudgetTooShort, match="--budget is over before the first round: give more"):
        controller.warm_up([c for _, c in RANKED])
    assert len(endpoint.ran) == 1  # and not the other twin's


def test_nobody_comes_back_who_has_missed_a_round(make, clock):
    class Slower(Scripted):
        def run(self, request):
            self.seconds = 0.02 if len(self.ran) <= len(RANKED) else 0.001
            return super().run(request)

    # The first round takes all of the time but a little,
    # which the quick second one leaves plenty of.
    rounds = list(make(Slower()).rounds(RANKED, 0.02 * len(RANKED) + 0.3, 0.02, None))
    seats = [set(keys(r)) for r in rounds[:3]]
    assert len(seats[0]) > len(seats[1]) >= len(seats[2]) and seats[2] <= seats[1]


def test_a_number_of_rounds_that_was_asked_for_is_run_whatever_the_budget(make):
    rounds = list(make(Scripted()).rounds(RANKED, time.monotonic(), 1.0, 5))
    assert [len(r.trials) for r in rounds] == [len(RANKED)] * 5


def test_who_fails_is_left_out_from_then_on_and_the_others_go_on(make):
    n = len(RANKED)
    controller = make(Scripted(fail_at=n + 2))
    first, *others = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 3)
    ((candidate, failure),) = controller.failed.items()
    key = candidate.key
    # In a line: its last words were told when it happened.
    assert failure == Failure("failed", key, "exit status 3")
    assert failures(controller.failed) == f"the trial of {candidate.title} failed: exit status 3"
    # What it measured before stands; it has no more to say in the others.
    assert key in keys(first) and len(first.trials) == n and len(others) == 2
    assert all(set(keys(r)) == {c.key for _, c in RANKED} - {key} for r in others)


@pytest.mark.parametrize("turns", [1, 3])
def test_who_fails_once_has_another_try_in_the_same_round(make, turns):
    n = len(RANKED)
    endpoint = Scripted(fail_at=n + 2, once=True)
    controller = in_turns(make, endpoint, turns)
    rounds = list(controller.rounds(RANKED, time.monotonic() + 60, 0.001, 3))
    # Everybody has a result in every round, so that each pairs with those of its own round.
    assert [len(r.trials) for r in rounds] == [n] * 3 and not controller.failed
    ((candidate, failure),) = controller.repeated.items()
    assert failure == Failure("failed", candidate.key, "exit status 3")
    # A second failure is one too many.
    endpoint.broken, endpoint.once = (
        {name: getattr(candidate, name) for name in ("config", "variant", "workers")},
        False,
    )
    (again,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert (
        set(controller.failed) == {candidate}
        and candidate.key not in keys(again)
        and len(again.trials) == n - 1
    )


def test_what_was_said_is_said_once(make, monkeypatch):
    said = []
    monkeypatch.setattr(Silent, "note", lambda _, text: said.append(text))
    (_,) = make(Scripted(fail_at=2)).rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    first, second = said
    assert first == f"{second}\n    last words"


def test_nobody_waits_for_the_like_of_those_that_hang(make):
    """Where nobody could be measured; and who hangs has no second try."""

    class Hanging(Scripted):
        def run(self, request: dict) -> dict:
            if all_of_them or len(self.ran) == 1:
                raise TrialFailed("it hangs, or did not end within 60 s", hung=True)
            return RESULT

    all_of_them, endpoint = True, Hanging()
    with pytest.raises(TrialFailed, match="it hangs"):
        make(endpoint).warm_up([c for _, c in RANKED])
    assert sorted(VARIANTS[request["variant"]].processes for request in endpoint.ran) == [
        False,
        True,
    ]
    all_of_them, endpoint = False, Hanging()
    controller = make(endpoint)
    (only,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert len(endpoint.ran) == len(RANKED) and len(only.trials) == len(RANKED) - 1


def test_a_run_ends_when_everybody_has_failed(make):
    class Broken(Scripted):
        def run(self, request: dict) -> dict:
            raise TrialFailed("exit status 3")

    controller = make(Broken())
    with pytest.raises(TrialFailed, match="the trial of .* failed: exit status 3"):
        next(controller.rounds(RANKED, time.monotonic() + 60, 0.001, 3))
    assert set(controller.failed) == {c for _, c in RANKED}


def test_a_signal_stops_before_the_next_trial(make):
    endpoint = Scripted()
    controller = make(endpoint)
    rounds = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 9)
    next(rounds)
    controller.interruption.signum = 2
    with pytest.raises(Interrupted):
        next(rounds)
    assert len(endpoint.ran) == len(RANKED)


def in_turns(make, endpoint: Script, turns: int, room: Demand | None = None) -> Controller:
    controller = make(endpoint)
    controller.work.cases[""] = load(4, 3, turns)
    controller.work.room = room
    return controller


def test_trials_take_turns_in_a_new_order_each_time(make):
    endpoint = Scripted()
    (only,) = in_turns(make, endpoint, 3).rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    n = len(RANKED)
    assert set(keys(only)) == {c.key for _, c in RANKED} and {r["turns"] for r in endpoint.ran} == {
        3
    }
    # All import, then all begin, before the first has its turn; nobody has a second one before all
    # have had a first.
    begun = [(what, place) for what in ("import", "begin") for place in range(n)]
    assert endpoint.events[: 2 * n] == begun
    turns = endpoint.events[2 * n : 5 * n]
    assert all(what == "turn" for what, _ in turns)
    orders = [[place for _, place in turns[n * k : n * (k + 1)]] for k in range(3)]
    assert (
        all(sorted(order) == list(range(n)) for order in orders)
        and len(set(map(tuple, orders))) == 3
    )
    assert sorted(endpoint.events[5 * n :]) == [("close", place) for place in range(n)]


def test_only_as_many_trials_are_alive_as_memory_has_room_for(make):
    endpoint = Scripted()
    controller = in_turns(make, endpoint, 2)
    needs = [controller.work.demand(c) for _, c in RANKED]
    controller.work.room = Demand(3 * max(need.memory for need in needs), 10**9)
    (only,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert set(keys(only)) == {c.key for _, c in RANKED}
    alive, most = set(), 0
    for what, place in endpoint.events:
        (alive.discard if what == "close" else alive.add)(place)
        most = max(most, len(alive))
    assert 3 <= most < len(RANKED) and not alive


@pytest.mark.parametrize("fail_at", [1, len(RANKED)])
def test_who_fails_in_a_round_of_turns_is_ended_and_the_others_have_theirs(make, fail_at):
    endpoint, n = Scripted(fail_at=fail_at), len(RANKED)
    controller = in_turns(make, endpoint, 3)
    (only,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert len(controller.failed) == 1 and set(keys(only)) == {
        c.key for _, c in RANKED if c not in controller.failed
    }
    turns = [place for what, place in endpoint.events if what == "turn"]
    assert sorted(turns) == sorted(
        place for place in range(n) if place != fail_at - 1 for _ in range(3)
    )
    # Its second try ends as the first.
    assert sorted(place for what, place in endpoint.events if what == "close") == list(range(n + 1))


def test_the_warm_up_tries_others_where_one_fails(make):
    endpoint = Scripted(fail_at=1)
    controller = make(endpoint)
    assert controller.warm_up([c for _, c in RANKED]).turn >= 0
    assert len(endpoint.ran) == 3
    # Who failed has another try in the first round, and no third one.
    (only,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert len(controller.failed) == 1 and len(endpoint.ran) == 3 + len(RANKED)
    assert set(keys(only)) == {c.key for _, c in RANKED if c not in controller.failed}


def test_who_fails_in_the_warm_up_alone_is_measured(make):
    controller = make(Scripted(fail_at=1, once=True))
    controller.warm_up([c for _, c in RANKED])
    rounds = list(controller.rounds(RANKED, time.monotonic() + 60, 0.001, 2))
    assert [len(r.trials) for r in rounds] == [len(RANKED)] * 2 and not controller.failed
    assert len(controller.repeated) == 1


def test_a_twin_of_which_nobody_can_be_measured_is_left_out(make):
    class NoThreads(Scripted):
        def run(self, request: dict) -> dict:
            if request["config"] != "gil":
                raise TrialFailed("exit status 3")
            return RESULT

    endpoint = NoThreads()
    controller = make(endpoint)
    controller.warm_up([c for _, c in RANKED])
    others = {c for _, c in RANKED if c.config != "gil"}
    assert set(controller.failed) == others
    (only,) = controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1)
    assert set(keys(only)) == {c.key for _, c in RANKED if c not in others}


def test_a_signal_ends_all_that_wait(make):
    class Signalled(Scripted):
        def run(self, request):
            if len(self.ran) == len(RANKED):
                controller.interruption.signum = 2
            return super().run(request)

    endpoint = Signalled()
    controller = in_turns(make, endpoint, 3)
    with pytest.raises(Interrupted):
        list(controller.rounds(RANKED, time.monotonic() + 60, 0.001, 1))
    assert [what for what, _ in endpoint.events] == [
        what for what in ("import", "begin", "close") for _ in range(len(RANKED))
    ]


def test_warm_up_runs_one_trial_of_each_twin_and_tells_what_it_cost(make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ftbench.rounds.controller.time.monotonic", lambda: now[0])

    class Timed(Script):
        """Seconds of the imports, the warm-up and each turn, by configuration."""

        seconds: ClassVar = {
            "gil": (3.0, 1.0, 0.5),
            "ft": (2.0, 1.5, 0.25),
            "ft-gil": (2.0, 1.5, 0.25),
        }

        def run(self, request: dict) -> dict:
            return RESULT

        def start(self, request: dict):
            trial, steps = super().start(request), itertools.count()
            go_on = trial.go_on

            def timed() -> dict | None:
                now[0] += self.seconds[request["config"]][min(next(steps), 2)]
                return go_on()

            trial.go_on = timed
            return trial

    endpoint = Timed()
    controller = in_turns(make, endpoint, 4)
    costs = controller.warm_up([c for _, c in RANKED])
    assert sorted(r["config"].split("-")[0] for r in endpoint.ran) == ["ft", "gil"]
    assert {r["workers"] for r in endpoint.ran} == {2}
    # The shortest imports and warm-up, the mean of the turns.
    assert costs == Costs(2.0, 1.0, 0.375)


def test_rounds_end_once_they_tell_enough_and_not_before_the_fewest(make):
    asked = []

    def enough() -> bool:
        asked.append(len(asked) + 3)
        return asked[-1] == 5

    controller = make(Scripted())
    assert len(list(controller.rounds(RANKED, time.monotonic() + 600, 0.001, None, enough))) == 5
    assert asked == [3, 4, 5]
    # A number of rounds that was asked for is run, whatever they tell.
    assert len(list(controller.rounds(RANKED, time.monotonic() + 600, 0.001, 4, lambda: True))) == 4


@pytest.mark.parametrize(
    "seconds, kept",
    [
        (12 * 4, 12),
        (12 * 4 - 1, 11),  # of a single worker, the least important first
        (9 * 4, 9),
        (9 * 4 - 1, 6),
        (6 * 4, 6),
        (6 * 4 - 1, 5),
        (5 * 3, 5),  # the essential ones take three rounds
        (5 * 3 - 1, 3),
        (0, 3),
        (-9, 3),
    ],
)
def test_how_many_candidates_fit(seconds, kept):
    chosen, given_up = choose(RANKED, seconds, 1.0)
    assert len(chosen) == kept
    assert set(chosen) | set(given_up) == {c for _, c in RANKED}
    assert not set(chosen) & set(given_up)
