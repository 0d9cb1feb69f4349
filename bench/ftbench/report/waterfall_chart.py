"""A waterfall as a chart of the page."""

from __future__ import annotations

from ftbench.report import waterfall, words
from ftbench.report.canvas import BACK, SMALL, TEXT, Rows, safe
from ftbench.report.canvas import figure as empty_figure
from ftbench.report.chart import Chart
from ftbench.report.styles import COLOURS


def chart(document: dict, fall: dict) -> Chart:
    """The chain as bars from where each step begins to where it ends, with a dot for each process."""
    chain = waterfall.rows(document, fall)
    layout, places = Rows(), []
    for row in chain:
        places.append((layout.row(row.name), row))
    figure = empty_figure(layout.height + 64, [])
    for y, row in places:
        # A bar of a step that changes nothing is still to be seen.
        least = max(r.value for r in chain) * 0.003
        figure.add_bar(
            x=[max(abs(row.value - row.before), least)],
            base=[min(row.before, row.value)],
            y=[y],
            orientation="h",
            width=16,
            marker={"color": COLOURS[row.config], "opacity": 0.75},
            hovertemplate=f"{safe(row.name)}<br>{safe(row.throughput or 'start')}<extra></extra>",
            showlegend=False,
        )
        figure.add_scatter(
            x=row.dots,
            y=[y] * len(row.dots),
            mode="markers",
            marker={"color": TEXT, "size": 4, "opacity": 0.5},
            hovertemplate="one process: %{x:.0f} samples/s<extra></extra>",
            showlegend=False,
        )
        text = f"{row.value:.0f}/s" if row.ratio is None else f"x {row.ratio:.2f}  {row.value:.0f}/s"
        figure.add_annotation(
            x=1, xref="paper", xanchor="right", y=y, yanchor="middle", text=safe(text), showarrow=False,
            font={"size": SMALL}, bgcolor=BACK, opacity=0.9,
        )  # fmt: skip
    most = max(value for row in chain for value in (row.value, *row.dots))
    figure.update_xaxes(range=[0, most * 1.3], title={"text": "samples/s"})
    figure.update_layout(bargap=0)
    layout.write(figure)
    return Chart(
        f"waterfall-{words.slug(fall['workload'])}",
        waterfall.title(document, fall),
        "Each bar is one change, from what was before it to what came after. Dots: one process each. "
        + waterfall.missing(fall),
        f"Waterfall of {fall['workload']}: "
        + "; ".join(f"{r.name} {r.throughput or f'{r.value:.0f}/s'}" for r in chain),
        figure,
        waterfall.table(document, fall),
    )
