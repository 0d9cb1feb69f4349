"""The thread-safety suite's outcome: in sentences, as a table, and the text of each failure."""

from ftbench.document.model import Results, Stress, StressResult
from ftbench.report import commands
from ftbench.report.tables import Table
from ftrun.escape import one_line

# The most lines of a failure's text, and the most names of scenarios, where there is little room.
MOST_LINES = 40
MOST_NAMES = 5
# Commands that run pytest in each configuration.
IN_TWINS = {
    "gil": "./twins exec gil python -m pytest",
    "ft-gil": "PYTHON_GIL=1 ./twins exec ft python -m pytest",
    "ft": "./twins exec ft python -m pytest",
}
IN_CONTAINERS = {
    "gil": "docker compose run --rm gil-test",
    "ft-gil": "docker compose run --rm -e PYTHON_GIL=1 ft-test",
    "ft": "docker compose run --rm ft-test",
}


def passed(results: Results) -> bool:
    """True if the suite ran to its end and no scenario failed."""
    suite = results.stress
    return suite is not None and suite.status == "complete" and not suite.failed


def sentences(results: Results) -> list[str]:
    """Return sentences about the suite's outcome; none after a user-supplied command, which the
    suite is not about. If the suite did not complete, one has the command to run it.
    """
    if results.options.command:
        return []
    part = results.stress
    command = f"To run it: {commands.stress(results)}"
    if part is None:
        why = "was not part of this run"
        if results.options.stress:
            why = "was not run, since the measurement did not come to its end"
        return [f"The thread-safety suite {why}. {command}"]
    texts = []
    if part.status != "complete":
        texts.append(f"{_incomplete(results, part)}. {command}")
    for config, outcomes in _by_config(results, part).items():
        if outcomes:
            texts.append(_summary(config, [*outcomes.values()]))
    if part.results:
        texts.append(
            "No failure in this number of rounds is no proof that there is none; a longer run "
            "looks harder (--stress-minutes 30)."
        )
    return texts


def _incomplete(results: Results, part: Stress) -> str:
    number = len(part.scenarios) * len(results.options.configs)
    progress = "there is no result"
    if number:
        progress = f"{len(part.results)} of {number} results are there"
    state = f"INCOMPLETE: the thread-safety suite did not come to its end ({part.reason})"
    return f"{state}; {progress}"


def _summary(config: str, outcomes: list[StressResult]) -> str:
    """Return a configuration's outcome as a sentence, such as "ft:
    47 scenarios, 6,120 rounds, no failure.".
    """
    rounds = sum(outcome.iterations or 0 for outcome in outcomes)
    head = f"{config}: {len(outcomes)} scenarios, {rounds:,} rounds"
    bad = [outcome for outcome in outcomes if outcome.outcome != "passed"]
    if not bad:
        return f"{head}, no failure."
    names = ", ".join(f"{outcome.scenario} {outcome.outcome}" for outcome in bad[:MOST_NAMES])
    if len(bad) > MOST_NAMES:
        names += f" and {len(bad) - MOST_NAMES} more"
    return f"{head}; {len(bad)} did not pass: {names}."


def _by_config(results: Results, part: Stress) -> dict[str, dict[str, StressResult]]:
    by_config: dict[str, dict[str, StressResult]] = {}
    for config in results.options.configs:
        by_config[config] = {}
    for result in part.results:
        if result.configuration in by_config:
            by_config[result.configuration][result.scenario] = result
    return by_config


def table(results: Results, part: Stress) -> Table:
    """Return a table of the suite's scenarios: threads,
    and the outcome and rounds in each configuration.
    """
    by_config = _by_config(results, part)
    rows = []
    for name in part.scenarios:
        outcomes = [by_scenario.get(name) for by_scenario in by_config.values()]
        threads = next((str(outcome.threads) for outcome in outcomes if outcome), "")
        rows.append((name, threads, *map(_cell, outcomes)))
    return Table(("scenario", "threads", *by_config), tuple(rows), frozenset({1}))


def _cell(result: StressResult | None) -> str:
    if result is None:
        return "not run"
    if result.iterations is None:
        return result.outcome
    return f"{result.outcome}, {result.iterations:,} rounds"


def known(part: Stress) -> list[str]:
    """Return a sentence for each scenario of the suite
    that avoids a known bug of Python or of a library.
    """
    bugs = {result.scenario: result.known for result in part.results if result.known}
    return [f"{scenario}, known upstream: {text}." for scenario, text in bugs.items()]


def failures(results: Results, part: Stress) -> list[tuple[str, str]]:
    """Return (line, tracebacks) for each scenario that did not pass; the line has a command to
    repeat the scenario.
    """
    pytest = IN_CONTAINERS if commands.in_containers(results) else IN_TWINS
    minutes = f" --minutes {part.minutes:g}" if part.minutes else ""
    pairs = []
    for result in part.failed:
        config, name = result.configuration, result.scenario
        test = f"-k {name.rpartition('.')[2]} --seed {result.seed}{minutes}"
        command = f"{pytest[config]} tests/stress/test_scenarios.py {test}"
        lines = "\n".join(result.failures).splitlines()
        title = f"{name} {result.outcome} in {config}. Again: {command}"
        pairs.append((title, "\n".join(map(one_line, lines))))
    return pairs


def beginning(text: str) -> str:
    """Shorten a failure's text to its first MOST_LINES lines, and add a line with the number of
    lines left out.
    """
    lines = text.splitlines()
    kept = lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        kept.append(f"... {len(lines) - MOST_LINES} more lines in report.html")
    return "\n".join(kept)
