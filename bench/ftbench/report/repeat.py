"""The commands that repeat a run, from the options that its results.json records."""

from __future__ import annotations

import math
import shlex

from ftbench.plan.contestants import CONFIGS
from ftbench.report import words
from ftbench.report.words import without_controls
from ftbench.stats.waterfall import PRECISION


def options(document: dict) -> list[str]:
    """The arguments of `bench` that ask for the same: as few as say it."""
    given = document["options"]
    arguments = list(given["scenarios"])
    if given["dataset"] is not None:
        arguments = ["--dataset", given["dataset"]]
        if given["collate_fn"] is not None:
            arguments += ["--collate-fn", given["collate_fn"]]
        if given["requirements"]:
            arguments += ["--requirements", "requirements.txt"]
    if given["quick"]:
        arguments.append("--quick")
    if given["rounds"] is not None:
        arguments += ["--rounds", str(given["rounds"])]
    else:
        arguments += ["--budget", f"{given['budget']:g}"]
    if given["precision"] != PRECISION:
        arguments += ["--precision", f"{100 * given['precision']:g}%"]
    if given["workers"]:
        arguments += ["--workers", ",".join(map(str, given["workers"]))]
    if given["batch_size"] is not None:
        arguments += ["--batch-size", str(given["batch_size"])]
    if given["data"] is not None:
        arguments += ["--data", given["data"]]
    if set(given["configs"]) != set(CONFIGS):
        arguments += ["--configs", ",".join(given["configs"])]
    if given.get("stress"):
        arguments.append("--stress")
    if given.get("stress_minutes"):
        arguments += ["--stress-minutes", f"{given['stress_minutes']:g}"]
    return [without_controls(argument) for argument in arguments]


def commands(document: dict) -> list[tuple[str, str]]:
    """(what it does, command line): the same sources, then the same measurement with and without Docker."""
    found = []
    commit = document["environment"]["revision"]["commit"]
    if commit != "unknown":
        found.append(
            ("The same sources, in a clone of the repository", f"git checkout {shlex.quote(without_controls(commit))}")
        )
    found.append(("The same measurement", _command(document, docker=False)))
    found.append(("The same with Docker", _command(document, docker=True)))
    if more := longer(document):
        found.append(("A run that would settle what is open", more))
    found.append(("This report again, from results.json alone", "./twins bench report results.json"))
    return found


def _command(document: dict, docker: bool) -> str:
    """The command of the run that the document's options ask for."""
    asked, data = options(document), document["options"]["data"]
    if not docker:
        return f"{_series(document)}./twins bench {shlex.join(asked)}"
    before = "" if data is None else f"DATA={shlex.quote(without_controls(data))} "
    inside = shlex.join(["/data" if argument == data else argument for argument in asked])
    return f"{before}{_series(document)}docker compose run --rm ft-bench {inside}"


def _in_containers(document: dict) -> bool:
    return any(where.startswith("unix:") for where in document["options"]["twins"].values())


def longer(document: dict) -> str:
    """The command of a run that would settle what the waterfalls leave open; "" if nothing is, or it takes hours.

    In the way the run was made, and no less precise.
    """
    given = document["options"]
    minutes, precision = 0, given["precision"]
    for fall in document["waterfalls"]:
        scenario = next(s for s in document["scenarios"] if s["name"] == fall["scenario"])
        said = (*fall["steps"], fall["total"])
        needed = [(words.more_minutes(scenario, c) or 0, abs(math.log(c["ratio"]))) for c in said]
        minutes += max(more for more, _ in needed)
        precision = min([precision, *(far for more, far in needed if more)])
    if not minutes:
        return ""
    # --precision takes no less than 0.1%.
    more = {"rounds": None, "budget": given["budget"] + 60 * minutes, "precision": max(1, int(1000 * precision)) / 1000}
    return _command({**document, "options": {**given, **more}}, _in_containers(document))


def stress(document: dict) -> str:
    """The command that runs the thread-safety suite, after the shortest measurement, in the way the run was made."""
    bench = "docker compose run --rm ft-bench" if _in_containers(document) else "./twins bench"
    return f"{_series(document)}{bench} --quick --stress"


def _series(document: dict) -> str:
    """The variable that chooses the twins' series, where it is not the usual one."""
    versions = {t["interpreter"]["version"] for t in document["environment"]["twins"].values()}
    series = {".".join(version.split(".")[:2]) for version in versions}
    only = without_controls(next(iter(series)))
    return f"PYTHON_SERIES={shlex.quote(only)} " if len(series) == 1 and only != "3.13" else ""
