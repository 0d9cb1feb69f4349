"""Measure the recall and the false alarms of `./twins audit`,
on the planted races and the sound datasets.

    python3 evaluation/races/measure.py [OPTION ...] [NAME ...]

The command line audits the datasets one after the other. With --dask ADDRESS, the workers of a Dask
cluster audit them; they need this project in the same folder. With --peers, two peers get each
dataset too, as a script that loads it in four threads. `threadcheck scan` reads the script,
`threadcheck run` executes it. pyvft executes it after NumPy, torch, Pillow and fsspec were
imported, since it cannot rewrite NumPy. To install the peers into DIR:

    pip install --target DIR --no-deps --ignore-requires-python threadcheck==0.0.1.2 pyvft==0.2.0

With --keep, verdicts are kept in a file, and those that are there already are not measured again.
"""

import argparse
import ast
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
DRIVER = (FOLDER / "threads_driver.py").read_text()
REPORTED, NOTHING = "reported", "nothing"


def files(names):
    """Return the files of these names; all without any."""
    found = [path for kind in ("planted", "sound") for path in sorted((FOLDER / kind).glob("*.py"))]
    unknown = set(names) - {path.stem for path in found}
    if unknown:
        raise SystemExit(f"no such dataset: {', '.join(sorted(unknown))}")
    return [path for path in found if not names or path.stem in names]


def wilson(hits, total, z=1.959964):
    """Return the share of hits in words, with Wilson's 95% interval."""
    if not total:
        return "none"
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = (
        z
        * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
        / (1 + z * z / total)
    )
    return (
        f"{hits} of {total}: {share:.0%} ({max(0, middle - half):.0%} to "
        f"{min(1, middle + half):.0%})"
    )


def command(arguments, seconds, **variables):
    """Run a command; return its exit status (124 after the time limit) and its output."""
    try:
        done = subprocess.run(
            arguments,
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout + done.stderr


def audit(path, scratch):
    """Return the audit's verdict, by its exit status."""
    status, _ = command(
        ["./twins", "audit", f"{path.relative_to(ROOT)}:dataset"], 900, TMPDIR=str(scratch)
    )
    return {0: NOTHING, 1: REPORTED}.get(status, f"error {status}")


def script(path, folder, scratch):
    """Write the dataset's file as a script that loads it in threads;
    return its path, Python and the environment.
    """
    file = scratch / path.name
    file.write_text(f"{path.read_text()}\n\n{DRIVER}")
    return (
        file,
        ["./twins", "exec", "ft", "python"],
        {"PYTHONPATH": str(folder), "TMPDIR": str(scratch)},
    )


def threadcheck_scan(path, folder, scratch):
    """Return threadcheck's verdict on the dataset's lines, from reading them."""
    file, python, variables = script(path, folder, scratch)
    status, output = command(
        [*python, "-m", "threadcheck", "scan", str(file), "--json", "--quiet"], 300, **variables
    )
    try:
        found = json.loads(output[output.index("[") :])
    except ValueError:
        return f"error {status}"
    lines = path.read_text().count("\n")
    own = [
        warning for warning in found if warning["line"] <= lines and warning["severity"] != "info"
    ]
    return REPORTED if own else NOTHING


def threadcheck_run(path, folder, scratch):
    """Return threadcheck's verdict on the dataset's lines, from running them in threads."""
    file, python, variables = script(path, folder, scratch)
    status, output = command([*python, "-m", "threadcheck", "run", str(file)], 300, **variables)
    if status == 0:
        return NOTHING
    return REPORTED if "Data races detected" in output else f"error {status}"


def pyvft(path, folder, scratch):
    """Return pyvft's verdict."""
    file, python, variables = script(path, folder, scratch)
    status, output = command(
        [*python, str(FOLDER / "pyvft_driver.py"), str(file)], 300, **variables
    )
    verdicts = {"pyvft_driver: races": REPORTED, "pyvft_driver: none": NOTHING}
    return next(
        (verdict for words, verdict in verdicts.items() if words in output), f"error {status}"
    )


PEERS = {"threadcheck scan": threadcheck_scan, "threadcheck run": threadcheck_run, "pyvft": pyvft}
TOOLS = ("audit", *PEERS)


def examined(path, tools, folder, row):
    """Return *row* of the table with the verdict of each of the tools that has none there, and the
    seconds it took.
    """
    start = time.monotonic()
    row = {**row, "name": path.stem, "about": ast.get_docstring(ast.parse(path.read_text()))}
    with tempfile.TemporaryDirectory(prefix="races-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        for tool in tools:
            if tool not in row:
                row[tool] = (
                    PEERS[tool](path, folder, scratch) if tool in PEERS else audit(path, scratch)
                )
    return row, time.monotonic() - start


def all_examined(tasks, dask):
    """Yield (path, row, seconds) of each of the tasks, the arguments of `examined`: in turn, or on
    a Dask cluster.
    """
    if not dask:
        for task in tasks:
            yield task[0], *examined(*task)
        return
    try:
        from distributed import Client, as_completed

        client = Client(dask)
    except (ImportError, OSError, ValueError) as error:
        hint = (
            f": {sys.executable} -m pip install distributed"
            if isinstance(error, ImportError)
            else ""
        )
        raise SystemExit(f"--dask {dask}: {error}{hint}") from error
    with client:
        paths = {client.submit(examined, *task, pure=False): task[0] for task in tasks}
        for future, (row, seconds) in as_completed(paths, with_results=True):
            yield paths[future], row, seconds


def table(planted, rows, tools):
    """Return the table of the planted races, or of the sound datasets."""
    right = REPORTED if planted else NOTHING
    heads = [
        "file",
        "what goes wrong in threads" if planted else "why it is safe in threads",
        tools[0],
    ]
    heads += ["found" if planted else "right", *tools[1:]]
    lines = [f"| {' | '.join(heads)} |", f"|{'-|' * len(heads)}"]
    for row in rows:
        first = row[tools[0]]
        cells = [row["name"], row["about"], first, "yes" if first == right else "**no**"]
        lines.append(f"| {' | '.join([*cells, *(row[tool] for tool in tools[1:])])} |")
    return lines


def summary(planted, sound, tools):
    """Return the table of each tool's recall and false alarms."""
    lines = [
        "| | recall: planted races reported | false alarms: sound datasets reported |",
        "|-|-|-|",
    ]
    for tool in tools:
        shares = (
            wilson(sum(row[tool] == REPORTED for row in rows), len(rows))
            for rows in (planted, sound)
        )
        lines.append(f"| {tool} | {' | '.join(shares)} |")
    return [*lines, "", "In brackets: Wilson's 95% interval."]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone; without: all")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the tables to this file, as Markdown"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="a file of verdicts, read at first and added to"
    )
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="where threadcheck and pyvft are installed"
    )
    parser.add_argument(
        "--tool",
        action="append",
        choices=TOOLS,
        help="this alone, or these; without: all there are",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="audit on the workers of this Dask cluster"
    )
    arguments = parser.parse_args()
    folder = arguments.peers and arguments.peers.resolve()
    if folder and not all((folder / name).is_dir() for name in ("threadcheck", "pyvft")):
        parser.error(
            f"{folder} does not hold threadcheck and pyvft; --help says how to install them"
        )
    tools = [
        tool for tool in TOOLS if (folder or tool == "audit") and tool in (arguments.tool or TOOLS)
    ]
    if not tools:
        parser.error("of --tool TOOL all but audit need --peers")
    kept = (
        json.loads(arguments.keep.read_text()) if arguments.keep and arguments.keep.exists() else {}
    )
    names = {path: f"{path.parent.name}/{path.stem}" for path in files(arguments.names)}
    tasks = [(path, tools, folder, kept.get(name, {})) for path, name in names.items()]
    for number, (path, row, seconds) in enumerate(all_examined(tasks, arguments.dask), start=1):
        kept[names[path]] = row
        if arguments.keep:
            arguments.keep.write_text(json.dumps(kept, indent=1))
        says = ", ".join(f"{tool}: {row[tool]}" for tool in tools)
        print(
            f"{number}/{len(names)} {names[path]}: {says} ({seconds:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    rows = {"planted": [], "sound": []}
    for path, name in names.items():
        rows[path.parent.name].append(kept[name])
    lines = summary(rows["planted"], rows["sound"], tools)
    for kind, found in rows.items():
        if found:
            lines += ["", f"## {kind.capitalize()}", "", *table(kind == "planted", found, tools)]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
