"""Remarks on runs that did not fail."""

import pytest

from ftsafety.repro.campaign import Runs
from ftsafety.repro.look import observations
from ftsafety.repro.outcome import Kind, Outcome, Signature
from ftsafety.repro.report import measured
from ftsafety.repro.request import MIB


def runs(**outputs):
    return {
        name.replace("_", "-"): Runs(
            name.replace("_", "-"), [Outcome(Kind.OK, "", 1.0, text) for text in texts]
        )
        for name, texts in outputs.items()
    }


def test_output_that_differs_without_the_gil():
    right = ["expected 800000, got 800000\n"] * 4
    wrong = [f"expected 800000, got {n}\n" for n in (358351, 400000, 400001, 400002)]
    (said,) = observations(runs(gil=right, ft_gil=right, ft=wrong))
    assert "`expected 800000, got 358351` in a run of ft" in said
    assert (
        "`expected 800000, got 800000` in every run of gil, ft-gil; 4 of 4 runs of ft printed "
        "something else" in said
    )


def test_output_that_differs_from_run_to_run_and_output_that_does_not():
    times = ["1 found\n", "2 found\n", "3 found\n"]
    assert observations(runs(gil=times, ft=times)) == [
        "Standard output differs from run to run in gil, ft."
    ]
    assert not observations(
        runs(gil=["passed in 1.25s\n", "passed in 1.5s\n"], ft=["passed in 2.0s\n"])
    )
    # addresses, and the order of lines
    same = ["<object at 0x7f1234>\na\nb\n", "a\nb\n<object at 0x7f5678>\n"]
    assert not observations(runs(gil=same, ft_gil=same, ft=same))
    assert not observations(runs(ft=["x\n"]))


TRACEBACK = (
    'Traceback (most recent call last):\n  File "bug.py", line 9, in check\n'
    "    assert c == 8\nAssertionError: "
)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            TRACEBACK + "3\n",
            "Standard error differs: `AssertionError: 3` in a run of ft, fewer lines in every run",
        ),
        ("2026-11-28 05:17:11,123 lost 3\n", "`... lost 3` in a run of ft"),
        (" 25%|##    | 1/4 [00:00<00:00, 17.01it/s]\n", None),
        # noticed already
        ("Exception ignored in: <function R.__del__ at 0x7f12>\n" + TRACEBACK + "3\n", None),
    ],
)
def test_standard_error_that_differs(stderr, words):
    found = runs(gil=["x"] * 3, ft=["x"] * 3)
    for each in found["ft"].outcomes:
        each.stderr = stderr
    said = observations(found)
    assert len(said) == bool(words) and all(words in text for text in said), said


BUILT = (
    "3.13.5 (main, Nov 27 2026, 10:11:12) [GCC]",
    "3.13.5 experimental free-threading build (main, Nov 28 2026, 01:02:03) [GCC]",
)


def test_output_that_only_tells_the_interpreter():
    on, off = f"{BUILT[0]}\nGIL enabled: True, got ", f"{BUILT[1]}\nGIL enabled: False, got "
    assert not observations(runs(gil=[on + "8"] * 3, ft_gil=[on + "8"] * 3, ft=[off + "8"] * 3))
    (said,) = observations(runs(gil=[on + "8"] * 3, ft_gil=[on + "8"] * 3, ft=[off + "3"] * 3))
    assert "got 3` in a run of ft" in said


def test_the_medians_of_time_and_memory():
    found = runs(gil=["x"] * 3, ft_gil=["x"] * 3, ft=["x"] * 3)
    for each, seconds in zip(found["ft"].outcomes, (0.1, 2.9, 9.0), strict=True):
        each.seconds, each.memory = seconds, 45 * MIB
    table = measured(found)
    assert (
        "| `ft` | 2.90 s | 45 MiB |" in table and "in gil, ft-gil, ft:\n\n```text\nx\n```" in table
    )


@pytest.mark.parametrize(
    ("source", "noticed"),
    [
        ("class R:\n    def __del__(self): {}['k']\nR()", "Exception ignored in: KeyError: 'k'"),
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as pool:\n"
            "    pool.submit(int, 'x')\n",
            "an exception of a future that nothing asked for: ValueError: invalid literal for "
            "int() with base 10: 'x'",
        ),
        (
            "import asyncio\nasync def fail(): raise KeyError(3)\n"
            "async def main():\n    asyncio.ensure_future(fail())\n"
            "    await asyncio.sleep(0.01)\nasyncio.run(main())",
            "Task exception was never retrieved: KeyError: 3",
        ),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c',"
            ' \'import threading; t = threading.Thread(target=int, args="x"); t.start(); '
            "t.join()'])",
            "Exception in thread: ValueError: invalid literal for int() with base 10: 'x'",
        ),
    ],
)
@pytest.mark.slow
def test_exceptions_that_nothing_caught(run_script, source, noticed):
    done = run_script(source)
    assert done.kind == Kind.OK and [each.partition(" at ")[0] for each in done.noticed] == [
        noticed
    ], done
    (said,) = observations({"ft": Runs("ft", [done])})
    assert "(1 of 1 runs of ft)" in said


def test_exceptions_of_one_place_are_one_remark():
    each, place = "an exception of a future that nothing asked for: ", "bug.py:9 in get"
    found = runs(ft=["x"] * 2)
    found["ft"].outcomes[0].noticed = (
        f"{each}KeyError: 1 at {place}",
        f"{each}KeyError: 2 at {place}",
    )
    found["ft"].outcomes[1].noticed = (
        f"{each}KeyError at {place}",
        f"{each}OSError: [Errno 2] a: b at {place}",
    )
    assert observations(found) == [
        f"{each}KeyError: 1 at {place} (2 of 2 runs of ft)",
        f"{each}OSError: [Errno 2] a: b at {place} (1 of 2 runs of ft)",
    ]
    found["ft"].outcomes.append(
        Outcome(
            Kind.EXCEPTION, "KeyError: 3", signatures=(Signature("exception", "KeyError", place),)
        )
    )
    assert [text.partition(place)[2] for text in observations(found)] == [" (1 of 3 runs of ft)"]


@pytest.mark.parametrize(
    "asks",
    [
        "f.exception()",
        "f.add_done_callback(lambda f: f.exception())",
        "[f for f in as_completed([f]) if f.exception()]",
        "try: f.result()\n    except ValueError: pass",
        (
            "pass\ntry: list(ThreadPoolExecutor(2).map(int, 'x'))\nexcept ValueError: pass\n"
            "f.exception()"
        ),
    ],
)
@pytest.mark.slow
def test_exceptions_of_futures_that_were_asked_for(run_script, asks):
    done = run_script(
        "from concurrent.futures import ThreadPoolExecutor, as_completed\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        f"    f = pool.submit(int, 'x')\n    {asks}\n"
    )
    assert (done.kind, done.noticed) == (Kind.OK, ()), done


@pytest.mark.slow
def test_a_traceback_of_a_future_is_of_the_script_and_the_library_alone(run_script):
    done = run_script(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool:\n    pool.submit(int, 'x').result()\n"
    )
    assert done.kind == Kind.EXCEPTION and "runner" not in done.stderr


@pytest.mark.slow
def test_the_peak_of_memory_is_seen_though_it_was_short(run_script):
    done = run_script("x = b'1' * (200 << 20); del x")
    assert 200 * MIB < done.memory < 400 * MIB
