"""Detection of the runs that do not count, by comparison with other runs; the reasons, and remedies
for the user.

A run does not count if it was blocked (it ended before any threads could race) or was too slow for
its time limit.
"""

from __future__ import annotations

import glob
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ftrun.configurations import CONFIGURATIONS
from ftrun.project import DISTRIBUTIONS
from ftsafety.repro.campaign import Runs, every_outcome
from ftsafety.repro.commands import SERIES, of_series, start
from ftsafety.repro.outcome import COMPUTING, Blocker, Kind, Outcome, Signature
from ftsafety.repro.script import Script, shell_path
from ftsafety.repro.unbuilt import build_command, built

# Syntax of 3.14: template strings (PEP 750), and several exceptions without parentheses (PEP 758).
NEWER = re.compile(r"""\bt[rR]?["']|\b[rR]t["']|\bexcept\b\*?[^:(]*,""")
# A time limit of FAR times what the slowest successful run needs is no limit
# for a run that is merely slower.
FAR = 10


def settled(runs: Mapping[str, Runs]) -> dict[str, Runs]:
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
    runs = _without_slow(runs)
    blockers = {}
    for config, config_runs in runs.items():
        if config_runs.counted:
            blockers[config] = _common(config_runs)
    alike = len(set(blockers.values())) == 1
    survived = _survived(runs)
    result = {}
    for config, config_runs in runs.items():
        blocker = blockers.get(config)
        if (
            blocker is not None
            and (blocker.cause != "file" or alike)
            and not _has_any(config_runs, survived)
        ):
            config_runs = replace(
                config_runs, outcomes=[_blocked(outcome) for outcome in config_runs.outcomes]
            )
        result[config] = config_runs
    return result


def _without_slow(runs: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return a copy of *runs* in which the outcomes
    of slow runs have the kind LIMIT or OUTLASTED.
    """
    successes, failures = [], []
    for config, config_runs in runs.items():
        for outcome in config_runs.outcomes:
            if outcome.kind is Kind.OK and config in CONFIGURATIONS:
                successes.append(outcome.seconds)
            elif outcome.kind.failed and not _computing(outcome):
                failures.append(outcome.seconds)
    far = FAR * max(successes, default=math.inf)
    late = FAR * max(failures, default=math.inf)
    result = {}
    for config, config_runs in runs.items():
        outcomes = [_unless_slow(outcome, far, late) for outcome in config_runs.outcomes]
        result[config] = replace(config_runs, outcomes=outcomes)
    return result


def _has_any(runs: Runs, signatures: set[Signature]) -> bool:
    return any(not signatures.isdisjoint(outcome.signatures) for outcome in runs.outcomes)


def _blocked(outcome: Outcome) -> Outcome:
    return replace(outcome, kind=Kind.BLOCKED) if outcome.kind.judged else outcome


def _computing(outcome: Outcome) -> bool:
    """Return True if the run was computing until its time limit,
    and nothing else was seen of it.
    """
    return outcome.kind is Kind.HANG and {signature.what for signature in outcome.signatures} == {
        COMPUTING
    }


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


def _survived(runs: Mapping[str, Runs]) -> set[Signature]:
    """Return the signatures of failures after which runs went on.

    These failures appear in several combinations, such as {A} and {A, B}: the run went on after A
    and failed with B.
    """
    judged = [outcome for outcome in every_outcome(runs) if outcome.kind.judged]
    combinations = {frozenset(outcome.signatures) for outcome in judged}
    counts: Counter[Signature] = Counter()
    for combination in combinations:
        counts.update(combination)
    return {signature for signature, number in counts.items() if number > 1}


def stopped(runs: Mapping[str, Runs]) -> dict[Blocker, list[str]]:
    """Return {reason why runs were blocked: names of the configurations of these runs}."""
    return _blockers(runs, lambda outcome: outcome.kind is Kind.BLOCKED)


def lacking(runs: Mapping[str, Runs]) -> dict[Blocker, list[str]]:
    """Return {missing package: configurations that lack it},
    for the packages whose absence blocked no run.
    """
    blockers = _blockers(runs, lambda outcome: outcome.kind.judged)
    return {blocker: configs for blocker, configs in blockers.items() if blocker.cause == "module"}


def _blockers(
    runs: Mapping[str, Runs], chosen: Callable[[Outcome], bool]
) -> dict[Blocker, list[str]]:
    configs_of_blockers: dict[Blocker, list[str]] = {}
    for config, config_runs in runs.items():
        for blocker in dict.fromkeys(
            o.blocker for o in config_runs.outcomes if o.blocker and chosen(o)
        ):
            configs_of_blockers.setdefault(blocker, []).append(config)
    return configs_of_blockers


def reason(blocker: Blocker) -> str:
    """Return in words why the script was blocked."""
    about = blocker.about
    return {
        "module": f"the twins do not have the package of `import {about}`",
        "file": f"there is no {'folder' if about.endswith('/') else 'file'} {about}",
        "program": f"there is no program {about}",
        "variable": (
            f"it wants the environment variable {about}; set it in the script, as yours "
            f"are not passed on"
        ),
        "readonly": f"it writes to {about}, and the copies of its files are read-only",
        "syntax": f"the interpreter does not know this syntax: {about}",
        "relative": "it imports from its own package, so it must be run as a module of it",
        "listing": f"it looks for other files that match {about}, and there are none",
        "stdin": "it asks for input, and there is none left on standard input",
        "arguments": f"it wants arguments{f' ({about})' if about else ''}",
        "gil": f"its own test ends it: {about}",
        "version": f"its own test ends it: {about}",
        "tests": f"pytest ran no test in it{f' ({about})' if about else ''}",
    }.get(blocker.cause, about)


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
        folder = about.partition("/")[0]
        near = folder not in ("", "~", "..") and not glob.has_magic(folder)
        return (
            _with_file(folder, script, command)
            if near
            else f"{command} --with FILE   # replace FILE"
        )
    if cause == "version" or (cause == "syntax" and series == SERIES[0] and NEWER.search(about)):
        return of_series(SERIES[0] if series == SERIES[-1] else SERIES[-1], command)
    if cause == "relative":
        return _as_module(script, walled, options)
    if cause == "gil":
        configs = [config for config in running if config in CONFIGURATIONS]
        return f"{command} --configs {','.join(configs)}" if configs else ""
    return _with_input(cause, script, command)


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
    folder = os.path.dirname(script.path)
    paths = (os.path.join(folder, file) for file in (f"{name}.py", name))
    return next((path for path in paths if os.path.exists(path)), None) if script.path else None


def _with_file(name: str, script: Script, command: str) -> str:
    path = PurePosixPath(name)
    if not path.name or ".." in path.parts or not name.isprintable():
        return ""
    if name.startswith(("/", "~")):
        return (
            f"{command} --with {shell_path(path.name)}   # once the script opens it without "
            f"a folder"
        )
    folder = str(PurePosixPath(script.path).parent) if script.path else "."
    top = path.parts[0]
    return f"{command} --with {shell_path(top if folder == '.' else f'{folder}/{top}')}"


def _as_module(script: Script, walled: bool, options: Sequence[str]) -> str:
    path = PurePosixPath(script.path)
    folder, module = script.path, shlex.quote(script.module)
    if path.suffix != ".zip":
        package = path.parent.name or "PACKAGE"
        if path.suffix != ".py" or not (package.isidentifier() and path.stem.isidentifier()):
            return ""
        folder, module = str(path.parent.parent), f"{package}.{path.stem}"
    return " ".join([start(walled), shell_path(folder), "-m", module, *map(shlex.quote, options)])
