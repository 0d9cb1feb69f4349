"""Draw README's first picture, docs/throughput.svg: this loader against torch's,
as JPEGs decoded per second.

The figures are those of kept runs of ``./twins bench`` at different hours on one machine, their
waterfalls of JPEG decoding: torch's DataLoader with processes and the GIL, and this loader with
threads and without the GIL. The spread is that of the runs, from the lowest ratio to the highest.

    python3 evaluation/pictures/throughput.py
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from xml.sax.saxutils import escape

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = CHECKOUT / "docs/results/2026-11-29-hours"
PICTURE = CHECKOUT / "docs/throughput.svg"

WIDTH, HEIGHT = 760, 190
LEFT, LONGEST, BAR = 24, 470, 34
"""Pixels: left edge of the bars, length of the longer bar, height of each."""

# The picture brings its own background, because it cannot know the page's.
# Colours are those of the report's charts.
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1c1e21; font: 15px Helvetica, Arial, sans-serif }
  .number { font-size: 34px; font-weight: bold }
  .soft { fill: #5a6068; font-size: 13px }
  @media (prefers-color-scheme: dark) {
    .card { fill: #16181b; stroke: #30343a }
    text { fill: #e6e7e9 }
    .soft { fill: #a9b0ba }
  }
"""
TORCH, OURS = "#e69f00", "#009e73"


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return an SVG text element at (x, y), with the style class *kind*."""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(content)}</text>'


def bar(y: float, label: str, rate: float, fastest: float, colour: str) -> str:
    """Return a labelled bar whose length is *rate*,
    in samples per second, relative to *fastest*.
    """
    length = LONGEST * rate / fastest
    return (
        text(LEFT, y - 8, label)
        + f'<rect x="{LEFT}" y="{y:g}" width="{length:.1f}" height="{BAR}" rx="3" fill="{colour}"/>'
        + text(LEFT + length + 10, y + 22, f"{rate:,.0f}/s")
    )


def picture(waterfalls: Sequence[dict]) -> str:
    """Return the SVG of the two ends of a waterfall, as several runs measured it (results.json)."""
    ratios = [fall["total"]["ratio"] for fall in waterfalls]
    torch = geometric_mean(fall["start"]["value"] for fall in waterfalls)
    fastest = geometric_mean(fall["end"] for fall in waterfalls)
    workers = waterfalls[0]["workers"]
    summary = (
        f"{torch:,.0f} against {fastest:,.0f} JPEGs per second, {fastest / torch:.2f} times as many"
    )
    return "\n".join(
        (
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                f'width="{WIDTH}" role="img">'
            ),
            f"<title>{summary}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" '
            f'rx="8"/>',
            bar(40, f"torch DataLoader, {workers} worker processes", torch, fastest, TORCH),
            bar(112, f"ftloader, {workers} worker threads, no GIL", fastest, fastest, OURS),
            text(LEFT, 172, "JPEGs decoded per second", "soft"),
            text(610, 126, f"× {fastest / torch:.2f}", "number"),
            text(610, 150, f"{len(ratios)} runs: {min(ratios):.2f} to {max(ratios):.2f}", "soft"),
            "</svg>\n",
        )
    )


def main() -> None:
    """Draw the picture from the kept runs."""
    runs = [json.loads(path.read_text()) for path in sorted(RUNS.glob("*/results.json"))]
    falls = [fall for run in runs for fall in run["waterfalls"] if fall["workload"] == "pillow"]
    PICTURE.write_text(picture(falls))


if __name__ == "__main__":
    main()
