"""The report of repro, as Markdown to paste into an issue."""

from __future__ import annotations

import functools
import importlib.metadata
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ftrun.configurations import CONFIGURATIONS
from ftrun.escape import fenced, markdown, terminal
from ftrun.project import normalise
from ftsafety.repro.campaign import Runs, every_outcome
from ftsafety.repro.look import observations, sound
from ftsafety.repro.outcome import Kind, Outcome, Signature
from ftsafety.repro.request import MIB
from ftsafety.repro.script import Script
from ftsafety.repro.verdict import FailureCounts, Verdict, groups_of, signatures_of
from ftsafety.repro.verdict_words import named, others, rate, remarks, sentence

# GitHub takes 65,536 characters an issue.
LONGEST_EXCERPT = 6_000
LONGEST_SCRIPT = 24_000
LONGEST_SAMPLE = 800
MOST_NODES = 100


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """Return *text*; if it is longer than *most* characters, only its start and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def one_line(text: str) -> str:
    """Return the first 300 characters of *text* as one line of Markdown."""
    return markdown(text[:300])


def table(runs: Mapping[str, Runs]) -> str:
    """Return a Markdown table with a row for each configuration: number of runs for each outcome,
    and failure rate.
    """
    kinds = {outcome.kind for outcome in every_outcome(runs)}
    present = [kind for kind in Kind if kind == Kind.OK or kind in kinds]
    rows = [["configuration", "runs", *present, "failure rate (95% interval)"]]
    for config, config_runs in runs.items():
        counts = Counter(outcome.kind for outcome in config_runs.outcomes)
        numbers = [
            str(number)
            for number in (len(config_runs.outcomes), *(counts[kind] for kind in present))
        ]
        rows.append([f"`{config}`", *numbers, rate(config_runs.failures, config_runs.counted)])
    rows.insert(1, ["---", *["---:"] * (len(rows[0]) - 1)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def details(runs: Mapping[str, Runs]) -> str:
    """Return a Markdown list of the most frequent failures and notes of each configuration,
    with their counts.
    """
    lines = []
    for config, config_runs in runs.items():
        failures: Counter[str] = Counter()
        signatures: Counter[Signature] = Counter()
        notes: Counter[str] = Counter()
        for outcome in config_runs.outcomes:
            if outcome.kind.failed:
                failures[f"{outcome.kind}: {one_line(outcome.detail)}"] += 1
            signatures.update(signatures_of(outcome))
            notes.update(outcome.notes)
        places = [
            (signature, number) for signature, number in signatures.most_common() if signature.place
        ]
        lines += [f"- `{config}`: {number} x {words}" for words, number in failures.most_common(5)]
        lines += [
            f"  - {number} x {one_line(named(signature))}" for signature, number in places[:5]
        ]
        lines += [
            f"- `{config}`: {number} x {one_line(note)}" for note, number in notes.most_common(3)
        ]
    return "\n".join(lines)


def measured(runs: Mapping[str, Runs]) -> str:
    """Return Markdown on the successful runs: median time and memory by configuration, then one
    output of each.

    Return "" if no run succeeded.
    """
    rows = ["| configuration | median time | peak memory |", "|---|---:|---:|"]
    configs_of_outputs: dict[str, list[str]] = {}
    for config, config_runs in runs.items():
        outcomes = sound(config_runs)
        time = memory = "-"
        if outcomes:
            time = f"{statistics.median(outcome.seconds for outcome in outcomes):.2f} s"
            if peak := statistics.median(outcome.memory for outcome in outcomes):
                memory = f"{peak / MIB:.0f} MiB"
            output = excerpt(outcomes[0].stdout.strip(), LONGEST_SAMPLE)
            configs_of_outputs.setdefault(output, []).append(config)
        rows.append(f"| `{config}` | {time} | {memory} |")
    if not configs_of_outputs:
        return ""
    parts = ["\n".join(rows), "Medians of the runs that did not fail."]
    for output, configs in configs_of_outputs.items():
        if output:
            parts += [
                f"Standard output of the first of these in {', '.join(configs)}:",
                fenced(output, "text"),
            ]
    return "\n\n".join(parts)


def first_failure(config: str, number: int, outcome: Outcome) -> str:
    """Return the report's section on the first failure: its stacks, stderr and stdout."""
    where = f" on {one_line(outcome.node)}" if outcome.node else ""
    parts = [
        f"## First failure: `{config}`, run {number}{where}: {outcome.kind}",
        one_line(outcome.detail),
    ]
    if outcome.stacks.strip():
        # Where the script itself goes on, a child process of it was killed by a signal.
        when = "at the time limit" if outcome.kind == Kind.HANG else "at the signal"
        parts += [f"Python stacks {when} (faulthandler):", fenced(excerpt(outcome.stacks), "text")]
    if outcome.stderr.strip():
        parts += ["Standard error:", fenced(excerpt(outcome.stderr), "text")]
    if outcome.stdout.strip():
        parts += ["Standard output:", fenced(excerpt(outcome.stdout, 2000), "text")]
    return "\n\n".join(parts)


def nodes(runs: Mapping[str, Runs], processors: Mapping[str, str]) -> str:
    """Return Markdown about the nodes of a cluster: how many runs each has made, and how many
    failed in each way.
    """
    totals = Counter(outcome.node for outcome in every_outcome(runs))
    failed: dict[str, Counter[str]] = {}
    for config, config_runs in runs.items():
        for outcome in config_runs.outcomes:
            if outcome.kind.failed:
                failed.setdefault(outcome.node, Counter())[f"{config}: {outcome.kind}"] += 1
    rows = ["| node | processor | runs | failures |", "|---|---|---:|---|"]
    order = sorted(totals, key=lambda name: (-failed.get(name, Counter()).total(), name))
    for name in order[:MOST_NODES]:
        ways = (
            "; ".join(
                f"{number} x `{way}`" for way, number in failed.get(name, Counter()).most_common()
            )
            or "none"
        )
        rows.append(
            f"| {one_line(name)} | {one_line(processors[name])} | {totals[name]} | {ways} |"
        )
    parts = ["\n".join(rows)]
    if len(order) > MOST_NODES:
        parts.append(f"And {len(order) - MOST_NODES} more nodes.")
    return "\n\n".join(parts)


def chosen_failure(
    runs: Mapping[str, Runs], finding: FailureCounts | None = None
) -> tuple[str, int, Outcome] | None:
    """Return the failure to show, as (configuration, number of the run from 1, outcome), or None if
    no run failed.

    Failures without the GIL are preferred. If *finding* has a signature,
    only failures with this signature count.
    """
    signature = finding.signature if finding else None
    for config in reversed([config for config in (*CONFIGURATIONS, *runs) if config in runs]):
        for number, outcome in enumerate(runs[config].outcomes, 1):
            if outcome.kind.failed and (signature is None or signature in groups_of(outcome)):
                return config, number, outcome
    return None


_distributions = functools.cache(importlib.metadata.packages_distributions)


def packages_that_ran(
    descriptions: Mapping[str, dict],
    runs: Mapping[str, Runs],
    added: Mapping[str, Mapping[str, str]],
) -> dict[str, dict[str, str]]:
    """Return, by twin, the versions of the packages that the script imported
    or that were *added* for it.
    """
    owners = _distributions()  # both twins have the packages of this process
    # Modules of all configurations, since a run that crashed reports none.
    modules: set[str] = set()
    for outcome in every_outcome(runs):
        modules.update(outcome.modules)
    versions = {}
    for twin, described in descriptions.items():
        # The modules of an added distribution are not known here,
        # so all of these count as imported.
        extra = added.get(twin, {})
        names = set(map(normalise, modules))
        for module in modules:
            names.update(map(normalise, owners.get(module, ())))
        installed = {**described["packages"], **extra}
        versions[twin] = {
            name: installed[name] for name in sorted({*names, *extra}) if name in installed
        }
    return versions


def interpreter(described: dict) -> str:
    """Return an interpreter's description as text: version,
    number of upstream fixes added to it, build, compiler.
    """
    python = described["interpreter"]
    fixes = python.get("upstream_fixes", 0)
    patched = f" with {fixes} upstream fixes" if fixes else ""
    return f"CPython {python['version']}{patched}, {python['build']}, {python['compiler']}"


def environment(
    descriptions: Mapping[str, dict],
    runs: Mapping[str, Runs],
    walls: bool,
    added: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """Return a Markdown list: interpreters, imported packages, machine. *walls*: True if containers
    ran the script.
    """
    lines = [
        f"- {twin}: {one_line(interpreter(description))}"
        for twin, description in descriptions.items()
    ]
    description = next(iter(descriptions.values()))
    ran = packages_that_ran(descriptions, runs, added)
    twins_of_packages: dict[str, list[str]] = {}
    for twin, versions in ran.items():
        packages = ", ".join(f"{name} {version}" for name, version in versions.items())
        twins_of_packages.setdefault(packages, []).append(twin)
    for packages, twins in twins_of_packages.items():
        which = f" ({', '.join(twins)})" if len(twins_of_packages) > 1 else ""
        if packages:
            lines.append(f"- packages that it imports{which}: {markdown(packages)}")
    cpu, os_ = description["cpu"], description["os"]
    system = f"{os_['name']}, Linux {os_['kernel']}, {os_['container'] or 'no container'}"
    around = "none (native run: the script could do what the user could)"
    if walls:
        around = "containers without network, read-only, without privileges"
    lines += [
        f"- processor: {one_line(cpu['model'])}, {cpu['usable']} usable of {cpu['count']}",
        f"- memory: {description['memory']['total'] / 2**30:.1f} GiB",
        f"- system: {one_line(system)}",
        f"- walls: {around}",
    ]
    return "\n".join(lines)


def render(
    script: Script,
    verdict: Verdict,
    runs: Mapping[str, Runs],
    commands: str,
    about: str,
    sections: Sequence[tuple[str, str]] = (),
    more: Sequence[str] = (),
) -> str:
    """Return the whole report, as Markdown.

    Args:
        commands: shell commands that repeat all runs, and a single run.
        about: the description of the environment.
        sections: further sections, as (title, Markdown).
        more: further remarks on the verdict.
    """
    parts = [
        f"# Reproducer: `{terminal(script.title.replace('`', ''))}`",
        f"**{markdown(sentence(verdict, runs))}**",
    ]
    sentences = [*remarks(verdict, runs), *others(runs), *more]
    if script.left_out:
        sentences.append(
            f"Left out, since only IPython understands it: {'; '.join(script.left_out)}."
        )
    if sentences:
        parts.append("\n".join(f"- {one_line(words)}" for words in sentences))
    parts.append(table(runs))
    if failures := details(runs):
        parts.append(failures)
    if observed := observations(runs):
        title = "Also seen" if verdict.failing else "Nothing failed, but look"
        parts += [f"## {title}", "\n".join(f"- {one_line(words)}" for words in observed)]
    if failure := chosen_failure(runs, verdict.main):
        parts.append(first_failure(*failure))
    for title, text in sections:
        parts += [f"## {title}", text]
    if measurements := measured(runs):
        parts += ["## Time, memory and output", measurements]
    parts += [
        "## Script",
        fenced(excerpt(script.text, LONGEST_SCRIPT), "python"),
        "## Repeat it",
        fenced(commands, "sh"),
        "## Environment",
        about,
    ]
    return "\n\n".join(parts) + "\n"
