"""The user's command (--command): any program, run in each configuration.

A run of the command is one sample, and one turn. ftbench.trial.command measures it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ftbench.plan.case import Amount, Case
from ftbench.plan.scenario import COMMAND, Scenario
from ftbench.plan.waterfall import CommandPlan

FIRST_PATIENCE = 900.0
"""Seconds after which the first runs of a command, one for each case, count as hung. Later turns
get PATIENCE and PATIENCE_TIMES the longest of them for each case.
"""
PATIENCE, PATIENCE_TIMES = 60.0, 10
LARGEST = 1e15
"""Values of a parameter up to this have a place on an axis."""
LONG_SECONDS = 10.0
"""If a turn, which runs all cases, takes longer, a trial has a single one."""


@dataclass(frozen=True)
class UsersCommand:
    """What --command and its options ask for."""

    line: str
    """Command line, which may hold `{parameter}`."""
    parameter: str = ""
    values: tuple[str, ...] = ("",)
    """Of the parameter; one empty value without a parameter."""
    setup: str = ""
    stdin: str | None = None
    """Path of a file; None for an empty input."""
    compares: bool = True
    """True if all configurations must print the same."""

    def words(self, value: str, line: str) -> list[str]:
        """Return the words of a command *line* for a value of the parameter."""
        words = shlex.split(line)
        if not self.parameter:
            return words
        return [word.replace(f"{{{self.parameter}}}", value) for word in words]

    def options(self) -> list[str]:
        """Return these options as they stand on a command line."""
        options = ["--command", self.line]
        if self.parameter:
            options += ["--parameter", f"{self.parameter}={','.join(self.values)}"]
        if self.setup:
            options += ["--setup", self.setup]
        if self.stdin is not None:
            options += ["--stdin", self.stdin]
        return options if self.compares else [*options, "--no-compare"]

    def cases(self) -> Iterator[Case]:
        """Yield a case for each value of the parameter; without one, a single case."""
        names = [""]
        for number, value in enumerate(self.values, 1):
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-._")
            if self.parameter and name in names:
                name = f"{name}-{number}".lstrip("-")
            names.append(name)
            yield Case(
                name=name,
                title=f"{self.parameter}={value}" if self.parameter else "",
                parameters={
                    "arguments": self.words(value, self.line),
                    "setup": self.words(value, self.setup),
                    "stdin": self.stdin,
                    "compares": self.compares,
                },
                value=_number(value),
            )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < LARGEST else None  # which nan is not


def scenario(command: UsersCommand) -> Scenario:
    """Return the scenario that runs the user's command."""
    cases = tuple(command.cases())
    return Scenario(
        name=COMMAND,
        question="What does removing the GIL do to this command?",
        description=command.line,
        sample_bytes=1,
        metrics=("throughput", "cpu_per_1000", "peak_mib"),
        plan=CommandPlan(cases),
        full=Amount(1, 1, turns=4, seconds=300),
        quick=Amount(1, 1, turns=4, seconds=90),
        workers=lambda cpus: [1],
        inside=True,
        case_axis=command.parameter,
        batched=False,
        one_rank="it runs a command, which starts its own processes",
        difference="printed different output. If that is expected, add --no-compare",
    )


def sized(command: Scenario, seconds: Sequence[float]) -> Scenario:
    """Return the scenario with the amount of work in a trial and the patience for a command whose
    first runs, with their set-up, took *seconds*, one for each case.
    """
    longest = max(seconds)
    turns = command.full.turns if sum(seconds) <= LONG_SECONDS else 1
    return replace(
        command,
        full=replace(command.full, turns=turns),
        quick=replace(command.quick, turns=turns),
        patience=PATIENCE + PATIENCE_TIMES * len(seconds) * longest,
    )
