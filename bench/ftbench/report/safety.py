"""The thread-safety suite's outcome: in sentences, as a table, and the text of each failure."""

from ftbench.document.model import Results, Stress, StressResult
from ftbench.report import commands
from ftbench.report.tables import Table
from ftrun.escape import one_line

# The most lines of a failure's text, and the most names of scenarios, where there is little room.
MOST_LINES = 40
MOST_NAMES = 5


def passed(results: Results) -> bool:
    """True if the suite ran to its end and no scenario failed."""
    return bool(
        results.stress and results.stress.status == "complete" and not results.stress.failed
    )


def sentences(results: Results) -> list[str]:
    """Return sentences about the suite's outcome. If the suite did not complete, one has the
    command to run it.
    """
    part = results.stress
    command = f"To run it: {commands.stress(results)}"
    if part is None:
        why = (
            " was not run, since the measurement did not come to its end"
            if results.options.stress
            else " was not part of this run"
        )
        return [f"The thread-safety suite{why}. {command}"]
    texts = []
    if part.status != "complete":
        number = len(part.scenarios) * len(results.options.configs)
        progress = (
            f"{len(part.results)} of {number} results are there" if number else "there is no result"
        )
        state = f"INCOMPLETE: the thread-safety suite did not come to its end ({part.reason})"
        texts.append(f"{state}; {progress}. {command}")
    texts += [
        _of(config, [*outcomes.values()])
        for config, outcomes in _by_config(results, part).items()
        if outcomes
    ]
    if part.results:
        texts.append(
            "No failure in this number of rounds is no proof that there is none; a longer run "
            "looks harder (--stress-minutes 30)."
        )
    return texts


def _of(config: str, outcomes: list[StressResult]) -> str:
    """Return a configuration's outcome as a sentence, such as "ft:
    47 scenarios, 6,120 rounds, no failure.".
    """
    rounds = sum(outcome.iterations or 0 for outcome in outcomes)
    head = f"{config}: {len(outcomes)} scenarios, {rounds:,} rounds"
    bad = [outcome for outcome in outcomes if outcome.outcome != "passed"]
    if not bad:
        return f"{head}, no failure."
    names = ", ".join(f"{outcome.scenario} {outcome.outcome}" for outcome in bad[:MOST_NAMES])
    more = f" and {len(bad) - MOST_NAMES} more" if len(bad) > MOST_NAMES else ""
    return f"{head}; {len(bad)} did not pass: {names}{more}."


def _by_config(results: Results, part: Stress) -> dict[str, dict[str, StressResult]]:
    return {
        config: {
            result.scenario: result for result in part.results if result.configuration == config
        }
        for config in results.options.configs
    }


def table(results: Results, part: Stress) -> Table:
    """Return a table of the suite's scenarios: threads,
    and the outcome and rounds in each configuration.
    """
    by_config = _by_config(results, part)
    rows = []
    for name in part.scenarios:
        in_each = [outcomes.get(name) for outcomes in by_config.values()]
        threads = next((str(result.threads) for result in in_each if result), "")
        rows.append(
            (name, threads, *("not run" if result is None else _cell(result) for result in in_each))
        )
    return Table(("scenario", "threads", *by_config), tuple(rows), frozenset({1}))


def _cell(result: StressResult) -> str:
    return (
        result.outcome
        if result.iterations is None
        else f"{result.outcome}, {result.iterations:,} rounds"
    )


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
    long = f" --minutes {part.minutes:g}" if part.minutes else ""
    start = {
        "gil": "./twins exec gil",
        "ft-gil": "PYTHON_GIL=1 ./twins exec ft",
        "ft": "./twins exec ft",
    }
    start = {config: f"{command} python -m pytest" for config, command in start.items()}
    if commands.in_containers(results):
        run = "docker compose run --rm"
        start = {
            "gil": f"{run} gil-test",
            "ft-gil": f"{run} -e PYTHON_GIL=1 ft-test",
            "ft": f"{run} ft-test",
        }
    pairs = []
    for result in part.failed:
        config, name = result.configuration, result.scenario
        which = f"-k {name.rpartition('.')[2]} --seed {result.seed}{long}"
        repeat = f"{start[config]} tests/stress/test_scenarios.py {which}"
        text = "\n".join(one_line(line) for line in "\n".join(result.failures).splitlines())
        pairs.append((f"{name} {result.outcome} in {config}. Again: {repeat}", text))
    return pairs


def beginning(text: str) -> str:
    """Shorten a failure's text to its first MOST_LINES lines, and add a line with the number of
    lines left out.
    """
    lines = text.splitlines()
    more = (
        [f"... {len(lines) - MOST_LINES} more lines in report.html"]
        if len(lines) > MOST_LINES
        else []
    )
    return "\n".join(lines[:MOST_LINES] + more)
