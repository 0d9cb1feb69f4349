"""Record README's terminals, docs/terminal-bench.svg and docs/terminal-repro.svg, from real runs.

The commands run in a pseudo-terminal, so that they print what a user sees. A recording has one part
of their output, without what a progress display has overwritten and without lines that name folders
of the machine.

    ./twins exec ft python evaluation/pictures/terminal.py
"""

import io
import os
import pty
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parents[2]
RUN = CHECKOUT / "docs/results/2026-11-28-quick-2-cpus"


@dataclass(frozen=True)
class Recording:
    """One picture: the command that runs, and the part of its output that is shown."""

    picture: str
    shown: str
    """The command as the picture shows it."""
    command: tuple[str, ...]
    title: str
    first: str
    """A regular expression for the first line shown."""
    last: str
    """A regular expression for the first line not shown any more."""
    columns: int


def output(command: tuple[str, ...], columns: int) -> str:
    """Return what *command* prints on a terminal of *columns* columns."""
    parent, child = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "60", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, stdin=child, stdout=child, stderr=child
    )
    os.close(child)
    parts = []
    # Linux reports the end of a pseudo-terminal as an error.
    try:
        while part := os.read(parent, 65536):
            parts.append(part)
    except OSError:
        pass
    os.close(parent)
    process.wait()
    return b"".join(parts).decode(errors="replace")


def lines(printed: str, recording: Recording) -> list[str]:
    """Return the lines of *printed* that the picture shows."""
    last_drawn = [line.rstrip("\r").rpartition("\r")[2] for line in printed.split("\n")]
    plain = [Text.from_ansi(line).plain for line in last_drawn]
    start = next(number for number, line in enumerate(plain) if re.search(recording.first, line))
    end = next(
        (n for n, line in enumerate(plain) if n > start and re.search(recording.last, line)),
        len(plain),
    )
    homes = (str(CHECKOUT), str(Path.home()), tempfile.gettempdir() + "/")
    return [last_drawn[n] for n in range(start, end) if not any(home in plain[n] for home in homes)]


def record(recording: Recording) -> None:
    """Run the command and write its picture."""
    console = Console(record=True, width=recording.columns, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), recording.shown))
    for line in lines(output(recording.command, recording.columns), recording):
        console.print(Text.from_ansi(line))
    svg = console.export_svg(
        title=recording.title, unique_id=recording.picture.removesuffix(".svg")
    )
    # No font is fetched from the network when somebody looks at the picture.
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    (CHECKOUT / "docs" / recording.picture).write_text(svg)


def main() -> None:
    """Record both terminals. The benchmark's is that of the kept run, printed again."""
    with tempfile.TemporaryDirectory() as directory:
        run = shutil.copytree(RUN, Path(directory) / "run")
        record(
            Recording(
                "terminal-bench.svg",
                "./twins bench report docs/results/2026-11-28-quick-2-cpus",
                ("./twins", "bench", "report", str(run)),
                "the end of the output of a kept run, 2 cores",
                first="^JPEG decoding",
                last="^The thread-safety suite",
                columns=122,
            )
        )
    record(
        Recording(
            "terminal-repro.svg",
            "./twins repro repro/counter_increment.py",
            ("./twins", "repro", "repro/counter_increment.py"),
            "the start of the report",
            first="^# Reproducer",
            last="^## ",
            columns=100,
        )
    )


if __name__ == "__main__":
    main()
