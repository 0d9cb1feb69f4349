"""The command line of ``python -m ftloader``."""

import argparse
import os
from dataclasses import dataclass

from ftloader.drop_in.installed import DropInSettings

PROGRAM = "python -m ftloader"
USAGE = """\
python -m ftloader [OPTION ...] SCRIPT [ARG ...]
       python -m ftloader [OPTION ...] -m MODULE [ARG ...]"""
DESCRIPTION = """\
Runs an unchanged program with ftloader.DataLoader wherever it makes a torch.utils.data.DataLoader: worker threads where
the GIL is off, processes elsewhere. When the program ends, a table on stderr names each loader by the line that made
it, with what the training loop waited for, what limits it, and the setting that would help. The program's arguments,
output and exit status are its own."""
EPILOG = """\
Options come before the program; what follows it belongs to the program:

  python -m ftloader train.py --epochs 3
  python -m ftloader --workers auto --report loaders.json train.py --epochs 3
  python -m ftloader --worker-method thread --copy-dataset -m my_package.train --epochs 3
  torchrun --nproc-per-node 4 -m ftloader train.py          the table is rank 0's
  accelerate launch -m ftloader train.py

torch is imported before the program starts: set variables such as OMP_NUM_THREADS in the shell. Threads share the
dataset, whose __getitem__ must then be thread-safe; docs/loader.md lists what differs from processes.

exit status: the program's; 2 if SCRIPT cannot be opened, or an option is wrong; 1 if there is no MODULE.
"""


@dataclass(frozen=True)
class ProgramCommand:
    """A parsed command line. *program*: a path, or the name of a module."""

    program: str
    is_module: bool
    arguments: list[str]
    settings: DropInSettings
    report: str | None


def parse(words: list[str]) -> ProgramCommand:
    """Parse the command line *words*. End the process with one line and status 2 if it is wrong."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--workers",
        type=_workers,
        metavar="N|auto",
        help="num_workers of all loaders of map-style datasets (default: what the program says)",
    )
    add(
        "--worker-method",
        choices=("auto", "thread", "process"),
        help="worker_method of all loaders (default: auto)",
    )
    add(
        "--copy-dataset",
        action="store_true",
        default=None,
        help="give each worker thread a copy of its own of a map-style dataset",
    )
    add(
        "--report",
        type=_writable,
        metavar="FILE.json",
        help="also write the table, with all that statistics() tells, as JSON",
    )
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
    add("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the program, and its arguments")
    options = parser.parse_args(words)
    command = [*(options.module or ()), *options.script]
    if not command:
        parser.error("a SCRIPT or -m MODULE to run is missing")
    settings = DropInSettings(options.workers, options.worker_method, options.copy_dataset)
    return ProgramCommand(
        command[0], options.module is not None, command[1:], settings, options.report
    )


def _workers(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'{text!r} is neither a number nor "auto"')
    return int(text)


def _writable(path: str) -> str:
    """Return the absolute *path* of a file to write, since the program may change its directory."""
    path = os.path.abspath(path)
    folder = os.path.dirname(path)
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"{path!r} cannot be a file: is its folder there?")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path!r} cannot be written")
    return path
