"""The report of repro, as Markdown to paste into an issue."""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ftrun.escape import fenced, markdown, terminal
from ftrun.project import normalise
from ftsafety.repro.campaign import AllRuns, Runs, every_outcome, names_by_value
from ftsafety.repro.look import observations
from ftsafety.repro.outcome import Kind, Outcome, Signature
from ftsafety.repro.request import MIB
from ftsafety.repro.script import Script
from ftsafety.repro.verdict import FailureCounts, ScriptVerdict, groups_of, signatures_of
from ftsafety.repro.verdict_words import named, others, rate, remarks, sentence

# GitHub takes 65,536 characters an issue.
LONGEST_EXCERPT = 6_000
LONGEST_SCRIPT = 24_000
LONGEST_SAMPLE = 800
MOST_NODES = 100

VersionsByTwin = Mapping[str, Mapping[str, str]]
"""By twin: the versions of packages, by normalised name."""


def excerpt(text: str, most: int = LONGEST_EXCERPT) -> str:
    """Return *text*; if it is longer than *most* characters, only its start and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


def one_line(text: str) -> str:
    """Return the first 300 characters of *text* as one line of Markdown."""
    return markdown(text[:300])


def bullets(lines: Iterable[str]) -> str:
    """Return *lines* as a Markdown list; each gets one line."""
    return "\n".join(f"- {one_line(line)}" for line in lines)


def table(runs: AllRuns) -> str:
    """Return a Markdown table with a row for each configuration: number of runs for each outcome,
    and failure rate.
    """
    kinds = {Kind.OK}
    for config_runs in runs.values():
        kinds.update(config_runs.kinds)
    present = [kind for kind in Kind if kind in kinds]
    heading = ["configuration", "runs", *present, "failure rate (95% interval)"]
    numbers = ["---:"] * (len(heading) - 1)
    rows = [heading, ["---", *numbers]]
    for config, config_runs in runs.items():
        rows.append([f"`{config}`", *_cells(config_runs, present)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(runs: Runs, kinds: Iterable[Kind]) -> Iterator[str]:
    counts = runs.kinds
    yield str(counts.total())
    for kind in kinds:
        yield str(counts[kind])
    yield rate(runs.failures, runs.counted)


def details(runs: AllRuns) -> str:
    """Return a Markdown list of the most frequent failures and notes of each configuration,
    with their counts.
    """
    lines: list[str] = []
    for config_runs in runs.values():
        lines += _details(config_runs)
    return "\n".join(lines)


def _details(runs: Runs) -> Iterator[str]:
    failures: Counter[str] = Counter()
    places: Counter[Signature] = Counter()
    notes: Counter[str] = Counter()
    for outcome in runs.outcomes:
        if outcome.kind.failed:
            failures[f"{outcome.kind}: {one_line(outcome.detail)}"] += 1
        for signature in signatures_of(outcome):
            if signature.place:
                places[signature] += 1
        notes.update(outcome.notes)
    for failure, number in failures.most_common(5):
        yield f"- `{runs.config}`: {number} x {failure}"
    for signature, number in places.most_common(5):
        yield f"  - {number} x {one_line(named(signature))}"
    for note, number in notes.most_common(3):
        yield f"- `{runs.config}`: {number} x {one_line(note)}"


def measured(runs: AllRuns) -> str:
    """Return Markdown on the successful runs: median time and memory by configuration, then one
    output of each.

    Return "" if no run succeeded.
    """
    rows = ["| configuration | median time | peak memory |", "|---|---:|---:|"]
    outputs = []
    for config, config_runs in runs.items():
        successes = config_runs.of_kind(Kind.OK)
        rows.append(f"| `{config}` | {' | '.join(_medians(successes))} |")
        if successes:
            output = successes[0].stdout.strip()
            outputs.append((config, excerpt(output, LONGEST_SAMPLE)))
    if not outputs:
        return ""
    parts = ["\n".join(rows), "Medians of the runs that did not fail."]
    for output, configs in names_by_value(outputs).items():
        title = f"Standard output of the first of these in {', '.join(configs)}:"
        parts += _block(title, output)
    return "\n\n".join(parts)


def _medians(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return the median time and the median peak memory; "-" where it is not known."""
    time = memory = "-"
    if outcomes:
        time = f"{statistics.median(outcome.seconds for outcome in outcomes):.2f} s"
        if peak := statistics.median(outcome.memory for outcome in outcomes):
            memory = f"{peak / MIB:.0f} MiB"
    return time, memory


def _block(title: str, text: str, most: int = LONGEST_EXCERPT) -> list[str]:
    """Return the paragraphs that show *text* below *title*; [] if it is blank."""
    if not text.strip():
        return []
    return [title, fenced(excerpt(text, most), "text")]


def first_failure(config: str, number: int, outcome: Outcome) -> str:
    """Return the report's section on the first failure: its stacks, stderr and stdout."""
    where = f" on {one_line(outcome.node)}" if outcome.node else ""
    # Where the script itself goes on, a child process of it was killed by a signal.
    when = "at the time limit" if outcome.kind == Kind.HANG else "at the signal"
    parts = [
        f"## First failure: `{config}`, run {number}{where}: {outcome.kind}",
        one_line(outcome.detail),
        *_block(f"Python stacks {when} (faulthandler):", outcome.stacks),
        *_block("Standard error:", outcome.stderr),
        *_block("Standard output:", outcome.stdout, 2000),
    ]
    return "\n\n".join(parts)


def nodes(runs: AllRuns, processors: Mapping[str, str]) -> str:
    """Return Markdown about the nodes of a cluster: how many runs each has made, and how many
    failed in each way.
    """
    totals: Counter[str] = Counter()
    failures: dict[str, Counter[str]] = defaultdict(Counter)
    for config, config_runs in runs.items():
        for outcome in config_runs.outcomes:
            totals[outcome.node] += 1
            if outcome.kind.failed:
                failures[outcome.node][f"{config}: {outcome.kind}"] += 1
    rows = ["| node | processor | runs | failures |", "|---|---|---:|---|"]
    order = sorted(totals, key=lambda name: (-failures[name].total(), name))
    for name in order[:MOST_NODES]:
        processor = one_line(processors[name])
        ways = _ways(failures[name])
        rows.append(f"| {one_line(name)} | {processor} | {totals[name]} | {ways} |")
    parts = ["\n".join(rows)]
    if len(order) > MOST_NODES:
        parts.append(f"And {len(order) - MOST_NODES} more nodes.")
    return "\n\n".join(parts)


def _ways(failures: Counter[str]) -> str:
    ways = [f"{number} x `{way}`" for way, number in failures.most_common()]
    return "; ".join(ways) or "none"


def chosen_failure(
    runs: AllRuns, finding: FailureCounts | None = None
) -> tuple[str, int, Outcome] | None:
    """Return the failure to show, as (configuration, number of the run from 1, outcome), or None if
    no run failed.

    Failures without the GIL are preferred. If *finding* has a signature,
    only failures with this signature count.
    """
    signature = finding.signature if finding else None
    for config in reversed(list(runs)):
        for number, outcome in enumerate(runs[config].outcomes, 1):
            if _shows(outcome, signature):
                return config, number, outcome
    return None


def _shows(outcome: Outcome, signature: Signature | None) -> bool:
    """Return True for a failure, with *signature* if there is one."""
    if signature is None:
        return outcome.kind.failed
    return signature in groups_of(outcome)


_distributions = functools.cache(importlib.metadata.packages_distributions)


def packages_that_ran(
    descriptions: Mapping[str, dict],
    runs: AllRuns,
    added: VersionsByTwin,
) -> dict[str, dict[str, str]]:
    """Return, by twin, the versions of the packages that the script imported
    or that were *added* for it.
    """
    imported = _imported(runs)
    versions = {}
    for twin, described in descriptions.items():
        # The modules of an added distribution are not known here,
        # so all of these count as imported.
        extra = added.get(twin, {})
        installed = {**described["packages"], **extra}
        names = sorted(installed.keys() & {*imported, *extra})
        versions[twin] = {name: installed[name] for name in names}
    return versions


def _imported(runs: AllRuns) -> set[str]:
    """Return the normalised names of the modules that any run has imported, and of their packages.

    Runs of all configurations count, since a run that crashed reports no modules.
    """
    owners = _distributions()  # both twins have the packages of this process
    modules: set[str] = set()
    for outcome in every_outcome(runs):
        modules.update(outcome.modules)
    names = set(modules)
    for module in modules:
        names.update(owners.get(module, ()))
    return set(map(normalise, names))


def interpreter(described: dict) -> str:
    """Return an interpreter's description as text: version,
    number of upstream fixes added to it, build, compiler.
    """
    python = described["interpreter"]
    fixes = python.get("upstream_fixes", 0)
    patched = f" with {fixes} upstream fixes" if fixes else ""
    version = f"CPython {python['version']}{patched}"
    return f"{version}, {python['build']}, {python['compiler']}"


def environment(
    descriptions: Mapping[str, dict],
    runs: AllRuns,
    walls: bool,
    added: VersionsByTwin = MappingProxyType({}),
) -> str:
    """Return a Markdown list: interpreters, imported packages, machine. *walls*: True if containers
    ran the script.
    """
    lines = []
    for twin, description in descriptions.items():
        lines.append(f"{twin}: {one_line(interpreter(description))}")
    lines += _packages(packages_that_ran(descriptions, runs, added))
    lines += _machine(next(iter(descriptions.values())))
    around = "none (native run: the script could do what the user could)"
    if walls:
        around = "containers without network, read-only, without privileges"
    lines.append(f"walls: {around}")
    return "\n".join(f"- {line}" for line in lines)


def _packages(versions: VersionsByTwin) -> Iterator[str]:
    """Yield a line for each set of packages, with its twins if these differ."""
    pairs = []
    for twin, twin_versions in versions.items():
        names = [f"{name} {version}" for name, version in twin_versions.items()]
        pairs.append((twin, ", ".join(names)))
    twins_of_packages = names_by_value(pairs)
    for packages, twins in twins_of_packages.items():
        which = f" ({', '.join(twins)})" if len(twins_of_packages) > 1 else ""
        if packages:
            yield f"packages that it imports{which}: {markdown(packages)}"


def _machine(description: dict) -> Iterator[str]:
    cpu = description["cpu"]
    os_ = description["os"]
    system = f"{os_['name']}, Linux {os_['kernel']}, {os_['container'] or 'no container'}"
    yield f"processor: {one_line(cpu['model'])}, {cpu['usable']} usable of {cpu['count']}"
    yield f"memory: {description['memory']['total'] / 2**30:.1f} GiB"
    yield f"system: {one_line(system)}"


def render(
    script: Script,
    verdict: ScriptVerdict,
    runs: AllRuns,
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
    title = script.title.replace("`", "")
    sentences = [*remarks(verdict, runs), *others(runs), *more]
    if script.left_out:
        lines = "; ".join(script.left_out)
        sentences.append(f"Left out, since only IPython understands it: {lines}.")
    failure = chosen_failure(runs, verdict.main)
    parts = [
        f"# Reproducer: `{terminal(title)}`",
        f"**{markdown(sentence(verdict, runs))}**",
        bullets(sentences),
        table(runs),
        details(runs),
        _section(
            "Also seen" if verdict.failing else "Nothing failed, but look",
            bullets(observations(runs)),
        ),
        first_failure(*failure) if failure else "",
        *itertools.starmap(_section, sections),
        _section("Time, memory and output", measured(runs)),
        _section("Script", fenced(excerpt(script.text, LONGEST_SCRIPT), "python")),
        _section("Repeat it", fenced(commands, "sh")),
        _section("Environment", about),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(title: str, text: str) -> str:
    """Return a section of Markdown; "" if it has no text."""
    return f"## {title}\n\n{text}" if text else ""
