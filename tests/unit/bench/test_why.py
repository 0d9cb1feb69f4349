"""--why: conclusions from rates, their words, what the command refuses, and a real run."""

import random
import signal
import textwrap
from dataclasses import replace

import pytest

from ftbench.arguments import UsageError, parse
from ftbench.measure.sharing import ALL, ALONE, COPIED, KEPT, OBJECT, SHARED
from ftbench.plan.scenario import Task, TrialError
from ftbench.report.why import ADVICE, view
from ftbench.scenarios import own
from ftbench.stats.sharing import why
from tests.processes import assert_gone, descendants, wait_until
from tests.programs import completed, programs_to_end
from tests.unit.bench.turns import without_pause

ROUNDS = 12
LINE = "/code/train.py:31: with LOCK:"
DATASET = "train.py:train_set"


def result(speeds, parts=("words", "table"), noise=0.05, seed=0, **more):
    """What was measured: 100 samples/s in each way, times its speed."""
    draw = random.Random(seed)
    ways = [ALONE, SHARED, OBJECT, ALL]
    for part in parts:
        ways += [COPIED + part, KEPT + part]
    rates = {}
    for way in ways:
        speed = 100 * speeds.get(way, 1.0)
        rates[way] = [speed * draw.lognormvariate(0, noise) for _ in range(ROUNDS)]
    usual = {
        "rates": rates,
        "kinds": dict.fromkeys(parts, "list"),
        "lacking": {},
        "unmeasured": [],
        "waits": {ALONE: {}, ALL: {}},
    }
    return {**usual, **more}


def threads(shared, copied, **of_parts):
    """Speeds of all ways, those without a copy of words at *shared*, all others at *copied*."""
    return {
        SHARED: shared,
        OBJECT: shared,
        COPIED + "words": copied,
        COPIED + "table": shared,
        KEPT + "words": shared,
        KEPT + "table": copied,
        ALL: copied,
    }


def test_the_attribute_that_threads_fight_over_is_named():
    answer = why(2, result(threads(1.4, 1.9)), [])
    (culprit,) = answer.culprits
    assert culprit.name == "words" == answer.parts[0].name
    assert culprit.harm.ratio == pytest.approx(1.9 / 1.4, rel=0.1)
    assert culprit.cured.ratio == pytest.approx(1.9, rel=0.1)
    said = view(DATASET, answer)
    assert said.sentences[0].startswith(f"{DATASET}: 2 threads without the GIL are 1.4")
    assert "times one; with a copy of the dataset each 1.9" in said.sentences[0]
    assert said.sentences[1].startswith("With a copy of `words` (list) each 1.9")
    assert (
        "it is what they fight over. Threads that share it and nothing else are 1.3"
        in said.sentences[1]
    )
    assert said.sentences[2:] == [f"{ADVICE}."]
    assert [row[0] for row in said.table.rows if row[3]] == ["words"]


def test_attributes_that_share_objects_are_both_named():
    speeds = threads(1.4, 1.9) | {COPIED + "words": 1.4, KEPT + "table": 1.4}
    said = view(DATASET, why(2, result(speeds), [])).sentences
    assert any(line.startswith("They fight over `words` (list). Threads") for line in said)
    assert any("with a copy of it alone 1.4" in line for line in said)


def test_the_dataset_object_itself_is_named():
    speeds = dict.fromkeys((OBJECT, *threads(1, 1)), 1.9) | {SHARED: 1.2}
    said = view(DATASET, why(2, result(speeds), [])).sentences
    assert said[1].startswith(
        "With a copy of the dataset object, without what its attributes hold,"
    )


def test_nothing_is_named_where_nothing_is_fought_over():
    named = 0
    for seed in range(200):
        named += bool(why(2, result(threads(1.9, 1.9), noise=0.2, seed=seed), []).culprits)
    assert named <= 10
    said = view(DATASET, why(2, result(threads(1.9, 1.9)), [])).sentences
    assert said[1:] == ["Nothing in the dataset is shown to be fought over."]


def test_copies_that_help_without_a_culprit_are_advised():
    speeds = threads(1.4, 1.9) | {KEPT + "words": 1.9, OBJECT: 1.4}
    said = view(DATASET, why(2, result(speeds), [])).sentences
    assert said[1:3] == [
        "Copies help, but no attribute alone is shown to be fought over.",
        f"{ADVICE}.",
    ]


def test_nothing_is_concluded_from_turns_that_vary_too_much():
    answer = why(2, result(threads(1.4, 6.0), noise=1.5), [])
    assert answer.unclear and not answer.culprits
    said = view(DATASET, answer)
    first, second = said.sentences
    assert first.startswith(f"{DATASET}: 2 threads") and "quiet machine" in second
    unsure = replace(answer, parts=[replace(part, fought_over=True) for part in answer.parts])
    assert not any(row[3] for row in view(DATASET, unsure).table.rows)


def test_a_small_difference_is_not_named_however_certain():
    assert not why(2, result(threads(1.86, 1.9), noise=0.001), []).culprits


def test_what_no_copy_cures_is_the_rest():
    waits = {ALONE: {LINE: 2, "sum()": 98}, ALL: {LINE: 94, "read()": 10, "sum()": 96}}
    said = view(DATASET, why(2, result(threads(1.0, 1.0), waits=waits), [])).sentences
    assert said[2].startswith("What no copy cures: ")
    assert said[2].endswith(f"the threads spend more than one thread does: 45% at {LINE}")
    other = view(DATASET, why(2, result(threads(1.0, 1.0)), ["other processes used 1 CPU"]))
    assert "module globals" in other.sentences[2]
    assert " times. But other processes used 1 CPU. Threads that" in other.sentences[0]


def test_a_line_is_named_only_if_that_is_shown():
    few = {ALONE: {LINE: 0, "sum()": 2}, ALL: {LINE: 1, "sum()": 3}}
    small = {ALONE: {LINE: 100, "sum()": 900}, ALL: {LINE: 190, "sum()": 810}}
    for waits in (few, small):
        assert not why(2, result(threads(1.0, 1.0), waits=waits), []).waits


def test_a_dataset_without_copies_and_parts_without_one():
    rates = {ALONE: [100.0, 101.0, 99.0], SHARED: [150.0, 149.0, 151.0]}
    lacking = {ALL: "TypeError: cannot pickle 'module' object"}
    without = result(
        {},
        rates=rates,
        lacking=lacking,
        waits={ALONE: {"sum()": 50}, SHARED: {LINE: 40, "sum()": 60}},
    )
    said = view(DATASET, why(2, without, [])).sentences
    assert said[0].endswith(
        "; the dataset cannot be copied (TypeError: cannot pickle 'module' object)."
    )
    assert any(line.endswith(f"more than one thread does: 40% at {LINE}") for line in said)
    partly = result(threads(1.4, 1.9), lacking={"file": "TypeError: a file"}, unmeasured=["a", "b"])
    said = view(DATASET, why(2, partly, [])).sentences
    assert said[-3:] == [
        f"{ADVICE}, once __getstate__ leaves out what has none: file.",
        "`file` has no copy, so the threads always shared it: TypeError: a file.",
        "Not measured, since a first look found less harm: a, b.",
    ]


def test_one_round_names_nothing():
    one = result(threads(1.4, 1.9))
    one["rates"] = {way: rates[:1] for way, rates in one["rates"].items()}
    answer = why(2, one, [])
    assert not answer.culprits and view(DATASET, answer).sentences[0].count("(") == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["text", "--why"], "--why is about a dataset: name it with --dataset FILE.py:NAME"),
        (["text", "--dataset", DATASET, "--why"], "name no scenario with it"),
        (["--again", "3"], "--again does not go with --why"),
        (["--configs", "gil,ft"], "--configs does not go with --why"),
        (["--ranks", "2"], "--ranks does not go with --why"),
        (["--no-stress"], "--stress does not go with --why"),
        (["--budget", "30"], "--budget does not go with --why"),
        (["--workers", "1"], "--why compares threads with one: --workers 2 or more"),
    ],
)
def test_what_does_not_go_with_why(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("train_set = [1]\n")
    usual = [] if "--why" in arguments else ["--dataset", DATASET, "--why"]
    with pytest.raises(UsageError, match=message):
        parse([*usual, *arguments])


FIGHTING = """
    import threading
    import time

    class Counted:
        def __init__(self):
            self.counter = [0]

        def __len__(self):
            return 100

        def __getitem__(self, index):
            for _ in range(300):
                self.counter[0] += index
            return index

    class Broken(Counted):
        def __getitem__(self, index):
            raise OSError(f"picture {index} cannot be read")

    class Hangs(Counted):
        def __getitem__(self, index):
            open(__file__ + "-hangs", "w").close()
            time.sleep(1000)
"""


@pytest.fixture
def why_file(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(FIGHTING))
    return tmp_path / "train.py"


@pytest.fixture
def why_of(command, why_file, tmp_path):
    """The command of a short --why of a dataset of FIGHTING."""

    def build(name):
        arguments = ["--dataset", f"{why_file}:{name}", "--why", "--rounds", 2]
        return command(*arguments, "--workers", 2, "--out", tmp_path / "out", module="ftbench")

    return build


@pytest.mark.slow
def test_a_real_run_answers(why_of, environment, twin, tmp_path):
    done = completed(why_of("Counted"), env=environment)
    assert not (tmp_path / "out").exists()
    if twin == "gil":
        assert done.returncode == 2 and "no free-threaded interpreter was given" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "train.py:Counted: 2 threads without the GIL are" in said and "counter" in said


@pytest.mark.parametrize(
    "name, error", [("Broken", "picture 0 cannot be read"), ("none", "has no none")]
)
def test_a_dataset_that_fails_is_said(why_file, name, error):
    parameters = {"target": f"{why_file}:{name}", "rounds": 2, "seconds": 1.0}
    task = Task(own.WHY, [], "loader-thread", 2, 16, 0, 1, 2, parameters=parameters)
    with pytest.raises((OSError, TrialError), match=error):
        without_pause(own.WHY.measure(task))


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once(why_of, environment, twin, tmp_path):
    if twin != "ft":
        return
    with programs_to_end() as start:
        process = start(why_of("Hangs"), env=environment)
        assert wait_until((tmp_path / "train.py-hangs").exists)
        processes = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=10)
    assert (process.returncode, output) == (130, "") and said.endswith(
        "./twins bench: interrupted\n"
    )
    assert_gone(processes)
