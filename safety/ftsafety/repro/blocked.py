"""Detection of the runs that do not count, by comparison with other runs; the reasons, and remedies
for the user.

A run does not count if it was blocked (it ended before any threads could race) or was too slow for
its time limit.
"""

from __future__ import annotations

import glob
import itertools
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ftrun.configurations import CONFIGURATIONS
from ftrun.project import DISTRIBUTIONS
from ftsafety.repro.campaign import AllRuns, Runs, every_outcome, names_by_value
from ftsafety.repro.commands import SERIES, of_series, start
from ftsafety.repro.outcome import COMPUTING, Blocker, Kind, Outcome, Signature
from ftsafety.repro.script import Script, shell_path
from ftsafety.repro.unbuilt import build_command, built

# Syntax of 3.14: template strings (PEP 750), and several exceptions without parentheses (PEP 758).
NEWER = re.compile(r"""\bt[rR]?["']|\b[rR]t["']|\bexcept\b\*?[^:(]*,""")
REASONS = {
    "module": "the twins do not have the package of `import {about}`",
    "file": "there is no {kind} {about}",
    "program": "there is no program {about}",
    "variable": (
        "it wants the environment variable {about}; set it in the script, as yours are not passed "
        "on"
    ),
    "readonly": "it writes to {about}, and the copies of its files are read-only",
    "syntax": "the interpreter does not know this syntax: {about}",
    "relative": "it imports from its own package, so it must be run as a module of it",
    "listing": "it looks for other files that match {about}, and there are none",
    "stdin": "it asks for input, and there is none left on standard input",
    "arguments": "it wants arguments{detail}",
    "gil": "its own test ends it: {about}",
    "version": "its own test ends it: {about}",
    "tests": "pytest ran no test in it{detail}",
}
"""Sentences on why a script was blocked, by cause."""
# A time limit of FAR times what the slowest successful run needs is no limit
# for a run that is merely slower.
FAR = 10


def settled(runs: AllRuns) -> dict[str, Runs]:
    """Return a copy of *runs* in which the outcomes of blocked runs have the kind BLOCKED, those of
    slow runs LIMIT.

    The runs of a configuration are blocked if all of them ended for the same reason before threads
    could race. There are two exceptions. A missing file blocks only if all configurations lack the
    file: else a thread may have deleted it. And if any run went on after a failure, this failure
    blocks no run, since it was in a helper thread, or in one of several tests.

    A run is slow if it was still computing at its time limit. But if the limit is far longer than
    successful runs take, the run counts as a failure (a hang). If it is far longer than failures
    take, the script runs until it fails, and the run counts as one that did not (OUTLASTED): within
    the same time, each run has failed or not.
    """
    result = _without_slow(runs)
    survived = _survived(result)
    for config, blocker in _common_blockers(result).items():
        config_runs = result[config]
        if blocker is not None and not _has_any(config_runs, survived):
            outcomes = list(map(_blocked, config_runs.outcomes))
            result[config] = replace(config_runs, outcomes=outcomes)
    return result


def _common_blockers(runs: AllRuns) -> dict[str, Blocker | None]:
    """Return, by configuration with runs that count, the reason why all of these were blocked.

    A file that some configurations have is no reason.
    """
    blockers = {}
    for config, config_runs in runs.items():
        if config_runs.counted:
            blockers[config] = _common(config_runs)
    if len(set(blockers.values())) == 1:
        return blockers
    return {config: _unless_file(blocker) for config, blocker in blockers.items()}


def _unless_file(blocker: Blocker | None) -> Blocker | None:
    return None if blocker is None or blocker.cause == "file" else blocker


def _without_slow(runs: AllRuns) -> dict[str, Runs]:
    """Return a copy of *runs* in which the outcomes
    of slow runs have the kind LIMIT or OUTLASTED.
    """
    successes: list[Outcome] = []
    failures: list[Outcome] = []
    for config, config_runs in runs.items():
        if config in CONFIGURATIONS:
            successes += config_runs.of_kind(Kind.OK)
        failures += filter(_failed_in_time, config_runs.outcomes)
    far = FAR * _longest(successes)
    late = FAR * _longest(failures)
    result = {}
    for config, config_runs in runs.items():
        outcomes = [_unless_slow(outcome, far, late) for outcome in config_runs.outcomes]
        result[config] = replace(config_runs, outcomes=outcomes)
    return result


def _longest(outcomes: Iterable[Outcome]) -> float:
    """Return the seconds of the longest run; infinity if there is none."""
    return max((outcome.seconds for outcome in outcomes), default=math.inf)


def _failed_in_time(outcome: Outcome) -> bool:
    return outcome.kind.failed and not _computing(outcome)


def _has_any(runs: Runs, signatures: set[Signature]) -> bool:
    for outcome in runs.outcomes:
        if not signatures.isdisjoint(outcome.signatures):
            return True
    return False


def _blocked(outcome: Outcome) -> Outcome:
    if not outcome.kind.judged:
        return outcome
    return replace(outcome, kind=Kind.BLOCKED)


def _computing(outcome: Outcome) -> bool:
    """Return True if the run was computing until its time limit,
    and nothing else was seen of it.
    """
    names = {signature.what for signature in outcome.signatures}
    return outcome.kind is Kind.HANG and names == {COMPUTING}


def _unless_slow(outcome: Outcome, far: float, late: float) -> Outcome:
    """Return *outcome*. If its run was computing until its time limit, for less than *far* seconds,
    it is no failure.

    Its kind is then OUTLASTED after *late* seconds, in which others had failed, else LIMIT.
    """
    if not _computing(outcome) or outcome.seconds >= far:
        return outcome
    if outcome.seconds >= late:
        return replace(outcome, kind=Kind.OUTLASTED, detail="")
    return replace(outcome, kind=Kind.LIMIT, detail=f"{COMPUTING} (--timeout raises the limit)")


def _common(runs: Runs) -> Blocker | None:
    blockers = {outcome.blocker for outcome in runs.outcomes if outcome.kind.judged}
    return blockers.pop() if len(blockers) == 1 else None


def _survived(runs: AllRuns) -> set[Signature]:
    """Return the signatures of failures after which runs went on.

    These failures appear in several combinations, such as {A} and {A, B}: the run went on after A
    and failed with B.
    """
    combinations = set()
    for outcome in every_outcome(runs):
        if outcome.kind.judged:
            combinations.add(frozenset(outcome.signatures))
    counts = Counter(itertools.chain.from_iterable(combinations))
    return {signature for signature, number in counts.items() if number > 1}


def stopped(runs: AllRuns) -> dict[Blocker, list[str]]:
    """Return {reason why runs were blocked: names of the configurations of these runs}."""
    return _blockers(runs, lambda outcome: outcome.kind is Kind.BLOCKED)


def lacking(runs: AllRuns) -> dict[Blocker, list[str]]:
    """Return {missing package: configurations that lack it},
    for the packages whose absence blocked no run.
    """
    blockers = _blockers(runs, lambda outcome: outcome.kind.judged)
    return {blocker: configs for blocker, configs in blockers.items() if blocker.cause == "module"}


def _blockers(runs: AllRuns, chosen: Callable[[Outcome], bool]) -> dict[Blocker, list[str]]:
    pairs: dict[tuple[str, Blocker], None] = {}
    for config, config_runs in runs.items():
        for outcome in filter(chosen, config_runs.outcomes):
            if outcome.blocker:
                pairs[config, outcome.blocker] = None
    return names_by_value(pairs)


def reason(blocker: Blocker) -> str:
    """Return in words why the script was blocked."""
    about = blocker.about
    detail = f" ({about})" if about else ""
    return REASONS.get(blocker.cause, "{about}").format(
        about=about,
        kind="folder" if about.endswith("/") else "file",
        detail=detail,
    )


def remedy(
    blocker: Blocker,
    script: Script,
    command: str,
    running: list[str],
    walled: bool = False,
    series: str = SERIES[0],
    options: Sequence[str] = (),
) -> str:
    """Return a shell command that avoids *blocker*; "" if none is known.
    Strings from the script are quoted.

    Args:
        command: the command that runs the script.
        running: the configurations that are not blocked.
        walled: True if containers run the script.
        series: the series of CPython of the twins, such as "3.13".
        options: the options of *command*, except ``-m``.
    """
    cause, about = blocker[:2]
    if cause == "module":
        return _with_module(about, script, command, walled)
    if cause == "file":
        return _with_file(about, script, command)
    if cause == "listing":
        return _with_folder(about.partition("/")[0], script, command)
    if cause == "version" or (cause == "syntax" and NEWER.search(about)):
        return _with_series(cause, series, command)
    if cause == "relative":
        return _as_module(script, walled, options)
    if cause == "gil":
        return _with_configs(running, command)
    return _with_input(cause, script, command)


def _with_series(cause: str, series: str, command: str) -> str:
    """Return the shell command for twins of another series; "" if no series has newer syntax."""
    if series != SERIES[-1]:
        return of_series(SERIES[-1], command)
    return of_series(SERIES[0], command) if cause == "version" else ""


def _with_configs(running: Iterable[str], command: str) -> str:
    """Return the shell command for the configurations that run; "" if none does."""
    configs = ",".join(config for config in running if config in CONFIGURATIONS)
    return f"{command} --configs {configs}" if configs else ""


def _with_folder(folder: str, script: Script, command: str) -> str:
    """Return a shell command for a script that lists a folder, whose name may be a pattern."""
    if folder in ("", "~", "..") or glob.has_magic(folder):
        return f"{command} --with FILE   # replace FILE"
    return _with_file(folder, script, command)


def _with_module(name: str, script: Script, command: str, walled: bool) -> str:
    """Return a shell command for a script that lacks the module *name*;
    "" if *name* is no name of a module.
    """
    if not name.isidentifier():
        return ""
    if beside := _module_beside(name, script):
        return f"{command} --with {shell_path(beside)}"
    if walled:
        return ""
    folder = os.path.dirname(script.path)
    if script.path and (build := build_command(name, folder)):
        return (
            f"{build} && {command} --with {built(name, folder)}   # builds what lies beside "
            f"it for both twins"
        )
    package = shlex.quote(DISTRIBUTIONS.get(name, name))
    return f"{command} --package {package}   # if it is a package, not a file of yours"


def _with_input(cause: str, script: Script, command: str) -> str:
    """Return a shell command for a script that lacks standard input or arguments;
    "" if it has them.
    """
    if cause == "stdin" and not script.stdin:
        return f"{command} --stdin FILE   # replace FILE"
    if cause == "arguments" and not script.arguments:
        return f"{command} --arg A   # replace A; an option: --arg=--name"
    return ""


def _module_beside(name: str, script: Script) -> str | None:
    """Return the path of the module *name* beside the script,
    a file or a folder; None if it is not there.
    """
    if not script.path:
        return None
    folder = os.path.dirname(script.path)
    for file in (f"{name}.py", name):
        path = os.path.join(folder, file)
        if os.path.exists(path):
            return path
    return None


def _with_file(name: str, script: Script, command: str) -> str:
    path = PurePosixPath(name)
    if not path.name or ".." in path.parts or not name.isprintable():
        return ""
    if name.startswith(("/", "~")):
        return (
            f"{command} --with {shell_path(path.name)}   # once the script opens it without "
            f"a folder"
        )
    top = PurePosixPath(script.path).parent / path.parts[0]
    return f"{command} --with {shell_path(str(top))}"


def _as_module(script: Script, walled: bool, options: Sequence[str]) -> str:
    """Return a shell command that runs the script as a module of its package;
    "" if it can have no name there.
    """
    path = PurePosixPath(script.path)
    folder, module = script.path, script.module
    if path.suffix != ".zip":
        folder = str(path.parent.parent)
        module = f"{path.parent.name or 'PACKAGE'}.{path.stem}"
        names_are_valid = all(map(str.isidentifier, module.split(".")))
        if path.suffix != ".py" or not names_are_valid:
            return ""
    words = [start(walled), shell_path(folder), "-m", shlex.quote(module)]
    words += map(shlex.quote, options)
    return " ".join(words)
