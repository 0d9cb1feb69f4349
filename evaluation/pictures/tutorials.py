"""Draw the pictures of the tutorials, docs/tutorials/*.svg, from kept runs of their programs.

A tutorial's page has its command in a block of ``sh``. What the commands printed is kept in
docs/tutorials/runs.json. With ``--run``, the commands run again first, those of the named pages or
of all.

    python3 evaluation/pictures/tutorials.py [--run [PAGE ...]]
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = CHECKOUT / "docs/tutorials"
RUNS = PAGES / "runs.json"
PICTURES = PAGES
BUSY = 0.1
"""Share of the CPUs used by others from which a picture says that the machine was busy."""

# 400 pixels are about a phone's width, so that the words keep their size there.
WIDTH, MARGIN, ROW, BAR = 400, 14, 26, 18
"""Pixels: width of a picture, its margin, distance of rows, height of a bar."""
VALUES = 82
"""Pixels for the words on the right of the bars."""
COLUMNS, LINE = 56, 16
"""Characters in a line of a terminal, and its height in pixels."""

# The picture brings its own background, because it cannot know the page's.
# Colours are those of the report's charts.
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1c1e21; font: 14px Helvetica, Arial, sans-serif }
  .head { font-weight: bold }
  .soft { fill: #5a6068; font-size: 12px }
  .green { fill: #009e73 } .orange { fill: #e69f00 } .grey { fill: #cdd3da }
  .terminal text { font: 11px monospace; white-space: pre }
  @media (prefers-color-scheme: dark) {
    .card { fill: #16181b; stroke: #30343a }
    text { fill: #e6e7e9 }
    .soft { fill: #a9b0ba }
    .grey { fill: #454c55 }
  }
"""


@dataclass(frozen=True)
class Row:
    """A row of a chart: words on both sides, and bars from a start to an end, each of a colour."""

    label: str
    bars: Sequence[tuple[float, float, str]]
    value: str


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return an SVG text element at (x, y), with the style class *kind*."""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(content)}</text>'


def card(title: str, parts: Iterable[str], height: float, machine: str, kind: str = "") -> str:
    """Return the SVG of a picture with these *parts*, *height* pixels high,
    above the line about the machine.
    """
    lines = textwrap.wrap(machine, 62)
    below = height + 16 * len(lines) + 8
    return "\n".join(
        (
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {below:g}" '
                f'width="{WIDTH}" role="img">'
            ),
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{below - 1:g}" rx="8"/>',
            text(MARGIN, 26, title, "head"),
            f'<g class="{kind}">' if kind else "<g>",
            *parts,
            "</g>",
            *(text(MARGIN, height + 8 + 16 * n, line, "soft") for n, line in enumerate(lines)),
            "</svg>\n",
        )
    )


def chart(
    title: str, rows: Sequence[Row], labels: int, legend: Sequence[tuple[str, str]], machine: str
) -> str:
    """Return the SVG of a chart of bars.

    Args:
        labels: pixels for the words on the left.
        legend: pairs of a colour and what it means.
    """
    left = MARGIN + labels
    scale = (WIDTH - left - VALUES) / max(end for row in rows for _, end, _ in row.bars)
    parts = []
    for number, row in enumerate(rows):
        y = 40 + ROW * number
        parts.append(text(MARGIN, y + 14, row.label))
        parts += [
            (
                f'<rect class="{colour}" x="{left + begin * scale:.1f}" y="{y}" '
                f'width="{(end - begin) * scale:.1f}" height="{BAR}"/>'
            )
            for begin, end, colour in row.bars
        ]
        parts.append(text(left + row.bars[-1][1] * scale + 6, y + 14, row.value))
    y = 40 + ROW * len(rows) + 8
    for colour, meaning in legend:
        parts.append(f'<rect class="{colour}" x="{MARGIN}" y="{y}" width="12" height="12"/>')
        parts.append(text(MARGIN + 18, y + 11, meaning, "soft"))
        y += 18
    return card(title, parts, y + 6, machine)


def how_many_workers(printed: str, machine: str) -> str:
    """Return the chart of samples per second for each number of workers."""
    rates = re.findall(r"^num_workers=(\S+): (\d+) samples/s", printed, re.M)
    rows = [
        Row(number.strip('"'), [(0, int(rate), "green")], f"{int(rate):,}/s")
        for number, rate in rates
    ]
    return chart("Samples per second by num_workers", rows, 44, (), machine)


def does_not_fit(printed: str, machine: str) -> str:
    """Return the chart of samples in each epoch, and of those seen by then."""
    epochs = re.findall(r"^epoch (\d+): (\d+) samples, .*; (\d+) seen by now$", printed, re.M)
    rows = [
        Row(f"epoch {epoch}", [(0, int(size), "green"), (int(size), int(seen), "grey")], seen)
        for epoch, size, seen in epochs
    ]
    legend = (
        ("green", "samples of this epoch"),
        ("grey", "seen in earlier epochs only; the number is the sum"),
    )
    return chart("A source of 400 MB, a local disk of 200 MB", rows, 66, legend, machine)


def threads_or_processes(printed: str, machine: str) -> str:
    """Return the chart of images per second, relative to processes in the same Python:
    the two programs ran one after the other, maybe under another load.
    """
    rates = re.findall(r'^worker_method="(\w+)": (\d+) images/s$', printed, re.M)
    (_, free_threads), (_, free_processes), (_, gil_threads), (_, gil_processes) = rates
    rows = []
    for gil, threads, processes in (
        ("no GIL", int(free_threads), int(free_processes)),
        ("GIL", int(gil_threads), int(gil_processes)),
    ):
        ratio = threads / processes
        rows.append(Row(f"threads, {gil}", [(0, ratio, "green")], f"× {ratio:.2f}"))
        rows.append(Row(f"processes, {gil}", [(0, 1, "orange")], "1"))
    return chart("JPEGs per second, relative to processes", rows, 142, (), machine)


def gpu_waits(printed: str, machine: str) -> str:
    """Return the chart of the time that a loop waited and trained, by the number of threads."""
    runs = re.findall(r" in ([\d.]+) s .* by (\d+) threads; .* for data (\d+)%", printed)
    rows = []
    for seconds, threads, percent in runs:
        total, waited = float(seconds), float(seconds) * int(percent) / 100
        bars = [(0, total - waited, "green"), (total - waited, total, "orange")]
        rows.append(Row(f"{threads} threads", bars, f"waits {percent}%"))
    legend = (("green", "training step"), ("orange", "waiting for data"))
    return chart("Where the loop's time goes", rows, 76, legend, machine)


def job_killed(printed: str, machine: str) -> str:
    """Return the chart of the samples trained before the kill and after it."""
    (killed,) = map(int, re.findall(r"^killed after .*, (\d+) samples$", printed, re.M))
    (saved,) = map(int, re.findall(r"model has seen (\d+) samples$", printed, re.M))
    (complete,) = map(int, re.findall(r"^the epoch is complete: (\d+) samples", printed, re.M))
    rows = [
        Row("1st run", [(0, saved, "green"), (saved, killed, "orange")], f"killed at {killed}"),
        Row("2nd run", [(0, saved, "grey"), (saved, complete, "green")], "complete"),
    ]
    legend = (
        ("green", "trained once, and kept"),
        ("orange", "after the last checkpoint: lost, and trained again"),
        ("grey", f"not loaded again: the checkpoint has these {saved}"),
    )
    return chart(f"One epoch of {complete} samples, killed and resumed", rows, 62, legend, machine)


def ready_for_no_gil(printed: str, machine: str) -> str:
    """Return a terminal with what matters of the audit's first finding, and both verdicts."""
    finding = re.search(r"^1\. PROBLEM.*?(?=^\S)", printed[printed.index("1. P") :], re.M | re.S)
    broken, mended = re.findall(r"^verdict: .*", printed, re.M)
    fields = re.findall(r"^   (where|remedy) +(.*?)(?=^   \w|\Z)", finding[0], re.M | re.S)
    shown = [finding[0].splitlines()[0], *(f"{name}: {words}" for name, words in fields)]
    y, parts = 48, []
    for paragraph in (*shown, broken, "", "The same dataset, mended:", mended):
        indent = "  " if paragraph in shown[1:] else ""
        lines = textwrap.wrap(
            re.sub(r"\s+", " ", paragraph), COLUMNS, initial_indent=indent, subsequent_indent="    "
        )
        for line in lines or [""]:
            parts.append(text(MARGIN, y, line))
            y += LINE
    return card(
        "The audit of a dataset whose threads share a file", parts, y + 4, machine, "terminal"
    )


DRAWN: dict[str, Callable[[str, str], str]] = {
    "how-many-workers": how_many_workers,
    "does-not-fit": does_not_fit,
    "threads-or-processes": threads_or_processes,
    "gpu-waits": gpu_waits,
    "job-killed": job_killed,
    "ready-for-no-gil": ready_for_no_gil,
}
"""{page, and its picture: function of what its command printed, and of words about the machine}"""


def command(page: str) -> str:
    """Return the command of a tutorial, the first block of ``sh`` on its page."""
    return re.search(r"^```sh\n(.*?)^```$", (PAGES / f"{page}.md").read_text(), re.M | re.S)[1]


def used_by_others(seconds: float = 2) -> float:
    """Return the share of the CPUs that is used while this program sleeps."""

    def times() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]

    before = times()
    time.sleep(seconds)
    passed = [after - earlier for after, earlier in zip(times(), before, strict=True)]
    # proc(5): the fourth is idle, the fifth waits for a disk.
    return 1 - (passed[3] + passed[4]) / sum(passed)


def machine() -> str:
    """Return words about this machine and day."""
    facts = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", facts, re.M)[1]
    kind = "virtual machine" if re.search(r"^flags.* hypervisor", facts, re.M) else "machine"
    day = datetime.date.today()
    return f"{name}, {kind} with {os.cpu_count()} CPUs, {day.day} {day:%B %Y}"


def run(page: str) -> dict:
    """Run a tutorial's command, and return what is kept of the run."""
    busy = used_by_others()
    done = subprocess.run(
        ["bash", "-ec", command(page)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True
    )
    busy = max(busy, used_by_others())
    printed = done.stdout.replace(f"{CHECKOUT}/", "").replace(f"{tempfile.gettempdir()}/", "")
    return {
        "command": command(page),
        "machine": machine(),
        "used_by_others": round(busy, 2),
        "printed": printed.splitlines(),
    }


def about(kept: dict) -> str:
    """Return a picture's line about the machine."""
    busy = ", which other programs used, too" if kept["used_by_others"] >= BUSY else ""
    return kept["machine"] + busy


def main() -> None:
    """Draw all pictures; with ``--run``, run the commands first."""
    runs = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    if sys.argv[1:2] == ["--run"]:
        for page in sys.argv[2:] or DRAWN:
            runs[page] = run(page)
        RUNS.write_text(json.dumps(runs, indent=1) + "\n")
    for page, draw in DRAWN.items():
        picture = draw("\n".join(runs[page]["printed"]), about(runs[page]))
        (PICTURES / f"{page}.svg").write_text(picture)


if __name__ == "__main__":
    main()
