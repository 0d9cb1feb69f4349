"""The pictures: waterfalls, and the ratios of scenarios without one."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from ftbench.report import series as arranged  # noqa: E402
from ftbench.report import waterfall, words  # noqa: E402
from ftbench.report.styles import COLOURS, SHOWN, TARGET, UNCERTAIN  # noqa: E402
from ftbench.stats.statistics import NO_DIFFERENCE, TOO_FEW  # noqa: E402

# How far the picture of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10


def png(document: dict, scenario: dict) -> bytes:
    """A scenario's ratios, with a title that says what was measured on what."""
    # A dollar sign in a text is that, not the beginning of a formula.
    with plt.rc_context({"text.parse_math": False}):
        height = max(4.0, 1.8 + len(words.pictured(scenario)) * 0.42)
        figure, axes = plt.subplots(figsize=(10, height), layout="constrained")
        ratios(axes, scenario)
        state = words.state(document)
        plain = sorted({e["interpreter"]["build"] for e in document["environment"]["twins"].values()})
        figure.suptitle(
            f"{scenario['name']}: {scenario['description']}"
            + (f"\n{scenario['note']}" if scenario["note"] else "")
            + (f"\n{state}" if state else "")
            + f"\n{words.machine(document).split(', Linux')[0]}; {', '.join(plain)}; "
            f"{words.rounds(scenario)}",
            fontsize=10,
            color="#B00020" if state else "black",
        )
        return _save(figure)


def waterfalls(document: dict) -> bytes:
    """Every waterfall, one below the other: a bar for each change, a dot for each process."""
    falls = document["waterfalls"]
    with plt.rc_context({"text.parse_math": False}):
        figure, axes = plt.subplots(
            len(falls), 1, figsize=(12, 0.8 + 3.2 * len(falls)), layout="constrained", squeeze=False
        )
        for each, fall in zip(axes[:, 0], falls, strict=True):
            _waterfall(each, document, fall)
        figure.suptitle(
            "What removing the GIL does to data loading\n" + words.machine(document).split(", Linux")[0], fontsize=11
        )
        return _save(figure)


def _waterfall(axes: Axes, document: dict, fall: dict) -> None:
    chain = waterfall.rows(document, fall)
    for place, row in enumerate(chain):
        low, high = sorted((row.before, row.value))
        axes.barh(place, high - low, 0.6, left=low, color=COLOURS[row.config])
        axes.plot(row.dots, [place] * len(row.dots), "o", color="#222222", markersize=2.5, alpha=0.6)
        text = f"{row.value:.0f}/s" if row.ratio is None else f"{row.throughput}: {row.value:.0f}/s"
        axes.annotate(text, (max(high, *row.dots), place), (6, 0), textcoords="offset points", va="center", fontsize=9)
        if place + 1 < len(chain):
            axes.plot([row.value] * 2, [place, place + 1], color="#999999", linewidth=0.8)
    axes.set_yticks(range(len(chain)), [row.name for row in chain])
    axes.set_ylim(len(chain) - 0.4, -0.6)
    axes.set_xlim(0, max(max(row.value, *row.dots) for row in chain) * 1.45)
    axes.set_xlabel("samples/s (dots: one process each; 95% confidence intervals in brackets)")
    axes.set_title(waterfall.title(document, fall), fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: plt.Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def _in_lines(title: str) -> str:
    """A comparison's title, broken where that is shortest."""
    return title.replace(" / ", " /\n") if len(title) > 45 else title.replace(", x", "\nx")


def ratios(axes: Axes, scenario: dict) -> None:
    """Each comparison's ratio with its confidence interval; targets as bars."""
    shown = words.pictured(scenario)
    metric = words.metric(scenario)
    axes.axvline(1, color="#333333", linewidth=1)
    for row, c in enumerate(shown):
        clear = c["verdict"] not in (NO_DIFFERENCE, TOO_FEW)
        if c["low"] is not None:
            axes.plot([c["low"], c["high"]], [row, row], color=SHOWN if clear else UNCERTAIN, linewidth=2)
        axes.plot(
            c["mean"],
            row,
            "o",
            color=SHOWN,
            markerfacecolor=SHOWN if clear else "white",
            markeredgecolor=SHOWN if clear else UNCERTAIN,
        )
        wanted = words.target(c)
        if wanted:
            axes.plot(c["target"]["value"], row, "|", color=TARGET, markersize=16, markeredgewidth=2)
        axes.annotate(
            words.short(scenario, c) + (f"; target {wanted}" if wanted else ""),
            (c["mean"], row),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(shown)), [_in_lines(words.title_with_case(scenario, c)) for c in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.5, -0.8)
    # Two rounds can give intervals over many powers of ten; these leave the picture, the ratios stay.
    means = [c["mean"] for c in shown] + [1.0]
    ends = means + [c[side] for c in shown for side in ("low", "high") if c[side] is not None]
    ends += [c["target"]["value"] for c in shown if c["target"]]
    least = max(min(ends), min(means) / WIDEST) * 0.7
    most = min(max(ends), max(means) * WIDEST) * 1.4
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    marks = arranged.ratio_marks(least, most)
    axes.set_xticks(marks, [f"{m:g}x" for m in marks])
    axes.minorticks_off()
    axes.set_xlabel(f"ratio of {metric.noun}, 95% CI (filled: a difference is shown)")
    axes.set_title(
        "Who is better, and is it certain?" if metric.name != "throughput" else "Who is faster, and is it certain?",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
