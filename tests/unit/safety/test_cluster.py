"""The order in which runs of a cluster are counted, and answers of workers that are not as they should be."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ftrun.configurations import CONFIGURATIONS
from ftrun.environment import source_hash
from ftsafety.repro.campaign import Campaign
from ftsafety.repro.cluster import Cluster
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.request import Limits
from ftsafety.repro.script import Script

PYTHON = dict.fromkeys(("version", "executable", "build", "compiler", "config_args"), "")
DESCRIBED = {
    "interpreter": {**PYTHON, "twin": "ft", "upstream_fixes": 0},
    "packages": {"numpy": "2.1"},
    "cpu": {"model": "a processor", "usable": 1, "count": 1},
    "memory": {"total": 1},
    "os": {"name": "", "kernel": "", "container": None},
    "source": "",
}
HEAD = {"source": source_hash(), "added": {}, "missing": {}, "remarks": []}
HEAD["twins"] = {"ft": DESCRIBED, "gil": DESCRIBED}
OK = Outcome(Kind.OK, "")


class Answers:
    """A link to workers that answer as *answer* does: with the lines of a batch, or with another message.

    Of the batches that were submitted, the last one ends first.
    """

    threads = 2
    where = SimpleNamespace(folder="/ft-env")

    def __init__(self, answer=None):
        self.submitted, self.cancelled = [], 0
        self._answer, self._messages = answer or all_rounds(), []

    def send(self, message):
        if "cancel" in message:
            self.cancelled += 1
            return
        number, request = message["run"], message["request"]
        self.submitted.append(request)
        answer = self._answer(number, request)
        if isinstance(answer, dict):
            self._messages.append([{**answer, "lost": number}])
            return
        node, lines = answer
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        batch = [{"of": number, "line": text} for text in texts]
        self._messages.append([*batch, {"ended": number, "node": node, "error": "", "threads": 2}])

    def receive(self, until):
        if not self._messages:
            raise TimeoutError
        message = self._messages[-1].pop(0)
        if not self._messages[-1]:
            self._messages.pop()
        return message


def run_of(config, outcome):
    return {"config": config, "outcome": outcome.as_json()}


def all_rounds(outcome=lambda number, config: OK, most=math.inf, head=HEAD):
    """Workers that make the rounds of a request, at most *most* of them."""

    def answer(number, request):
        rounds = min(request["rounds"], most)
        runs = [run_of(config, outcome(number, config)) for _ in range(rounds) for config in request["configs"]]
        return f"node{number % 3}", [head, *runs, {"end": {}}]

    return answer


def campaign(link, repeat=40, configs=CONFIGURATIONS, enough=lambda _: False):
    cluster = Cluster(link)
    cluster.describe(["ft", "gil"], (), math.inf)
    twins = {"ft": cluster, "gil": cluster}
    made = Campaign(Script("bug.py", b""), twins, Limits(), lambda *_: None, math.inf, ahead=cluster.ahead)
    return made.run(configs, repeat, 2, enough=enough), cluster


def test_batches_are_counted_in_their_order_though_the_last_one_arrives_first():
    link = Answers(all_rounds(lambda number, config: replace(OK, detail=str(number))))
    found, cluster = campaign(link)
    for runs in found.values():
        numbers = [int(outcome.detail) for outcome in runs.outcomes]
        assert numbers == sorted(numbers) and len(numbers) == 40 and len(set(numbers)) > 3 and runs.missing is None
        assert [outcome.node for outcome in runs.outcomes] == [f"node{number % 3}" for number in numbers]
    assert set(cluster.nodes) == {"node0", "node1", "node2"}


def test_rounds_that_a_batch_did_not_get_to_are_made_by_others():
    link = Answers(all_rounds(most=2))
    found, _ = campaign(link)
    assert {len(runs.outcomes) for runs in found.values()} == {40}
    assert len(link.submitted) > 20


def test_a_campaign_that_ends_early_cancels_the_rest():
    link = Answers()
    found, _ = campaign(link, 10_000, enough=lambda runs: len(runs["ft"].outcomes) == 7)
    assert {len(runs.outcomes) for runs in found.values()} == {7}
    assert link.cancelled == 1 and sum(request["rounds"] for request in link.submitted) < 10_000


def test_an_import_that_turns_the_gil_on_is_counted_once():
    # Batches under way do not know yet that the GIL has to be held off, and find it out again.
    def answer(number, request):
        runs = [run_of("ft", OK) for _ in range(min(2, request["rounds"]))]
        if runs and "ft" not in request["forced"]:
            runs.insert(0, run_of("ft", Outcome(Kind.GIL, "x")))
        return "node", [HEAD, *runs, {"end": {}}]

    link = Answers(answer)
    found, _ = campaign(link, 60, ["ft"])
    kinds = [outcome.kind for outcome in found["ft"].outcomes]
    assert kinds == [Kind.GIL, *[Kind.OK] * 60] and found["ft"].forced_off
    assert link.submitted[1]["forced"] == [] and link.submitted[-1]["forced"] == ["ft"]


OTHER = {**HEAD, "twins": {"ft": {**DESCRIBED, "packages": {"numpy": "2.2"}}, "gil": DESCRIBED}}
RUN = run_of("ft", OK)
WRONG_LINES = {
    "has other sources": [{"source": "0"}],
    "is not equal to node0, in the twin ft: numpy 2.1 (node0), 2.2 (node)": [OTHER, {"end": {}}],
    "its description has another form": [{**HEAD, "twins": {"ft": DESCRIBED}}, {"end": {}}],
    "a batch wrote nothing": [],
    "a batch ended too early": [HEAD, RUN],
    "a batch made no runs": [HEAD, {"end": {}}],
    "not a run": [HEAD, {**RUN, "config": "gil"}, {"end": {}}],
    "not an outcome": [HEAD, {**RUN, "outcome": {**RUN["outcome"], "kind": "x"}}, {"end": {}}],
    "the twin is lost": [HEAD, RUN, {"end": {"ft": "the twin is lost"}}],
    "wrote nothing": ["\x1b[31m" + "[" * 100_000],
}


@pytest.mark.parametrize("words", WRONG_LINES)
def test_a_node_whose_answer_is_wrong_ends_the_campaign_and_is_named(words):
    good = all_rounds()
    link = Answers(lambda number, request: ("node", WRONG_LINES[words]) if number else good(number, request))
    found, _ = campaign(link, 40, ["ft"])
    missing = found["ft"].missing
    assert missing.startswith("lost in run") and words in missing and "node" in missing and missing.isprintable()
