"""The report in Markdown: everything that an issue about thread safety needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from ftrun.configurations import CONFIGURATIONS
from ftrun.escape import fenced, markdown, terminal
from ftrun.project import normalise
from ftsafety.repro.arguments import options_of
from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.phrases import rate, remarks, sentence
from ftsafety.repro.script import Script
from ftsafety.repro.verdict import Verdict

# GitHub takes 65,536 characters an issue.
LONGEST_EXCERPT = 6_000
LONGEST_SCRIPT = 24_000
_CONTAINER = "docker compose run --rm -T ft-repro -"


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """Return the start and the end of a long text."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def one_line(text: str) -> str:
    """Return the start of any text as Markdown that can stand in a sentence."""
    return markdown(text[:300])


def table(runs: Mapping[str, Runs]) -> str:
    """Return the table of runs and outcomes by configuration, with failure rates."""
    seen = {outcome.kind for each in runs.values() for outcome in each.outcomes}
    present = [kind for kind in Kind if kind == Kind.OK or kind in seen]
    rows = [["configuration", "runs", *present, "failure rate (95% interval)"]]
    for config, each in runs.items():
        counts = Counter(outcome.kind for outcome in each.outcomes)
        numbers = [str(number) for number in (len(each.outcomes), *(counts[kind] for kind in present))]
        rows.append([f"`{config}`", *numbers, rate(each.failures, each.counted)])
    rows.insert(1, ["---", *["---:"] * (len(rows[0]) - 1)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def details(runs: Mapping[str, Runs]) -> str:
    """Return each failure and note once, with its number, by configuration."""
    lines = []
    for config, each in runs.items():
        counts = Counter((o.kind, o.detail) for o in each.outcomes if o.kind.failed)
        lines += [
            f"- `{config}`: {number} x {kind}: {one_line(detail)}" for (kind, detail), number in counts.most_common(5)
        ]
        notes = Counter(note for o in each.outcomes for note in o.notes)
        lines += [f"- `{config}`: {number} x {one_line(note)}" for note, number in notes.most_common(3)]
    return "\n".join(lines)


def first_failure(config: str, number: int, outcome: Outcome) -> str:
    """Return the section of the first failure, with its traceback, stacks or output."""
    parts = [f"## First failure: `{config}`, run {number}: {outcome.kind}", one_line(outcome.detail)]
    if outcome.stacks.strip():
        when = "at the signal" if outcome.kind == Kind.SIGNAL else "at the time limit"
        parts += [f"Python stacks {when} (faulthandler):", fenced(excerpt(outcome.stacks), "text")]
    if outcome.stderr.strip():
        parts += ["Standard error:", fenced(excerpt(outcome.stderr), "text")]
    if outcome.stdout.strip():
        parts += ["Standard output:", fenced(excerpt(outcome.stdout, 2000), "text")]
    return "\n\n".join(parts)


def chosen_failure(runs: Mapping[str, Runs]) -> tuple[str, int, Outcome] | None:
    """Return the first failure, without the GIL if there is one, as (configuration, number from 1, outcome)."""
    numbered = ((config, enumerate(runs[config].outcomes, 1)) for config in reversed(CONFIGURATIONS) if config in runs)
    return next(((config, n, outcome) for config, each in numbered for n, outcome in each if outcome.kind.failed), None)


def environment(descriptions: Mapping[str, dict], runs: Mapping[str, Runs], walls: bool) -> str:
    """Return the list of interpreters, packages, and the machine."""
    lines = []
    for twin, found in descriptions.items():
        python = found["interpreter"]
        said = f"CPython {python['version']}, {python['build']}, {python['compiler']}"
        lines.append(f"- {twin}: {one_line(said)}")
    found = next(iter(descriptions.values()))
    owners = importlib.metadata.packages_distributions()  # both twins have the same ones as this process
    modules = {module for each in runs.values() for outcome in each.outcomes for module in outcome.modules}
    names = sorted({normalise(name) for module in modules for name in owners.get(module, ())})
    if versions := ", ".join(f"{name} {found['packages'][name]}" for name in names if name in found["packages"]):
        lines.append(f"- packages that it imports: {markdown(versions)}")
    cpu, os_ = found["cpu"], found["os"]
    system = f"{os_['name']}, Linux {os_['kernel']}, {os_['container'] or 'no container'}"
    around = "none (native run: the script could do what the user could)"
    if walls:
        around = "containers without network, read-only, without privileges"
    lines += [
        f"- processor: {one_line(cpu['model'])}, {cpu['usable']} usable of {cpu['count']}",
        f"- memory: {found['memory']['total'] / 2**30:.1f} GiB",
        f"- system: {one_line(system)}",
        f"- walls: {around}",
    ]
    return "\n".join(lines)


def all_runs(given: argparse.Namespace, script: Script) -> str:
    """Return the command that repeats all runs."""
    if given.walled:
        return f"{_CONTAINER} {shlex.join(options_of(given))} <{script.argument}"
    return f"./twins repro {script.argument} {shlex.join(options_of(given))}"


def one_run(given: argparse.Namespace, script: Script, runs: Runs, descriptions: Mapping[str, dict]) -> str:
    """Return the command for one run in the configuration of `runs`."""
    config = CONFIGURATIONS[runs.config]
    threads, name = given.threads, " ".join([script.argument, *map(shlex.quote, script.arguments)])
    if given.walled:
        options = f"--configs {config.name} --threads {threads} --timeout {given.timeout:g} --repeat 1"
        return f"{_CONTAINER} {options} <{name}"
    forces_gil = config.python_gil is not None and (config.name != "ft" or runs.forced_off)
    variables = f"REPRO_THREADS={threads}" + (f" PYTHON_GIL={config.python_gil}" if forces_gil else "")
    # For readers of the issue who do not have these tools.
    version = descriptions[config.twin]["interpreter"]["version"].rpartition(".")[0]
    free, suffix = (" that is free-threaded", "t") if config.twin == "ft" else ("", "")
    return (
        f"{variables} ./twins exec {config.twin} python {name}\n\n"
        f"# the same with any CPython {version}{free}:\n{variables} python{version}{suffix} {name}"
    )


def render(
    script: Script,
    verdict: Verdict,
    runs: Mapping[str, Runs],
    descriptions: Mapping[str, dict],
    command: str,
    single: str,
    walls: bool,
    sections: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the whole report: with the commands for all runs and a `single` one, and (title, Markdown) `sections`."""
    parts = [f"# Reproducer: `{terminal(script.title.replace('`', ''))}`", f"**{markdown(sentence(verdict, runs))}**"]
    said = list(remarks(verdict, runs))
    if script.left_out:
        said.append(f"Left out, since only IPython understands it: {'; '.join(script.left_out)}.")
    if said:
        parts.append("\n".join(f"- {one_line(remark)}" for remark in said))
    parts.append(table(runs))
    if found := details(runs):
        parts.append(found)
    if failure := chosen_failure(runs):
        parts.append(first_failure(*failure))
    for title, text in sections:
        parts += [f"## {title}", text]
    parts += [
        "## Script",
        fenced(excerpt(script.text, LONGEST_SCRIPT), "python"),
        "## Repeat it",
        fenced(f"{command}\n\n# one run:\n{single}", "sh"),
        "## Environment",
        environment(descriptions, runs, walls),
    ]
    return "\n\n".join(parts) + "\n"
