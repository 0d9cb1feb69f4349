"""--command: what is refused, one run of a program, and real runs of the benchmark with it."""

import ctypes
import os
import shlex
import signal
import sys
import textwrap
import zlib
from pathlib import Path
from statistics import fmean

import pytest

from ftbench.arguments import UsageError, parse
from ftbench.cli import _requirements
from ftbench.document.store import load
from ftbench.merge.merging import merge
from ftbench.plan.scenario import TrialError
from ftbench.rounds.first_runs import has_data, where_different
from ftbench.scenarios.command import UsersCommand, scenario, sized
from ftbench.trial.program import KEPT, Program, with_python_first
from ftrun.errors import Stopped
from ftrun.process_tree import PR_SET_CHILD_SUBREAPER
from tests.checkout import CHECKOUT
from tests.processes import assert_gone, descendants, wait_until
from tests.programs import completed, programs_to_end

LINE = "python prog.py {n}"
KEPT_RUNS = CHECKOUT / "docs/results/2026-11-30-commands"


@pytest.fixture(autouse=True)
def adopts_no_orphans():
    """A run makes this process adopt orphans of the command. Later tests leave theirs to init."""
    yield
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--command", ""], "--command is empty"),
        (["--command", "python 'x"], "--command: No closing quotation"),
        (["--command", "python -c 1 | cat"], "no shell reads it, so | would be an argument"),
        (["--command", "python missing.py"], "there is no file missing.py"),
        (["--command", "true", "--parameter", "n=1,2"], "has no {n}, which --parameter gives"),
        (["--command", "true", "--dataset", "a.py:b"], "measured alone"),
        (["--command", "true", "pillow"], "measured alone"),
        (["--command", "true", "--workers", "2"], "--parameter n=1,2,4"),
        (["--command", "true", "--stdin", "missing"], "there is no such regular file"),
        (["--command", "true", "--ranks", "2"], "it runs a command"),
        (["--command", "true", "--batch-size", "2"], "loads nothing"),
        (["--command", "true\nfalse"], "line breaks or other control characters"),
        (["--command", "true \udcff"], "line breaks or other control characters"),
        (["--command", "A=1 true"], "use env A=1 ..."),
        (["--command", "python -X gil=1 -c 1"], "-X gil is what the configurations differ in"),
        (["--command", "true", "--setup", "a && b"], "--setup: no shell reads it, so && would"),
        (["--command", "{n}", "--parameter", "n=1", "--parameter", "m=1"], "given twice"),
        (["--command", "true", "--stdin", "/dev/null"], "there is no such regular file"),
        (["--setup", "true"], "--setup belongs to --command"),
        (["--no-compare"], "--no-compare belongs to --command"),
        (["--package", "numpy"], "belong to --dataset or --command"),
    ],
)
def test_what_is_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        parse(arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["n", "n=", "1n=2", "=1,2", "n=,"])
def test_a_parameter_needs_a_name_and_values(text, capsys):
    with pytest.raises(SystemExit):
        parse(["--command", LINE, "--parameter", text])
    assert "is not NAME=VALUE,..." in capsys.readouterr().err


def test_each_value_is_a_case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").touch()
    options = parse(["--command", LINE, "--parameter", "n=1,2,2,a b", "--setup", "touch {n}"])
    assert options.command and options.command.values == ("1", "2", "a b")
    (measured,) = options.scenarios
    one, _, words = measured.plan.cases
    assert (one.name, one.title, one.value) == ("1", "n=1", 1.0)
    assert one.parameters["arguments"] == ["python", "prog.py", "1"]
    assert (words.name, words.value) == ("a-b", None)
    assert words.parameters["setup"] == ["touch", "a b"]  # one argument, whatever is in it
    written = options.command.options()
    assert parse(written).command == options.command


def test_values_that_have_the_same_name_are_told_apart():
    cases = list(UsersCommand(LINE, "n", ("a b", "a-b", "/", "nan", "1e999")).cases())
    assert [case.name for case in cases] == ["a-b", "a-b-2", "3", "nan", "1e999"]
    assert {case.value for case in cases} == {None}


def test_quoted_characters_of_a_shell_are_arguments():
    assert parse(["--command", "find . -exec ls {} \\;"]).command
    assert parse(["--command", 'grep "<" file']).command


def test_a_script_in_the_words_of_a_shell_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wc.py").write_text('# /// script\n# dependencies = ["tqdm"]\n# ///\n')
    for line, found in (("sh -c 'cat in.txt | python wc.py'", []), ("python wc.py", ["tqdm"])):
        assert _requirements(parse(["--command", line])) == found


def test_a_command_without_a_parameter_keeps_its_braces():
    (case,) = UsersCommand("awk '{print}'").cases()
    assert case.name == "" and case.parameters["arguments"] == ["awk", "{print}"]


def test_every_configuration_is_compared_in_every_case():
    plan = scenario(UsersCommand(LINE, "n", ("1", "2"))).plan
    candidates = plan.ranked(["gil", "ft-gil", "ft"], [1], quick=True).candidates
    assert len(candidates) == 6
    pairs = {(pair.kind, pair.numerator, pair.denominator) for pair in plan.pairs(candidates)}
    for case in ("1", "2"):
        gil, ft_gil, ft = (f"{name}/bare-command/0@{case}" for name in ("gil", "ft-gil", "ft"))
        assert pairs >= {("total", ft, gil), ("step", ft_gil, gil), ("step", ft, ft_gil)}
    assert ("scaling", "ft/bare-command/0@2", "ft/bare-command/0@1") in pairs


def test_long_commands_have_one_turn_in_a_trial():
    command = scenario(UsersCommand(LINE, "n", ("1", "2")))
    assert sized(command, [0.5, 1.0]).quick.turns == command.quick.turns > 1
    assert sized(command, [60.0, 30.0]).full.turns == 1
    assert sized(command, [60.0]).patience > 600


def program(text: str, **more) -> Program:
    return Program(
        [sys.executable, "-c", textwrap.dedent(text)], environment=with_python_first(), **more
    )


def test_a_run_has_its_time_memory_and_output():
    text = """
        import time
        taken = bytearray(200 << 20)
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        time.sleep(0.3)
        print("done")
    """
    run = program(text).run({}, 60)
    assert run.seconds > 0.5 and 0.2 < run.cpu_seconds < run.seconds
    assert run.peak_mib > 200
    assert run.output.head == b"done\n" and run.output.checksum == zlib.crc32(b"done\n")
    assert run.left_behind == 0


def test_a_long_output_is_checked_whole_and_kept_in_part():
    run = program("import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))").run({}, 60)
    assert run.output.checksum == zlib.crc32(b"x" * (64 << 20))
    assert len(run.output.head) == KEPT


def test_set_up_runs_before_each_run_and_stdin_is_read_by_each(tmp_path):
    log, data = tmp_path / "log", tmp_path / "data"
    data.write_text("words")
    setup = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('x')"]
    reads = program("print(input())", setup=setup, stdin=str(data))
    assert [reads.run({}, 60).output.head for _ in range(2)] == [b"words\n"] * 2
    assert log.read_text() == "xx"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("raise SystemExit('enough')", "exit status 1"),
        ("import os; os.abort()", "killed by signal 6"),
        ("input()", "its input is empty: --stdin FILE gives it one"),
    ],
)
def test_a_run_that_fails_says_how(text, reason, capsys):
    with pytest.raises(TrialError) as error:
        program(text).run({}, 60)
    assert reason in str(error.value)
    if "enough" in text:
        assert "enough" in capsys.readouterr().err


def test_a_program_that_does_not_exist_is_named():
    with pytest.raises(TrialError, match="`no-such-program` cannot be run: No such file"):
        Program(["no-such-program"], environment=with_python_first()).run({}, 60)


LEAVES = """
    import subprocess, sys
    subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
"""


def test_processes_that_are_left_behind_are_ended(children):
    setup = [sys.executable, "-c", textwrap.dedent(LEAVES)]
    run = program(LEAVES, setup=setup).run({}, 60)
    assert run.left_behind == 2 and run.setup_seconds > 0
    assert children() == []


def test_a_run_can_be_stopped():
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(Stopped):
        program("import time; time.sleep(1000)").run({reader: lambda: True}, 60)
    os.close(reader)


def test_a_run_that_hangs_leaves_no_process(children):
    with pytest.raises(TrialError, match="it hangs, or did not end within 2 s"):
        program(LEAVES + "    import time; time.sleep(1000)").run({}, 2)
    assert children() == []


def test_another_python_is_refused(tmp_path):
    (tmp_path / "python3.99").write_text("#!/bin/sh")
    (tmp_path / "python3.99").chmod(0o755)
    with pytest.raises(TrialError, match="python3.99, the same in every configuration"):
        Program([str(tmp_path / "python3.99")], environment=with_python_first()).run({}, 60)


def test_a_virtual_environment_is_that_of_the_configuration():
    changed = with_python_first({"PATH": "/other/bin:/bin", "VIRTUAL_ENV": "/other"})
    assert changed["PATH"] == f"{os.path.dirname(sys.executable)}:/bin"
    assert changed["VIRTUAL_ENV"] == sys.prefix


def test_python_is_that_of_the_configuration():
    run = Program(
        ["python", "-c", "import sys; print(sys.executable)"], environment=with_python_first()
    ).run({}, 60)
    assert os.path.dirname(run.output.head.decode()) == os.path.dirname(sys.executable)


@pytest.mark.parametrize(
    "a, b, words",
    [
        ("1\n2\n", "1\n3\n", "prints line 2 as '2' in gil and '3' in ft"),
        ("1\n", "1\n2\n", "prints line 2 as nothing in gil and '2' in ft"),
        ("x", "x", "or after the first 64 KiB"),
        ("x" * 100, "y", f"'{'x' * 60}...' in gil"),
        ("x" * 99 + "1", "x" * 99 + "2", f"'...{'x' * 30}1' in gil and '...{'x' * 30}2' in ft"),
    ],
)
def test_where_outputs_differ(a, b, words):
    assert words in where_different(("gil", a), ("ft", b))


COUNTS = """
    import sys, threading

    def count(numbers):
        totals.append(sum(number % 7 for number in range(numbers)))

    totals, threads = [], int(sys.argv[1])
    workers = [threading.Thread(target=count, args=(60_000 // threads,)) for _ in range(threads)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print(len(totals) * threads - threads * threads)
"""


def test_input_that_no_run_gets_is_noticed(tmp_path):
    (tmp_path / "in.txt").write_text("1\n")
    with open(tmp_path / "in.txt") as file, open(os.devnull) as nothing:
        assert has_data(file.fileno()) and not has_data(nothing.fileno())
    reader, writer = os.pipe()
    try:
        assert has_data(reader)
    finally:
        os.close(reader), os.close(writer)
    assert not has_data(reader), "as where stdin is closed"


@pytest.mark.skipif(not KEPT_RUNS.exists(), reason="docs/results is not in the images")
def test_two_programs_are_never_taken_for_one():
    first, second = (
        next(KEPT_RUNS.rglob(f"*{name}*/**/results.json")) for name in ("json", "zlib")
    )
    merged = merge([first, second])
    assert merged.groups and merged.apart
    for apart in merged.apart:
        assert apart.differences[0].startswith("--command is python examples/commands/")


@pytest.fixture
def bench(command, environment, twin, tmp_path):
    """Return a function that runs a command of this source in every configuration of the twin."""
    configs = "ft-gil,ft" if twin == "ft" else "gil"

    def run(source: str, *arguments: object, words: str = ""):
        file = tmp_path / "prog.py"
        file.write_text(textwrap.dedent(source))
        line = f"python {shlex.quote(str(file))} {words}"
        usual = ["--rounds", 3, "--out", tmp_path / "out", "--configs", configs]
        return completed(command("--command", line, *usual, *arguments), env=environment)

    return run


@pytest.mark.slow
def test_a_real_run(bench, run_bench, twin, tmp_path):
    done = bench(COUNTS, "--parameter", "n=1,2", words="{n}")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out/latest"
    record = load(out)
    (measured,) = record.scenarios
    configs = ["ft-gil", "ft"] if twin == "ft" else ["gil"]
    assert {c.key for c in measured.candidates} == {
        f"{config}/bare-command/0@{n}" for config in configs for n in (1, 2)
    }
    for trial in (trial for finished in measured.rounds for trial in finished.trials):
        assert trial.samples == len(trial.turn_seconds) == len(trial.turn_loads) > 1
        seconds = fmean(trial.counted(trial.turn_seconds))
        assert trial.metrics["throughput"] == pytest.approx(1 / seconds)
        assert 0.01 < seconds < 30 and 0 < trial.metrics["cpu_per_1000"] < 1000 * 30
        assert 5 < trial.metrics["peak_mib"] < 1000
    words = " ".join(done.stdout.split())
    if twin == "ft":
        assert [fall.case for fall in record.waterfalls] == ["1", "2"]
        assert [step.name for step in record.waterfalls[0].throughput.steps] == ["the GIL removed"]
        assert "prog.py {n}, n=2: the free-threaded build without the GIL against" in words
        assert " s a run" in words and "Against n=1: ft-gil" in words
        same = run_bench("compare", out, out, status=0)
        assert "The runs themselves differ in nothing" in same.stdout
        merged = run_bench("merge", out, "--out", tmp_path / "merged", status=0)
        assert "a run, first" in (tmp_path / "merged/summary.md").read_text(), merged.stdout
    page = (out / "report.html").read_text()
    assert (
        "Each turn starts the command in a new process" in page
        and "CPU time per 1,000 runs" in page
    )
    assert "samples/s" not in page
    assert "--parameter n=1,2" in page  # the command that repeats it


@pytest.mark.slow
def test_outputs_that_differ_are_not_compared(bench, twin):
    source = "import sys; print('same', sys._is_gil_enabled(), sep='\\n')"
    done = bench(source)
    if twin == "gil":  # a single configuration
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert "prints line 2 as 'True' in ft-gil and 'False' in ft" in done.stderr
    done = bench(source, "--no-compare")
    assert done.returncode == 0, done.stderr
    assert "print is not compared (--no-compare)" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_configuration_in_which_it_fails_is_left_out(bench, twin):
    done = bench("import sys; sys._is_gil_enabled() or sys.exit('needs the GIL')")
    assert done.returncode == (1 if twin == "ft" else 0), done.stderr
    if twin == "ft":
        assert "it fails in ft: `python" in done.stderr and "needs the GIL" in done.stderr
        assert "INCOMPLETE: it fails in ft" in done.stdout
    done = bench("raise SystemExit('never works')")
    assert done.returncode == 1 and "never works" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_benchmark(command, environment, twin, tmp_path: Path, number):
    started = tmp_path / "started"
    (tmp_path / "prog.py").write_text(
        f"{textwrap.dedent(LEAVES)}open({str(started)!r}, 'w').close()\n"
        "import time; time.sleep(1000)\n"
    )
    line = f"python {shlex.quote(str(tmp_path / 'prog.py'))}"
    arguments = command("--command", line, "--out", tmp_path / "out", "--configs", twin)
    with programs_to_end() as start:
        process = start(arguments, env=environment)
        assert wait_until(started.exists)
        processes = descendants(process.pid)
        assert len(processes) >= 3
        process.send_signal(number)
        process.communicate(timeout=10)
    if number == signal.SIGINT:
        assert process.returncode == 130
    assert_gone(processes)
