"""The thread-safety suite's outcome: in sentences, as a table, and what each failure said."""

from ftbench.report import commands
from ftbench.report.tables import Table
from ftbench.rounds import stress
from ftrun.escape import one_line

# Of a failure's text, where there is no room for all of it.
MOST_LINES = 40
MOST_NAMES = 5


def ran(document: dict) -> bool:
    """Whether there is any outcome to show."""
    return bool((document.get("stress") or {}).get("results"))


def passed(document: dict) -> bool:
    """Whether the suite ran to its end and nothing failed."""
    return "stress" in document and stress.problem(document["stress"]) is None


def sentences(document: dict) -> list[str]:
    """What came of it, or that it was not run; of what is missing, the command that gives it."""
    part = document.get("stress")
    again = f"To run it: {commands.stress(document)}"
    if part is None:
        why = (
            " was not run, since the measurement did not come to its end"
            if document["options"].get("stress")
            else " was not part of this run"
        )
        return [f"The thread-safety suite{why}. {again}"]
    found = []
    if part["status"] != "complete":
        wanted = len(part["scenarios"]) * len(document["options"]["configs"])
        of = f"{len(part['results'])} of {wanted} results are there" if wanted else "there is no result"
        found.append(f"INCOMPLETE: the thread-safety suite did not come to its end ({part['reason']}); {of}. {again}")
    found += [_of(config, [*results.values()]) for config, results in _by_config(document).items() if results]
    if ran(document):
        found.append(
            "No failure in so many rounds is no proof that there is none; a longer run looks harder "
            "(--stress-minutes 30)."
        )
    return found


def _of(config: str, results: list[dict]) -> str:
    """A configuration's outcome: "ft: 47 scenarios, 6,120 rounds, no failure."."""
    rounds = sum(result["iterations"] or 0 for result in results)
    head = f"{config}: {len(results)} scenarios, {rounds:,} rounds"
    bad = stress.failed(results)
    if not bad:
        return f"{head}, no failure."
    names = ", ".join(f"{each['scenario']} {each['outcome']}" for each in bad[:MOST_NAMES])
    more = f" and {len(bad) - MOST_NAMES} more" if len(bad) > MOST_NAMES else ""
    return f"{head}; {len(bad)} did not pass: {names}{more}."


def _by_config(document: dict) -> dict[str, dict[str, dict]]:
    """The results by configuration and scenario."""
    results = document["stress"]["results"]
    return {
        config: {each["scenario"]: each for each in results if each["configuration"] == config}
        for config in document["options"]["configs"]
    }


def table(document: dict) -> Table:
    """Scenario by scenario: threads, and in each configuration iterations and failures."""
    by_config = _by_config(document)
    rows = []
    for name in document["stress"]["scenarios"]:
        of = [results.get(name) for results in by_config.values()]
        threads = next((str(result["threads"]) for result in of if result), "")
        rows.append((name, threads, *(cell for result in of for cell in _cells(result))))
    columns = (f"{config}: {what}" for config in by_config for what in ("iterations", "failures"))
    head = ("scenario", "threads", *columns)
    return Table(head, tuple(rows), frozenset(range(1, len(head))))


def _cells(result: dict | None) -> tuple[str, str]:
    """Iterations and failures; of a crash or a hang that word, since nobody counted then."""
    if result is None:
        return "", "not run"
    iterations = "" if result["iterations"] is None else f"{result['iterations']:,}"
    if result["outcome"] in ("crashed", "hung"):
        return iterations, result["outcome"]
    return iterations, str(len(result["failures"]))


def known(document: dict) -> list[str]:
    """What is known not to be safe upstream, which scenarios keep clear of."""
    found = {each["scenario"]: each["known"] for each in document["stress"]["results"] if each["known"]}
    return [f"{scenario}, known upstream: {text}." for scenario, text in found.items()]


def failures(document: dict) -> list[tuple[str, str]]:
    """(what failed where and how to have it again, what it said) of each scenario that did not pass."""
    minutes = document["stress"]["minutes"]
    long = f" --minutes {minutes:g}" if minutes else ""
    found = []
    for each in stress.failed(document["stress"]["results"]):
        config, name = each["configuration"], each["scenario"]
        twin = {"gil": "./twins exec gil", "ft-gil": "PYTHON_GIL=1 ./twins exec ft", "ft": "./twins exec ft"}[config]
        again = (
            f"{twin} python -m pytest tests/stress/test_scenarios.py -k {name.rpartition('.')[2]} "
            f"--seed {each['seed']}{long}"
        )
        text = "\n".join(one_line(line) for line in "\n".join(each["failures"]).splitlines())
        found.append((f"{name} {each['outcome']} in {config}. Again: {again}", text))
    return found


def beginning(text: str) -> str:
    """The first lines of a failure's text."""
    lines = text.splitlines()
    more = [f"... {len(lines) - MOST_LINES} more lines in report.html"] if len(lines) > MOST_LINES else []
    return "\n".join(lines[:MOST_LINES] + more)
