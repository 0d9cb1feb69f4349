"""--dataset: the waterfall of a user's own dataset from real runs,
and what is said where there can be none.
"""

import contextlib
import itertools
import os
import re
import shlex
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ftbench import cli
from ftbench.arguments import UsageError, parse
from ftbench.document.model import SkippedPart
from ftbench.document.store import load
from ftbench.measure import checksums
from ftbench.plan.scenario import Task, TrialError
from ftbench.plan.waterfall import COPIES, cells
from ftbench.report import advice, commands
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.twins import Twins
from ftbench.scenarios import find, own
from ftbench.stats.analysis import analyse
from ftbench.trial.process import TrialFailed, TrialProcess
from tests.programs import completed
from tests.unit.bench.own_datasets import FILES
from tests.unit.bench.scripted import Noted, options
from tests.unit.bench.turns import to_its_end, without_pause

EVERYBODY = ("torch-process", "loader-process", "loader-thread")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("code")
    found = {}
    for name, code in FILES.items():
        found[name] = directory / f"{name}.py"
        found[name].write_text(textwrap.dedent(code))
    return found


@pytest.fixture(scope="module")
def run_own(few, environment, tmp_path_factory):
    """Runs the command for a target with two candidates;
    returns what it did, and where its results would be.
    """

    def run(
        target: str, *more: object, variants: tuple[str, ...] = ("torch-process", "loader-thread")
    ):
        out = tmp_path_factory.mktemp("own")
        plan = "dataset=" + ",".join(f"{variant}/2" for variant in variants)
        given = ["--dataset", target, "--rounds", 1, "--batch-size", 8, *more]
        command = few(out, plan, *given, workers=2)
        done = completed(command, env=environment)
        return done, out / "latest"

    return run


@pytest.fixture(scope="module")
def finished(run_own, files, twin):
    """(CompletedProcess, the directory, its document) of a run of all candidates."""
    variants = (*EVERYBODY, COPIES) if twin == "ft" else EVERYBODY
    done, directory = run_own(f"{files['fine_data']}:train_set", variants=variants)
    assert done.returncode == 0, done.stderr
    return done, directory, load(directory / "results.json")


@pytest.mark.slow
def test_a_waterfall_of_the_users_own_dataset(finished, files, twin):
    done, directory, document = finished
    (fall,) = document.waterfalls
    chain = [side.candidate(2, "").key for side, _ in cells((twin,))]
    assert fall.throughput.candidates == chain
    further = [step.candidate for step in fall.throughput.further]
    assert further == ["ft/loader-copies/2"] * (twin == "ft")
    (scenario,) = document.scenarios
    assert (scenario.name, scenario.load.batch_size, len(scenario.rounds)) == ("dataset", 8, 1)
    # What a sample takes in a batch was found out by a look: a number and three squares, int64.
    assert scenario.load.sample_bytes == 8 + 3 * 8
    # All loaded the same, and nothing is held against the dataset.
    assert len({(t.first_batch, tuple(t.rows)) for one in scenario.rounds for t in one.trials}) == 1
    assert not any("audit" in warning for warning in document.warnings) and document.skipped == []
    assert scenario.description == f"samples of {files['fine_data']}:train_set, which has 5000"
    # In every output; of three rounds with the advice and its line of code.
    assert str(files["fine_data"]) in done.stdout.replace("\n", "") and "in all" in done.stdout
    assert "Too little was measured to advise for dataset" in " ".join(done.stdout.split())
    (only,) = scenario.rounds
    three = replace(
        document, scenarios=[replace(scenario, rounds=[replace(only, number=n) for n in (1, 2, 3)])]
    )
    run = analyse(three)
    assert "DataLoader(dataset, ..., num_workers=2" in advice.advice(run, run.waterfalls[0])[1]
    assert {p.name for p in directory.iterdir()} >= {"waterfall.png", "report.html", "summary.md"}
    assert (directory / "waterfall.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    # And what the page says to repeat it asks for the same.
    line = shlex.split(dict(commands.commands(analyse(document)))["The same measurement"])
    again = parse(line[line.index("./twins") + 2 :])
    assert again.scenarios[0].case("").parameters["target"] == f"{files['fine_data']}:train_set"
    assert (again.rounds, again.batch_size, again.workers, again.quick) == (1, 8, [2], True)


@pytest.fixture(scope="module")
def difficult(run_own, files):
    """(CompletedProcess, its document) of a run with the difficult dataset."""
    done, directory = run_own(f"{files['difficult_data']}:train_set")
    assert done.returncode == 0, done.stderr
    return done, load(directory / "results.json")


@pytest.mark.slow
def test_a_dataset_that_is_not_safe_under_threads_is_told_and_measured(difficult, files):
    done, document = difficult
    assert len(document.waterfalls) == 1
    (warning,) = [
        warning
        for warning in document.warnings
        if "not all candidates gave the same samples" in warning
    ]
    assert f"./twins audit {files['difficult_data']}:train_set" in warning
    said = " ".join(done.stdout.split())
    assert (
        "not safe under threads" in said
        and "gave other samples than torch's DataLoader with processes" in said
    )


@pytest.mark.slow
def test_packages_of_the_files_inline_metadata_are_installed(difficult, files, tmp_path, capsys):
    _, document = difficult
    assert document.options.requirements[:2] == ["torch", "xmltodict==1.0.4"]
    # A file of requirements comes in their place.
    (tmp_path / "some.txt").write_text("# one\nlxml  # another\n")
    given = [
        "--dataset",
        f"{files['difficult_data']}:train_set",
        "--requirements",
        str(tmp_path / "some.txt"),
    ]
    assert cli._record(parse(given)).options.requirements == ["lxml"]
    malformed = tmp_path / "malformed.py"
    malformed.write_text("# /// script\n# dependencies = {\n# ///\ntrain_set = [1]\n")
    assert cli.main(["--dataset", f"{malformed}:train_set"]) == 2
    assert "malformed.py: the inline metadata is no TOML" in capsys.readouterr().err


@pytest.mark.slow
def test_who_is_killed_once_keeps_its_place_and_it_is_told(difficult, twin):
    _, document = difficult
    (fall,) = document.waterfalls
    assert (
        fall.throughput.steps[-1].candidate == f"{twin}/loader-thread/2" and document.skipped == []
    )
    (warning,) = [
        warning for warning in document.warnings if "a second one took its place" in warning
    ]
    assert f"the trial of {twin} loader threads x2 failed: killed by signal 9" in warning


@pytest.mark.slow
def test_what_the_users_code_raises_is_shown_as_they_know_it(run_own, files):
    done, directory = run_own(f"{files['bad_data']}:raises")
    assert done.returncode == 1 and not directory.exists()
    assert (
        f"./twins bench: sample 0 of {files['bad_data']}:raises: OSError: picture 0 cannot be read\n"
        in done.stderr
    )
    # Once, whatever twins said it.
    assert done.stderr.count(f'{files["bad_data"]}", line') == 1


@pytest.mark.slow
def test_a_dataset_that_raises_in_threads_is_told_once_and_the_rest_stands(run_own, files):
    done, directory = run_own(f"{files['bad_data']}:unsafe", variants=EVERYBODY)
    assert done.returncode == 1
    document = load(directory / "results.json")
    (scenario,) = document.scenarios
    (failure,) = scenario.failures
    assert (failure.kind, failure.reason) == ("failed", "RuntimeError: not thread-safe")
    assert (
        " loader threads x2 failed: RuntimeError: not thread-safe; without workers, all "
        in document.reason
    )
    assert document.reason.endswith(" samples load")
    assert done.stderr.count(f'{files["bad_data"]}", line') == 1 and "Traceback" not in done.stdout
    said = " ".join(done.stdout.split())
    assert (
        "loader threads. The steps that need them" in said
        and "failed: RuntimeError: not thread-safe." in said
    )
    assert "bad_data.py:unsafe looks for what is not safe under threads" in said


@pytest.mark.slow
def test_sys_exit_of_a_dataset_is_told(files, twin):
    parameters = {"target": f"{files['bad_data']}:ends"}
    task = Task(own.LOOK, [], "serial", 0, 1, 2, 1, 2, parameters=parameters, config=twin)
    with pytest.raises(TrialFailed, match="^SystemExit: enough"):
        to_its_end(TrialProcess(sys.executable, task.request(), {}))


@pytest.mark.parametrize(
    "name, message",
    [
        ("dies", r"^sample 5 of \S+bad_data\.py:dies: exit status 3"),
        ("leaves", r"^opening \S+bad_data\.py:leaves: exit status 4"),
        ("hangs", r"^sample 6 of \S+bad_data\.py:hangs: it hangs, or did not end within 15 s"),
    ],
)
@pytest.mark.slow
def test_the_sample_that_ends_or_stops_the_process_is_named(files, twin, name, message):
    class Local:
        def start(self, request: dict) -> TrialProcess:
            return TrialProcess(sys.executable, {**request, "patience": 15.0}, {})

    scenario = own.scenario(f"{files['bad_data']}:{name}")
    with pytest.raises(TrialFailed, match=message):
        Measurement(scenario, options("dataset"), Twins({twin: Local()}), Noted()).look()


@pytest.mark.slow
def test_a_sample_that_ends_the_process_later_is_named(files, run_own):
    done, results = run_own(f"{files['bad_data']}:dies_later", variants=("loader-thread",))
    assert done.returncode == 1 and not results.exists()
    assert re.search(
        r"without workers, sample 12 of \S+bad_data\.py:dies_later: exit status 3", done.stderr
    )


class Here:
    """An endpoint that has the trial's process in this one."""

    def start(self, request: dict):
        return self.Trial(request)

    class Trial:
        def __init__(self, request: dict):
            self.request = request

        def go_on(self) -> dict:
            scenario = find(self.request["scenario"])
            try:
                return without_pause(scenario.measure(Task.of(scenario, self.request)))
            except TrialError as error:
                raise TrialFailed(str(error)) from error

        def close(self) -> None:
            pass


def looked_at(target: str, batch_size: int | None = None, collate_fn: str | None = None):
    given, display = options("dataset", batch_size=batch_size, configs=["ft"]), Noted()
    twins = Twins({"ft": Here()}, {"ft": {"packages": {"torch": "2"}, "cpu": {"usable": 2}}})
    measurement = Measurement(own.scenario(target, collate_fn), given, twins, display)
    measurement.look()
    candidates = [c for _, c in measurement.ranked()]
    return SimpleNamespace(
        scenario=measurement.scenario, candidates=candidates, **vars(display.results)
    )


@pytest.mark.parametrize(
    "name, message",
    [
        ("empty", "is empty: where is its data"),
        ("stream", "is iterable-style: .* Name a map-style dataset"),
        ("endless", "has no length: give it __len__"),
        ("emptee", r"bad_data\.py has no emptee: did you mean 'empty'\? It has Dataset, "),
        ("missing", r"bad_data\.py has no missing; it has .*empty"),
        ("fails", "(?s)no licence for this data"),
        ("negative", "has no usable length: "),
        (
            "varying",
            r"^samples of .*:varying cannot be made into a batch: .*\[4\] at entry 1; name a "
            r"--collate-fn$",
        ),
        ("needy", "(?s)No module named 'no_such_package'; name it with --requirements FILE"),
    ],
)
def test_what_cannot_be_measured_says_why(files, name, message):
    with pytest.raises(TrialFailed, match=message):
        looked_at(f"{files['bad_data']}:{name}")


def test_a_container_without_a_network_names_the_derived_image(files, monkeypatch):
    monkeypatch.setenv("FT_COMMAND", "docker compose run --rm ft-bench")
    said = r"No module named 'no_such_package'; derive an image .*\(docs/benchmark\.md, "
    with pytest.raises(TrialFailed, match=f"(?s){said}"):
        looked_at(f"{files['bad_data']}:needy")


class Stuck:
    """An endpoint whose trials never come to an end."""

    def __init__(self):
        self.patience = []

    def start(self, request: dict):
        self.patience.append(request["patience"])
        raise TrialFailed(f"it hangs, or did not end within {request['patience']:.0f} s", hung=True)


def test_a_dataset_that_hangs_is_waited_for_in_each_twin():
    stuck, scenario = Stuck(), own.scenario("my.py:x")
    with pytest.raises(TrialFailed, match="it hangs"):
        Measurement(
            scenario, options("dataset"), Twins({"ft": stuck, "gil": stuck}), Noted()
        ).look()
    assert stuck.patience == [180.0, 180.0]


def test_two_twins_that_say_the_same_are_heard_once():
    class Broken:
        def start(self, request: dict):
            raise TrialFailed(f"OSError: no disc\n    in {request['config']}")

    scenario = own.scenario("my.py:x")
    with pytest.raises(TrialFailed) as caught:
        Measurement(
            scenario, options("dataset"), Twins({"ft": Broken(), "gil": Broken()}), Noted()
        ).look()
    assert str(caught.value).count("OSError: no disc") == 1


def test_a_twin_that_cannot_load_it_is_left_out_in_a_line(files):
    class Broken:
        def start(self, request: dict):
            raise TrialFailed("OSError: no disc\n    in drive A")

    display = Noted()
    scenario = own.scenario(f"{files['fine_data']}:train_set")
    Measurement(
        scenario, options("dataset"), Twins({"ft": Broken(), "gil": Here()}), display
    ).look()
    assert display.results.skipped == [SkippedPart("dataset: the ft twin", "OSError: no disc")]
    assert display.notes[0].startswith("loading some samples of ")
    assert display.notes[1:] == [
        "OSError: no disc\n    in drive A",
        "left out: dataset: the ft twin: OSError: no disc",
    ]


def test_batches_that_cannot_be_sent_leave_threads(files):
    found = looked_at(f"{files['fine_data']}:train_set", collate_fn=f"{files['fine_data']}:handles")
    (left_out,) = found.skipped
    assert left_out.what == "dataset: worker processes"
    assert "cannot be sent from a worker process: " in left_out.why
    assert {who.variant for who in found.candidates} == {"loader-thread", COPIES}
    measured = found.scenario.measure(
        Task(
            found.scenario,
            [],
            "loader-thread",
            2,
            8,
            1,
            2,
            2,
            parameters=found.scenario.case("").parameters,
        )
    )
    assert without_pause(measured)["batches"] == 2


def test_what_cannot_be_copied_leaves_threads_that_share_it(files):
    measured = looked_at(f"{files['bad_data']}:opens")
    (left_out,) = measured.skipped
    assert left_out.what == "dataset: loader threads with a copy each"
    assert left_out.why.startswith("Opens.file cannot be copied (")
    variants = {c.variant for c in measured.candidates}
    assert "loader-thread" in variants and COPIES not in variants


def test_a_look_finds_how_much_makes_a_turn(files, monkeypatch):
    # time passes by sleeping, and a microsecond by a look at the clock
    slept, looks = [], itertools.count()
    monkeypatch.setattr(
        own, "time", SimpleNamespace(perf_counter=lambda: sum(slept) + 1e-6 * next(looks))
    )
    monkeypatch.setattr("time.sleep", slept.append)
    found = looked_at(f"{files['fine_data']}:train_set")
    scenario = found.scenario
    assert (found.skipped, found.warnings, scenario.sample_bytes) == ([], [], 32)
    assert scenario.quick == scenario.full == own.amount(0.0005, None)  # as long as a sample sleeps
    assert scenario.quick.batch_size == own.BATCH_SIZE
    asked = looked_at(f"{files['fine_data']}:train_set", 100).scenario
    assert asked.quick.batch_size == 100
    # Who asks for large batches, or has a dataset that takes long to open, does not seem to hang.
    large = looked_at(f"{files['fine_data']}:train_set", 100_000).scenario
    assert large.patience > own.PATIENCE + own.PATIENCE_TIMES * 0.0004 * 100_000 * (6 + 2 * 2)
    assert (
        looked_at(f"{files['bad_data']}:slow").scenario.patience
        > own.PATIENCE + 0.5 * own.PATIENCE_TIMES
    )
    collated = looked_at(
        f"{files['fine_data']}:train_set", collate_fn=f"{files['fine_data']}:pairs"
    ).scenario
    assert collated.sample_bytes > 32  # the text that it adds
    with pytest.raises(TrialFailed, match="has no nothing"):
        looked_at(f"{files['fine_data']}:train_set", collate_fn=f"{files['fine_data']}:nothing")


def test_batches_without_a_length_are_measured():
    assert (
        checksums.length([len]) == checksums.length({}) == checksums.length(torch.tensor(1.0)) == 0
    )


def test_dear_samples_make_small_batches_and_cheap_ones_no_endless_turns():
    assert own.amount(10.0, None) == own.Amount(1, 2, 10)
    assert own.amount(0.02, None).batch_size == own.amount(0.022, None).batch_size == 4
    # Of those that cost nothing, a batch still costs something.
    cheap = own.amount(1e-7, None)
    assert cheap.batch_size == own.BATCH_SIZE
    assert cheap.batches_per_worker == pytest.approx(own.TURN_SECONDS / own.BATCH_SECONDS, rel=0.01)


def test_random_samples_are_told_before_anything_is_measured(files):
    warning, few = looked_at(f"{files['bad_data']}:drawn").warnings
    assert "drawn has 8 of the " in few
    assert "another sample for the same index each time" in warning
    assert f"./twins audit {files['bad_data']}:drawn" in warning


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--dataset", "train.py"], "FILE.py:NAME is wanted"),
        (["--dataset", ":train_set"], "FILE.py:NAME is wanted"),
        (["--dataset", "no_such_file.py:train_set"], "there is no file no_such_file.py"),
        (["pillow", "--dataset", f"{__file__}:x"], "is measured alone"),
        (["--collate-fn", "pairs"], "--dataset"),
        (["--dataset", f"{__file__}:x", "--data", os.curdir], "--data is for images"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(UsageError, match=message):
        parse(arguments)


@pytest.mark.parametrize(
    "text, refused",
    [
        ("images = [1]\n", "has no imagez: did you mean 'images'?"),
        ("class Photos:\n    pass\n", r"has no imagez$"),
        ("def imagez(): ...\n", ""),
        ("for imagez in [[1]]: pass\n", ""),
        ("from elsewhere import *\n", ""),
        ("def __getattr__(name): ...\n", ""),
        ("globals()['image' + 'z'] = [1]\n", ""),
    ],
)
def test_a_name_that_the_file_cannot_have_is_refused(tmp_path, text, refused):
    file = tmp_path / "data.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=refused) if refused else contextlib.nullcontext():
        parse(["--dataset", f"{file}:imagez"])


def test_trials_find_the_file_wherever_they_run(files, monkeypatch):
    monkeypatch.chdir(files["fine_data"].parent)
    (scenario,) = parse(["--dataset", "fine_data.py:train_set", "--collate-fn", "pairs"]).scenarios
    assert scenario.case("").parameters == {
        "target": f"{files['fine_data']}:train_set",
        "collate_fn": f"{files['fine_data']}:pairs",
    }
