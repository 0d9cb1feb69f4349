"""The pictures: what was measured by contestant, and the ratios with the noise floor."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from bench.contestants import CONFIG_TITLES, CONFIGS, plural  # noqa: E402
from bench.metrics import Metric  # noqa: E402
from bench.report import words  # noqa: E402
from bench.statistics import NO_DIFFERENCE, TOO_FEW  # noqa: E402
from bench.variants import VARIANTS  # noqa: E402

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; the hatching
# tells threads from processes, and one loader from another, without colour.
COLOURS = {"gil": "#E69F00", "ft-gil": "#56B4E9", "ft": "#009E73"}
HATCHES = {"loader-thread": "", "loader-process": "///", "loader-decode": "**", "torch-process": "xxx",
           "nodes-thread": "...", "spdl": "\\\\\\", "spdl-samples": "++", "loop": "oo"}
# More bars than this leave no room for figures that lie flat.
FLAT_LABELS = 14
# More contestants of one number of workers than this are told apart by names, not by a legend.
MOST_BY_WORKERS = 6
# How far the picture of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10


def png(document: dict, scenario: dict) -> bytes:
    """Both pictures side by side, with a title that says what was measured on what."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6.5), layout="constrained", width_ratios=(5, 6))
    measured(left, scenario)
    ratios(right, scenario)
    state = words.state(document)
    plain = sorted({e["interpreter"]["build"] for e in document["environment"]["twins"].values()})
    figure.suptitle(
        f"{scenario['name']}: {scenario['description']}"
        + (f"\n{state}" if state else "")
        + f"\n{words.machine(document).split(', Linux')[0]}; {', '.join(plain)}; "
          f"{words.rounds(scenario)}", fontsize=11,
        color="#B00020" if state else "black")
    return _save(figure, "png")


def svg(scenario: dict, draw) -> bytes:
    """One picture (`measured` or `ratios`) for the page, text as paths."""
    figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    draw(axes, scenario)
    return _save(figure, "svg")


def _save(figure: plt.Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)
    return buffer.getvalue()


def measured(axes: Axes, scenario: dict) -> None:
    """Bars of the scenario's metric by number of workers; medians, with lines from the lowest round to the highest."""
    metric = words.metric(scenario)
    found = {c["key"]: c["metrics"][metric.name] for c in scenario["analysis"]["contestants"]}
    real = [c for c in scenario["contestants"] if not c["duplicate"]]
    counts = sorted({c["workers"] for c in real})
    series = [(config, variant) for config in CONFIGS for variant in VARIANTS
              if any(f"{config}/{variant}/{n}" in found for n in counts)]
    axes.set_title(f"{metric.title}: {metric.best} is better", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    draw = _by_workers if len(series) <= MOST_BY_WORKERS else _one_below_the_other
    draw(axes, metric, found, series, counts)


def _bars(found: dict, series: tuple[str, str], counts: list[int]) -> tuple[list[int], list[float], list[list[float]]]:
    """(places in `counts`, medians, how far they reach down and up) of what was measured of a series."""
    config, variant = series
    bars = [(at, found[key]) for at, n in enumerate(counts) if (key := f"{config}/{variant}/{n}") in found]
    return ([at for at, _ in bars], [value["median"] for _, value in bars],
            [[value["median"] - value["min"] for _, value in bars],
             [value["max"] - value["median"] for _, value in bars]])


def _style(series: tuple[str, str]) -> dict:
    config, variant = series
    return {"color": COLOURS[config], "hatch": HATCHES[variant], "edgecolor": "white", "ecolor": "#333333",
            "capsize": 3, "label": f"{CONFIG_TITLES[config]}: {plural(variant)}"}


BOX = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}


def _by_workers(axes: Axes, metric: Metric, found: dict, series: list[tuple[str, str]], counts: list[int]) -> None:
    """A group of upright bars for each number of workers."""
    width = 0.84 / len(series)
    for index, each in enumerate(series):
        at, middle, reach = _bars(found, each, counts)
        places = [place + (index - (len(series) - 1) / 2) * width for place in at]
        axes.bar(places, middle, width * 0.94, yerr=reach, **_style(each))
        for place, value in zip(places, middle, strict=True):
            axes.annotate(metric.write(value), (place, 0), (0, 3), textcoords="offset points", ha="center",
                          rotation=0 if len(series) * len(counts) <= FLAT_LABELS else 90, fontsize=8, bbox=BOX)
    axes.set_xticks(range(len(counts)), [f"{n} worker{'s' if n != 1 else ''}" for n in counts])
    axes.set_ylabel(f"{metric.unit} (median; lines: min to max)")
    axes.set_ylim(0, max(v["max"] for v in found.values()) * 1.32)
    axes.legend(fontsize=8, loc="upper left", ncols=2, frameon=False)


def _one_below_the_other(axes: Axes, metric: Metric, found: dict, series: list[tuple[str, str]],
                         counts: list[int]) -> None:
    """A lying bar for each contestant, with its name beside it: for more than a legend can tell apart."""
    names = []
    for each in series:
        for at, value, low, high in zip(*(lambda b: (b[0], b[1], *b[2]))(_bars(found, each, counts)), strict=True):
            row = len(names)
            names.append(f"{each[0]} {plural(each[1])}\nx{counts[at]}")
            axes.barh(row, value, 0.8, xerr=[[low], [high]], **_style(each))
            axes.annotate(metric.write(value), (0, row), (4, 0), textcoords="offset points", va="center",
                          fontsize=8, bbox=BOX)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"{metric.unit} (median; lines: min to max)")


def _in_lines(title: str) -> str:
    """A comparison's title without its remark, broken where that is shortest."""
    title = title.split(":")[0]
    return title.replace(" / ", " /\n") if len(title) > 45 else title.replace(", x", "\nx")


def ratios(axes: Axes, scenario: dict) -> None:
    """Each comparison's ratio with its confidence interval, over the noise floor's band; targets as bars."""
    shown = words.pictured(scenario)
    metric = words.metric(scenario)
    floor = scenario["analysis"]["noise_floor"][metric.name]
    axes.axvline(1, color="#333333", linewidth=1)
    if floor is not None:
        axes.axvspan(1 / floor, floor, color="#999999", alpha=0.3, linewidth=0,
                     label=f"noise floor ({words.times(floor)})")
    for row, c in enumerate(shown):
        clear = c["verdict"] not in (NO_DIFFERENCE, TOO_FEW)
        if c["low"] is not None:
            axes.plot([c["low"], c["high"]], [row, row], color="#0072B2" if clear else "#777777", linewidth=2)
        axes.plot(c["mean"], row, "o", color="#0072B2", markerfacecolor="#0072B2" if clear else "white",
                  markeredgecolor="#0072B2" if clear else "#777777")
        wanted = words.target(c)
        if wanted:
            axes.plot(c["target"]["value"], row, "|", color="#D55E00", markersize=16, markeredgewidth=2)
        axes.annotate(f"{words.times(c['mean'])}  " + (f"target {wanted}" if wanted else c["verdict"]),
                      (c["mean"], row), (0, 7),
                      textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(shown)), [_in_lines(c["title"]) for c in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.5, -0.8)
    # Two rounds can give intervals over many powers of ten; these leave the picture, the ratios stay.
    means = [c["mean"] for c in shown] + [1.0]
    ends = means + [c[side] for c in shown for side in ("low", "high") if c[side] is not None]
    ends += [floor, 1 / floor] if floor is not None else []
    ends += [c["target"]["value"] for c in shown if c["target"]]
    least = max(min(ends), min(means) / WIDEST) * 0.7
    most = min(max(ends), max(means) * WIDEST) * 1.4
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    marks = [m for m in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50) if least <= m <= most]
    axes.set_xticks(marks, [f"{m:g}x" for m in marks])
    axes.minorticks_off()
    axes.set_xlabel(f"ratio of {metric.noun}, 95% CI (filled: a difference is shown)")
    axes.set_title("Who is better, and is it certain?" if metric.name != "throughput"
                   else "Who is faster, and is it certain?", fontsize=11)
    if floor is not None:
        axes.legend(fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
