"""The options of --command, checked: what can be told before anything runs.

This module needs only the standard library and Python 3.9 (see ftbench.arguments).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex

from ftbench.options import UsageError
from ftbench.scenarios.command import UsersCommand

SHELL_WORDS = {"|", "||", "&&", ";", "<", ">", ">>", "2>", "&"}
"""Words that only a shell understands."""


def users_command(given: argparse.Namespace) -> UsersCommand | None:
    """Return what --command and its options ask for; None without them. Raises UsageError."""
    if given.command is None:
        for option in ("parameter", "setup", "stdin", "no_compare"):
            if getattr(given, option):
                raise UsageError(f"--{option.replace('_', '-')} belongs to --command")
        return None
    if given.scenarios or given.dataset is not None or given.collate_fn is not None:
        raise UsageError("--command is measured alone: name no scenario and no dataset with it")
    if given.workers:
        raise UsageError(
            "--workers is for loaders. A command takes its number of threads from --parameter: "
            "--command 'python prog.py {n}' --parameter n=1,2,4"
        )
    if len(given.parameter or ()) > 1:
        raise UsageError("--parameter is given twice: one can be varied at a time")
    ((name, values),) = given.parameter or (("", ("",)),)
    _check_words(_words("command", given.command), name)
    _words("setup", given.setup or "")
    stdin = given.stdin
    if stdin and stdin.startswith(("/dev/", "/proc/")):
        stdin = os.path.realpath(stdin)  # /dev/stdin is another file for each program
    if stdin is not None and not os.path.isfile(stdin):
        raise UsageError(f"--stdin {given.stdin}: there is no such regular file")
    return UsersCommand(
        line=given.command,
        parameter=name,
        values=values,
        setup=given.setup or "",
        stdin=stdin,
        compares=not given.no_compare,
    )


def _words(option: str, line: str) -> list[str]:
    """Return the words of a command line; raises UsageError if it is none, or one for a shell."""
    if not line.isprintable():
        raise UsageError(f"--{option} has line breaks or other control characters: use a file")
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quote without an end
        raise UsageError(f"--{option}: {error}") from error
    unquoted = shlex.shlex(line, posix=False)
    unquoted.whitespace_split, unquoted.commenters = True, ""
    if word := next((word for word in unquoted if word in SHELL_WORDS), None):
        raise UsageError(
            f"--{option}: no shell reads it, so {word} would be an argument; use "
            f"--{option} \"sh -c '...'\""
        )
    if words and re.match(r"\w+=", words[0]):
        raise UsageError(f"--{option}: no shell reads it; use env {words[0]} ...")
    return words


def _check_words(words: list[str], parameter: str) -> None:
    """Raise UsageError if these words of --command cannot be run as they are meant."""
    if not words:
        raise UsageError("--command is empty: name a program, such as --command 'python prog.py'")
    if parameter and not any(f"{{{parameter}}}" in word for word in words):
        raise UsageError(f"--command has no {{{parameter}}}, which --parameter gives values for")
    if any(re.fullmatch(r"(-X)?gil=.", word) for word in words):
        raise UsageError("--command: -X gil is what the configurations differ in; leave it out")
    script = next((word for word in words[1:] if word.endswith(".py")), "")
    if words[0].startswith("python") and words[1:2] == [script] and not os.path.isfile(script):
        raise UsageError(f"--command: there is no file {script}")
