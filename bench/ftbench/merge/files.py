"""Writes the files of a merged report, and prints its sentences on the terminal."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

from ftbench.document.convert import as_json
from ftbench.document.store import ResultsError, WrongPath, write_atomically
from ftbench.merge import collect, pictures, words
from ftbench.merge.model import Merged
from ftbench.report import page, run_words, terminal
from ftbench.report.render import render
from ftbench.report.style import PALETTE
from ftrun import escape, host

PAGE = "index.html"


def check(out: Path) -> None:
    """Raise WrongPath if *out* is a file, or a run's directory, where the merge would replace the run's summary.md."""
    if (out / collect.RESULTS).exists():
        raise WrongPath(f"--out {host.path(str(out))} is the directory of a run: name another one")
    if out.exists() and not out.is_dir():
        raise WrongPath(f"--out {host.path(str(out))} is not a directory")


def files(merged: Merged) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of each file of a merge: merged.json, summary.md, index.html."""
    document = json.dumps(as_json(merged), indent=1, allow_nan=False).encode() + b"\n"
    yield collect.MERGED, document
    context = {"merged": merged, "words": words, "pictures": pictures, "palette": PALETTE}
    modules = [run_words]
    yield "summary.md", (render("merged.md.jinja", escape.markdown, modules, **context).rstrip() + "\n").encode()
    download = f"data:application/json;base64,{base64.b64encode(document).decode()}"
    shown = {"svg": page.svg, "download": download}
    yield PAGE, render("merged.html.jinja", escape.terminal, modules, **context, **shown).encode()


def write(merged: Merged, out: Path) -> Path:
    """Write the files of a merge to the directory *out*, and return the page's path; raises ResultsError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files(merged):
            write_atomically(out / name, content)
    except OSError as error:
        where = host.path(str(out))
        raise ResultsError(
            f"cannot write to {where}: {error.strerror or error}. Name another directory with --out DIR"
        ) from error
    return out / PAGE


def show(merged: Merged, written: Path | None) -> None:
    """Print each group's answer and tables, then the runs left out, notes, and the page's path (*written*)."""
    with terminal.printed() as console:
        for group in merged.main:
            terminal.say(console, [words.answer(group)], "bold")
            terminal.say(console, [*words.heterogeneity(group), words.hours(group)])
            terminal.say(console, [words.outlier(group, one) for one in group.outliers], "bold red")
            console.print()
            terminal.table(console, f"{group.workload}: kinds of machine", words.kinds(group), chain=True)
            terminal.say(console, words.ordinary(group))
            console.print()
            terminal.table(console, f"{group.workload}: each change", words.waterfalls(group), chain=True)
            console.print()
        terminal.say(console, [words.set_apart(group) for group in merged.apart], "yellow")
        terminal.say(console, [f"left out: {each.what}: {each.why}" for each in merged.left_out], "yellow")
        terminal.say(console, [f"note: {note}" for note in merged.notes])
        if merged.groups:
            page_is = host.path(str(written)) if written else "--out DIR writes it, with merged.json and summary.md"
            console.print(f"merged: {words.title(merged)}\npage: {escape.one_line(page_is)}", soft_wrap=True)
        else:
            console.print("Nothing could be merged.")
