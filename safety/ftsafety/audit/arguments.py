"""The command line of an audit.

`./twins audit` checks its arguments with this module before it builds the twins. So the module runs
on Python 3.9 and needs no installed package.
"""

from __future__ import annotations

import argparse
import os

from ftrun import host
from ftrun.options import add_all, number, whole

PROGRAM = host.command("python -m ftsafety.audit")
NAME = host.command("./twins audit")
"""The command that messages begin with."""

DESCRIPTION = """\
Try to show that a dataset is not safe under threads. Loads samples of it serially, watches what its
own lines write, then loads them in many threads at once, in ways that provoke races, and compares.
Every finding was confirmed by a second look; it names the line and a remedy."""

EPILOG = """\
FILE.py:NAME
  a path to a .py file, or a module that can be imported from here, and in it a dataset, a DataLoader,
  or a function or class that gives one when called without arguments:

    PROGRAM EXAMPLE
    PROGRAM my_package.data:train_set
    PROGRAM train.py:make_dataset --threads 16 --seconds 60
    PROGRAM data.py:Crops --indices 0,17,99 --json > audit.json

In a program:  from ftsafety.audit import audit; print(audit(dataset))
This runs in your own process, so a crash of the dataset ends your program.

The command runs the audit in a process of its own, so a crash or a hang ends in a report with the stacks. A race
that shows once in a million calls may need --seconds 600, and some races show only with the GIL off.

exit status:
  0  nothing was found that is unsafe (notes at most)
  1  findings: wrong results, exceptions, hangs, crashes, or writes without a lock; or a failure that was seen
     once, but not in the second look
  2  wrong usage, or FILE.py:NAME cannot be loaded
  3  the dataset cannot be audited (it fails with one thread too), or the time limit was reached
  130  interrupted by Ctrl-C
"""


# The one of this project: in the images, or beside ./twins.
_EXAMPLE = os.path.join(os.environ.get("FT_ENV_PROJECT", ""), "examples/audit_dataset.py:broken")
_SECONDS = number("a number of seconds, more than 0", 1e-9, 1e7)


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of the audit's command line. *program*:
    the command's name in help and messages.
    """
    result = argparse.ArgumentParser(
        prog=program,
        description=DESCRIPTION,
        epilog=EPILOG.replace("PROGRAM", program).replace("EXAMPLE", _EXAMPLE),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "target", metavar="FILE.py:NAME", type=_target, help="the dataset (see below)"
    )
    add_all(
        result,
        (
            (
                "--samples",
                whole(1, 1_000_000),
                32,
                "N",
                "samples to load, including the first and the last",
            ),
            ("--threads", whole(2, 256), 8, "N", "threads at once"),
            (
                "--seconds",
                _SECONDS,
                10.0,
                "S",
                "time to load in all threads at once, and again for the second look",
            ),
            (
                "--patience",
                _SECONDS,
                20.0,
                "S",
                "threads count as stuck after this time without a finished sample",
            ),
            (
                "--time-limit",
                _SECONDS,
                600.0,
                "S",
                "limit for the whole audit, which then shows the stacks and ends",
            ),
            ("--seed", int, 0, "N", "chooses the samples and their order"),
        ),
    )
    result.add_argument(
        "--indices", type=_indices, metavar="I,J,...", help="load exactly these samples instead"
    )
    result.add_argument(
        "--copies",
        action="store_true",
        help="each thread has a copy of the dataset, as with DataLoader(copy_dataset=True)",
    )
    result.add_argument("--json", action="store_true", help="print the report as JSON")
    return result


def check(arguments: list[str] | None, program: str = PROGRAM) -> argparse.Namespace:
    """Parse the command line *arguments*; return the options.
    Raises SystemExit for --help and for wrong usage.
    """
    return parser(program).parse_args(arguments)


def _target(text: str) -> str:
    module, _, name = text.rpartition(":")
    if not module or not name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not FILE.py:NAME, such as my_package.data:train_set"
        )
    if module.endswith(".py") and not os.path.isfile(module):
        raise argparse.ArgumentTypeError(f"there is no file {module}")
    return text


def _indices(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a part is no whole number") from None
