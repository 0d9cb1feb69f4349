"""Draw README's first picture, docs/throughput.svg: this loader against torch's, as JPEGs decoded per second.

The figures are those of a kept run of ``./twins bench``, its waterfall of JPEG decoding: torch's DataLoader with
processes and the GIL, and this loader with threads and without the GIL.

    python3 evaluation/pictures/throughput.py
"""

import json
from pathlib import Path
from xml.sax.saxutils import escape

CHECKOUT = Path(__file__).resolve().parents[2]
RUN = CHECKOUT / "docs/results/2026-11-28-quick-2-cpus/results.json"
PICTURE = CHECKOUT / "docs/throughput.svg"

WIDTH, HEIGHT = 760, 190
LEFT, LONGEST, BAR = 24, 470, 34
"""Pixels: left edge of the bars, length of the longer bar, height of each."""

# The picture brings its own background, because it cannot know the page's. Colours are those of the report's charts.
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
    """Return a labelled bar whose length is *rate*, in samples per second, relative to *fastest*."""
    length = LONGEST * rate / fastest
    return (
        text(LEFT, y - 8, label)
        + f'<rect x="{LEFT}" y="{y:g}" width="{length:.1f}" height="{BAR}" rx="3" fill="{colour}"/>'
        + text(LEFT + length + 10, y + 22, f"{rate:,.0f}/s")
    )


def picture(waterfall: dict) -> str:
    """Return the SVG of the two ends of a waterfall of results.json."""
    total, fastest = waterfall["total"], waterfall["end"]
    torch = waterfall["start"]["value"]
    workers = waterfall["workers"]
    summary = f"{torch:,.0f} against {fastest:,.0f} JPEGs per second, {total['ratio']:.2f} times as many"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">',
            f"<title>{summary}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
            bar(40, f"torch DataLoader, {workers} worker processes", torch, fastest, TORCH),
            bar(112, f"ftloader, {workers} worker threads, no GIL", fastest, fastest, OURS),
            text(LEFT, 172, "JPEGs decoded per second", "soft"),
            text(610, 126, f"× {total['ratio']:.2f}", "number"),
            text(610, 150, f"{total['low']:.2f} to {total['high']:.2f}", "soft"),
            "</svg>\n",
        )
    )


def main() -> None:
    """Draw the picture from the kept run."""
    waterfalls = json.loads(RUN.read_text())["waterfalls"]
    PICTURE.write_text(picture(next(fall for fall in waterfalls if fall["workload"] == "pillow")))


if __name__ == "__main__":
    main()
