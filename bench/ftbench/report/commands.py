"""The commands that repeat a run, from the options that its results.json records."""

import math
import os
import re
import shlex

from ftbench.plan.candidates import CONFIGS
from ftbench.report import phrases
from ftbench.stats.statistics import FEWEST_ROUNDS
from ftbench.stats.waterfall import PRECISION
from ftrun.escape import one_line


def options(document: dict) -> list[str]:
    """The arguments of `bench` that ask for the same: as few as say it."""
    given = document["options"]
    own = given["dataset"] is not None
    wanted = {
        "--dataset": given["dataset"],
        "--collate-fn": own and given["collate_fn"],
        "--requirements": own and given["requirements"] and "requirements.txt",
        "--rounds": given["rounds"],
        "--budget": given["rounds"] is None and f"{given['budget']:g}",
        "--precision": given["precision"] != PRECISION and f"{100 * given['precision']:g}%",
        "--workers": given["workers"] and ",".join(map(str, given["workers"])),
        "--batch-size": given["batch_size"],
        "--data": given["data"],
        "--configs": set(given["configs"]) != set(CONFIGS) and ",".join(given["configs"]),
        "--stress-minutes": given.get("stress_minutes") and f"{given['stress_minutes']:g}",
    }
    arguments = [] if own else list(given["scenarios"])
    arguments += [f"--{flag}" for flag in ("quick", "stress") if given.get(flag)]
    # Where no scenario is named, the suite is part of a run that is not quick.
    arguments += ["--no-stress"] if own and not (given["quick"] or given.get("stress")) else []
    for name, value in wanted.items():
        arguments += [name, str(value)] if value else []
    return [one_line(argument) for argument in arguments]


def commands(document: dict) -> list[tuple[str, str]]:
    """(what it does, command line): the same sources, then the same measurement with and without Docker."""
    found = []
    commit = document["environment"]["revision"]["commit"]
    if commit != "unknown":
        found.append(
            ("The same sources, in a clone of the repository", f"git checkout {shlex.quote(one_line(commit))}")
        )
    found.append(("The same measurement", _command(document, docker=False)))
    found.append(("The same with Docker", _command(document, docker=True)))
    found += longer(document)
    found.append(("This report again, from results.json alone", "./twins bench report results.json"))
    return found


def _command(document: dict, docker: bool) -> str:
    """The command of the run that the document's options ask for, with the user's folders as that way names them."""
    given, folders = dict(document["options"]), {}
    if not _in_containers(document):
        if docker and given["data"] is not None:
            folders["DATA"], given["data"] = given["data"], "/data"
        if docker and given["dataset"] is not None:
            folders["CODE"], given["dataset"] = os.path.split(given["dataset"])
    else:
        folders = {**({"DATA": "your/images"} if given["data"] else {}), **given.get("folders", {})}
        if not docker and given["data"] is not None:
            given["data"] = re.sub("^/data(?=/|$)", lambda _: folders["DATA"], given["data"])
        if not docker and given["dataset"] is not None:
            given["dataset"] = os.path.join(folders.get("CODE", ""), given["dataset"])
    asked = " ".join(map(_quoted, options({**document, "options": given})))
    if not docker:
        return f"{_series(document)}./twins bench {asked}"
    # Compose takes a name without a slash for a volume.
    paths = {name: where if where.startswith("~/") else os.path.join(".", where) for name, where in folders.items()}
    before = "".join(f"{name}={_quoted(one_line(path))} " for name, path in sorted(paths.items()))
    return f"{before}{_series(document)}docker compose run --rm ft-bench {asked}"


def _quoted(word: str) -> str:
    """A word for a shell, which replaces the ~ that a file .env gives to Compose as it is."""
    return "~/" + shlex.quote(word[2:]) if word.startswith("~/") else shlex.quote(word)


def _in_containers(document: dict) -> bool:
    return any(where.startswith("unix:") for where in document["options"]["twins"].values())


def longer(document: dict) -> list[tuple[str, str]]:
    """(what it does, command line) of runs that would settle what the waterfalls leave open, if any would.

    Of the scenarios alone that leave something open, in the way the run was made, and no less precise. A run gives
    its scenarios equal parts of the time, so each has what the slowest needs.
    """
    given = document["options"]
    found: list[tuple[str, str]] = []

    def add(what: str, **changed: object) -> None:
        options = {**given, "rounds": None, **changed}
        found.append((what, _command({**document, "options": options}, _in_containers(document))))

    if few := [s["name"] for s in document["scenarios"] if len(s["rounds"]) < FEWEST_ROUNDS]:
        add("A run of enough rounds", scenarios=few)  # unless a number of rounds is given, there are
    minutes: dict[str, int] = {}
    precision, what = given["precision"], "what is open"
    for fall in document["waterfalls"]:
        scenario = next(s for s in document["scenarios"] if s["name"] == fall["scenario"])
        for c in (*fall["steps"], fall["total"]):
            more = phrases.more_minutes(scenario, c)
            if more == 0:
                what = "some of what is open"
            if more:
                minutes[scenario["name"]] = max(more, minutes.get(scenario["name"], 0))
                # How narrow the interval is then.
                narrow = math.log(c["high"] / c["low"]) / 2 * abs(math.log(c["ratio"])) / math.log(c["resolution"])
                precision = min(precision, narrow)
    if minutes:
        budget = given["budget"] + 60 * len(minutes) * max(minutes.values())
        precision = int(1000 * precision) / 1000
        add(f"A run that would settle {what}", scenarios=[*minutes], budget=budget, precision=precision)
    return found


def stress(document: dict) -> str:
    """The command that runs the thread-safety suite, after the shortest measurement, in the way the run was made."""
    bench = "docker compose run --rm ft-bench" if _in_containers(document) else "./twins bench"
    return f"{_series(document)}{bench} --quick --stress"


def _series(document: dict) -> str:
    """The variable that chooses the twins' series, where it is not the usual one."""
    versions = {t["interpreter"]["version"] for t in document["environment"]["twins"].values()}
    series = {".".join(version.split(".")[:2]) for version in versions}
    only = one_line(next(iter(series)))
    return f"PYTHON_SERIES={shlex.quote(only)} " if len(series) == 1 and only != "3.13" else ""
