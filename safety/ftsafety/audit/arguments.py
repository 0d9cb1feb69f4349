"""The command line of an audit.

Imports nothing but the standard library and runs on Python 3.9: `./twins audit` asks it before it builds
anything.
"""

from __future__ import annotations

import argparse
import os

DESCRIPTION = """\
Is my dataset safe under threads? Loads samples of it serially, watches what its own lines write,
then loads them in many threads at once, in ways that provoke races, and compares. Every finding
was confirmed by a second look; it names the line and a remedy."""

EPILOG = """\
MODULE:OBJECT
  a module that can be imported from here, or a path to a .py file, and in it a dataset, a DataLoader,
  or a function or class that gives one when called without arguments:

    python -m ftsafety.audit my_package.data:train_set
    python -m ftsafety.audit train.py:make_dataset --threads 16 --seconds 60
    python -m ftsafety.audit data.py:Crops --indices 0,17,99 --json > audit.json

In a program:  from ftsafety.audit import audit; print(audit(dataset))
This runs in your own process, so a crash of the dataset ends your program.

The command runs the audit in a process of its own, so a crash or a hang ends in a report with the stacks. A race
that shows once in a million calls may need --seconds 600, and some races show only with the GIL off.

exit status:
  0  nothing was found that is unsafe (notes at most)
  1  findings: wrong results, exceptions, hangs, crashes, or writes without a lock
  2  wrong usage, or MODULE:OBJECT cannot be loaded
  3  the dataset cannot be audited (it fails with one thread too), or the time limit was reached
  130  interrupted by Ctrl-C
"""


def parser(program: str = "python -m ftsafety.audit") -> argparse.ArgumentParser:
    """The command line of an audit."""
    result = argparse.ArgumentParser(
        prog=program, description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = result.add_argument
    add("target", metavar="MODULE:OBJECT", type=_target, help="the dataset (see below)")
    add(
        "--samples",
        type=_positive,
        default=32,
        metavar="N",
        help="samples to load, including the first and the last (default: %(default)s)",
    )
    add("--indices", type=_indices, metavar="I,J,...", help="load exactly these instead")
    add("--threads", type=_threads, default=8, metavar="N", help="threads at once (default: %(default)s)")
    add(
        "--seconds",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="time to load in all threads at once; the second look takes at most as long (default: %(default)g)",
    )
    add(
        "--patience",
        type=_seconds,
        default=20.0,
        metavar="S",
        help="threads count as stuck after this time without a finished sample (default: %(default)g)",
    )
    add(
        "--time-limit",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="limit for the whole audit; after it the stacks are shown and the audit is ended (default: %(default)g)",
    )
    add("--seed", type=int, default=0, metavar="N", help="chooses the samples and their order (default: %(default)s)")
    add("--json", action="store_true", help="print the report as JSON")
    return result


def parse(arguments: list[str] | None, program: str = "python -m ftsafety.audit") -> argparse.Namespace:
    """Parse a command line; raises SystemExit for --help and wrong usage, as argparse does."""
    return parser(program).parse_args(arguments)


def check(arguments: list[str], program: str) -> None:
    """Print the help or refuse wrong usage; raises SystemExit then."""
    parse(arguments, program)


def _target(text: str) -> str:
    module, _, name = text.rpartition(":")
    if not module or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE:OBJECT, such as my_package.data:train_set")
    if module.endswith(".py") and not os.path.isfile(module):
        raise argparse.ArgumentTypeError(f"there is no file {module}")
    return text


def _positive(text: str) -> int:
    number = _integer(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _threads(text: str) -> int:
    number = _integer(text)
    if not 2 <= number <= 256:
        raise argparse.ArgumentTypeError("must be 2 to 256")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _indices(text: str) -> list[int]:
    return [_integer(part) for part in text.split(",") if part.strip()]


def arguments_of(options: argparse.Namespace) -> list[str]:
    """Return the command line that gives *options* again."""
    result = [options.target]
    for name, value in vars(options).items():
        if name in ("target", "json") or value is None:
            continue
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        result.append(f"--{name.replace('_', '-')}={text}")
    return result
