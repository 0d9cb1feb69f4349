"""Measure the recall and the false alarms of `./twins audit`, on the planted races and the sound datasets.

    python3 evaluation/races/measure.py [--out FILE] [--threadcheck DIR] [NAME...]

The command line audits the datasets one after the other. With --threadcheck, threadcheck gets each of them too, as a
script that loads the dataset in four threads: `threadcheck scan` reads it, `threadcheck run` executes it. To install
threadcheck into DIR:

    pip install --target DIR --no-deps --ignore-requires-python threadcheck==0.0.1.2
"""

import argparse
import ast
import json
import math
import os
import shutil
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
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return f"{hits} of {total}: {share:.0%} ({max(0, middle - half):.0%} to {min(1, middle + half):.0%})"


def command(arguments, seconds, **variables):
    """Run a command; return its exit status (124 after the time limit) and its output."""
    try:
        done = subprocess.run(
            arguments, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout + done.stderr


def audit(path, scratch):
    """Return the audit's verdict, by its exit status."""
    status, _ = command(["./twins", "audit", f"{path.relative_to(ROOT)}:dataset"], 900, TMPDIR=str(scratch))
    return {0: NOTHING, 1: REPORTED}.get(status, f"error {status}")


def threadcheck(path, folder, scratch):
    """Return threadcheck's verdicts on the dataset's lines: of reading them, and of running them in threads."""
    source = path.read_text()
    script = scratch / path.name
    script.write_text(f"{source}\n\n{DRIVER}")
    python = ["./twins", "exec", "ft", "python", "-m", "threadcheck"]
    status, output = command([*python, "scan", str(script), "--json", "--quiet"], 300, PYTHONPATH=str(folder))
    try:
        found = json.loads(output[output.index("[") :])
        own = [warning for warning in found if warning["line"] <= source.count("\n") and warning["severity"] != "info"]
        scan = REPORTED if own else NOTHING
    except ValueError:
        scan = f"error {status}"
    status, output = command([*python, "run", str(script)], 300, PYTHONPATH=str(folder), TMPDIR=str(scratch))
    if status == 0:
        return scan, NOTHING
    return scan, REPORTED if "Data races detected" in output else f"error {status}"


def examine(path, folder, scratch):
    """Return a row of the table: each tool's verdict."""
    row = {"name": path.stem, "about": ast.get_docstring(ast.parse(path.read_text())), "audit": audit(path, scratch)}
    if folder:
        row["threadcheck scan"], row["threadcheck run"] = threadcheck(path, folder, scratch)
    return row


def table(planted, rows, tools):
    """Return the table of the planted races, or of the sound datasets."""
    right = REPORTED if planted else NOTHING
    heads = ["file", "what goes wrong in threads" if planted else "why it is safe in threads"]
    heads += ["audit", "found" if planted else "right", *tools[1:]]
    lines = [f"| {' | '.join(heads)} |", f"|{'-|' * len(heads)}"]
    for row in rows:
        cells = [row["name"], row["about"], row["audit"], "yes" if row["audit"] == right else "**no**"]
        lines.append(f"| {' | '.join([*cells, *(row[tool] for tool in tools[1:])])} |")
    return lines


def summary(planted, sound, tools):
    """Return the table of each tool's recall and false alarms."""
    lines = ["| | recall: planted races reported | false alarms: sound datasets reported |", "|-|-|-|"]
    for tool in tools:
        shares = (wilson(sum(row[tool] == REPORTED for row in rows), len(rows)) for rows in (planted, sound))
        lines.append(f"| {tool} | {' | '.join(shares)} |")
    return [*lines, "", "In brackets: Wilson's 95% interval."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="these alone; without: all")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the tables to this file, as Markdown")
    parser.add_argument("--threadcheck", type=Path, metavar="DIR", help="where threadcheck is installed")
    arguments = parser.parse_args()
    tools = ["audit", *(["threadcheck scan", "threadcheck run"] if arguments.threadcheck else [])]
    folder = arguments.threadcheck and arguments.threadcheck.resolve()
    if folder and not (folder / "threadcheck").is_dir():
        parser.error(f"{folder} does not hold threadcheck; --help says how to install it")
    scratch = Path(tempfile.mkdtemp(prefix="races-"))
    rows = {"planted": [], "sound": []}
    try:
        for number, path in enumerate(chosen := files(arguments.names), start=1):
            start = time.monotonic()
            row = examine(path, folder, scratch)
            rows[path.parent.name].append(row)
            says = ", ".join(f"{tool}: {row[tool]}" for tool in tools)
            name = f"{path.parent.name}/{path.stem}"
            took = f"({time.monotonic() - start:.0f} s)"
            print(f"{number}/{len(chosen)} {name}: {says} {took}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
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
