"""The pictures: what was measured by contestant, and the ratios."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.ticker import NullLocator  # noqa: E402

from ftbench.plan.metrics import Metric  # noqa: E402
from ftbench.report import series as arranged  # noqa: E402
from ftbench.report import waterfall, words  # noqa: E402
from ftbench.report.styles import COLOURS, SHOWN, TARGET, UNCERTAIN, style  # noqa: E402
from ftbench.stats.statistics import NO_DIFFERENCE, TOO_FEW  # noqa: E402

# How far the picture of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10
# More bars than this make a picture that no screen holds.
MOST_BARS = 30
# More curves than this are not told apart; those of the most workers are then shown.
MOST_CURVES = 8


def png(document: dict, scenario: dict) -> bytes:
    """Both pictures side by side, with a title that says what was measured on what."""
    # A dollar sign in a text is that, not the beginning of a formula.
    with plt.rc_context({"text.parse_math": False}):
        return _png(document, scenario)


def _png(document: dict, scenario: dict) -> bytes:
    rows = max(len(words.pictured(scenario)), 0 if arranged.on_an_axis(scenario) else len(_shown(scenario)) * 0.8)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(14, max(6.5, 1.5 + rows * 0.42)), layout="constrained", width_ratios=(5, 6)
    )
    measured(left, scenario)
    ratios(right, scenario)
    state = words.state(document)
    plain = sorted({e["interpreter"]["build"] for e in document["environment"]["twins"].values()})
    figure.suptitle(
        f"{scenario['name']}: {scenario['description']}"
        + (f"\n{scenario['note']}" if scenario["note"] else "")
        + (f"\n{state}" if state else "")
        + f"\n{words.machine(document).split(', Linux')[0]}; {', '.join(plain)}; "
        f"{words.rounds(scenario)}",
        fontsize=11,
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


def measured(axes: Axes, scenario: dict) -> None:
    """The scenario's metric by case or contestant; medians, with lines from the lowest round to the highest."""
    metric = words.metric(scenario)
    (_by_case if arranged.on_an_axis(scenario) else _bars)(axes, scenario, metric)
    axes.spines[["top", "right"]].set_visible(False)


def _by_case(axes: Axes, scenario: dict, metric: Metric) -> None:
    """A curve over the values of the cases for each series and number of workers."""
    value = arranged.places(scenario)
    curves: dict[tuple, list[arranged.Measured]] = {}
    found = arranged.measured(scenario, metric.name)
    counts = sorted({m.workers for m in found})
    for m in found:
        curves.setdefault((m.config, m.variant, m.workers), []).append(m)
    shown = curves if len(curves) <= MOST_CURVES else {key: own for key, own in curves.items() if key[2] == counts[-1]}
    for (config, variant, workers), own in shown.items():
        own.sort(key=lambda m: value[m.case])
        look = style(variant)
        middle = [m.median for m in own]
        axes.errorbar(
            [value[m.case] for m in own],
            middle,
            [[m.median - m.low for m in own], [m.high - m.median for m in own]],
            color=COLOURS[config],
            linestyle=look.line,
            marker=look.marker,
            markersize=6,
            capsize=3,
            markerfacecolor=COLOURS[config] if counts.index(workers) % 2 == 0 else "white",
            label=words.label(config, variant) + (f", x{workers}" if len(counts) > 1 else ""),
        )
    title, places, texts, wide = arranged.axis_of_cases(scenario)
    if wide:
        axes.set_xscale("log")
    axes.set_xticks(places, texts)
    axes.minorticks_off()
    if arranged.logarithmic([m.median for m in found]):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_yticks(*arranged.log_marks(low, high, metric.unit))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(title)
    axes.set_ylabel(f"{metric.unit} (median; lines: min to max)")
    left_out = "" if shown is curves else f"; with {counts[-1]} workers, the page has the others"
    axes.set_title(f"{metric.title}: {metric.best} is better{left_out}", fontsize=11)
    axes.legend(fontsize=8, loc="best", frameon=False)


def _shown(scenario: dict) -> list[arranged.Measured]:
    """Whom bars are drawn of: all, or of too many for a picture those with the most workers."""
    found = arranged.measured(scenario, scenario["metrics"][0])
    most = max(m.workers for m in found)
    return found if len(found) <= MOST_BARS else [m for m in found if m.workers == most]


def _bars(axes: Axes, scenario: dict, metric: Metric) -> None:
    """A lying bar for each contestant, with its name beside it."""
    shown = _shown(scenario)
    for row, m in enumerate(shown):
        axes.barh(
            row,
            m.median,
            0.8,
            xerr=[[m.median - m.low], [m.high - m.median]],
            color=COLOURS[m.config],
            hatch=style(m.variant).hatch,
            edgecolor="white",
            ecolor="#333333",
            capsize=3,
        )
        box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
        axes.annotate(
            metric.write(m.median), (0, row), (4, 0), textcoords="offset points", va="center", fontsize=8, bbox=box
        )
    axes.set_yticks(range(len(shown)), [m.title + (f", {m.case}" if m.case else "") for m in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel(f"{metric.unit} (median; lines: min to max)")
    some = len(shown) < len(scenario["analysis"]["contestants"])
    left_out = f" (with {shown[0].workers} workers; the page has all)" if some else ""
    axes.set_title(f"{metric.title}: {metric.best} is better{left_out}", fontsize=11)


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
