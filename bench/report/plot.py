"""The pictures: throughput by contestant, and the ratios with the noise floor."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from bench.contestants import CONFIG_TITLES, CONFIGS, METHODS, plural  # noqa: E402
from bench.report import words  # noqa: E402
from bench.statistics import NO_DIFFERENCE, TOO_FEW  # noqa: E402

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; the hatching
# tells threads from processes without colour.
COLOURS = {"gil": "#E69F00", "ft-gil": "#56B4E9", "ft": "#009E73"}
HATCHES = {"thread": "", "process": "///"}
# More bars than this leave no room for figures that lie flat.
FLAT_LABELS = 14
# How far the picture of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10


def png(document: dict, scenario: dict) -> bytes:
    """Both pictures side by side, with a title that says what was measured on what."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6.5), layout="constrained", width_ratios=(5, 6))
    throughput(left, scenario)
    ratios(right, scenario)
    state = words.state(document)
    plain = sorted({e["interpreter"]["build"] for e in document["environment"]["twins"].values()})
    figure.suptitle(
        f"{scenario['name']}: {scenario['description']}"
        + (f"\n{state}" if state else "")
        + f"\n{words.machine(document).split(', Linux')[0]}; {', '.join(plain)}; "
          f"{len(scenario['rounds'])} rounds", fontsize=11,
        color="#B00020" if state else "black")
    return _save(figure, "png")


def svg(scenario: dict, draw) -> bytes:
    """One picture (`throughput` or `ratios`) for the page, text as paths."""
    figure, axes = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    draw(axes, scenario)
    return _save(figure, "svg")


def _save(figure: plt.Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)
    return buffer.getvalue()


def throughput(axes: Axes, scenario: dict) -> None:
    """Bars by number of workers; medians, with lines from the lowest round to the highest."""
    measured = {c["key"]: c["throughput"] for c in scenario["analysis"]["contestants"]}
    real = [c for c in scenario["contestants"] if not c["duplicate"]]
    counts = sorted({c["workers"] for c in real})
    series = [(config, method) for config in CONFIGS for method in METHODS
              if any(f"{config}/{method}/{n}" in measured for n in counts)]
    width = 0.84 / len(series)
    for index, (config, method) in enumerate(series):
        bars = [(at, measured[key]) for at, n in enumerate(counts)
                if (key := f"{config}/{method}/{n}") in measured]
        places = [at + (index - (len(series) - 1) / 2) * width for at, _ in bars]
        middle = [value["median"] for _, value in bars]
        reach = [[value["median"] - value["min"] for _, value in bars],
                 [value["max"] - value["median"] for _, value in bars]]
        axes.bar(places, middle, width * 0.94, yerr=reach, color=COLOURS[config], hatch=HATCHES[method],
                 edgecolor="white", ecolor="#333333", capsize=3,
                 label=f"{CONFIG_TITLES[config]}: {plural(method)}")
        for place, value in zip(places, middle, strict=True):
            axes.annotate(f"{value:.0f}", (place, 0), (0, 3), textcoords="offset points", ha="center",
                          rotation=0 if len(series) * len(counts) <= FLAT_LABELS else 90, fontsize=8,
                          bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85})
    axes.set_xticks(range(len(counts)), [f"{n} worker{'s' if n != 1 else ''}" for n in counts])
    axes.set_ylabel("samples/s (median; lines: min to max)")
    axes.set_title("Throughput: higher is better", fontsize=11)
    axes.set_ylim(0, max(v["max"] for v in measured.values()) * 1.32)
    axes.legend(fontsize=8, loc="upper left", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def ratios(axes: Axes, scenario: dict) -> None:
    """Each comparison's ratio with its confidence interval, over the noise floor's band."""
    shown = words.pictured(scenario)
    floor = scenario["analysis"]["noise_floor"]["throughput"]
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
        axes.annotate(f"{words.times(c['mean'])}  {c['verdict']}", (c["mean"], row), (0, 7),
                      textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(shown)), [c["title"].split(":")[0].replace(", x", "\nx") for c in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.5, -0.8)
    # Two rounds can give intervals over many powers of ten; these leave the picture, the ratios stay.
    means = [c["mean"] for c in shown] + [1.0]
    ends = means + [c[side] for c in shown for side in ("low", "high") if c[side] is not None]
    ends += [floor, 1 / floor] if floor is not None else []
    least = max(min(ends), min(means) / WIDEST) * 0.8
    most = min(max(ends), max(means) * WIDEST) * 1.25
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    marks = [m for m in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50) if least <= m <= most]
    axes.set_xticks(marks, [f"{m:g}x" for m in marks])
    axes.minorticks_off()
    axes.set_xlabel("ratio of throughput, 95% CI (filled: a difference is shown)")
    axes.set_title("Who is faster, and is it certain?", fontsize=11)
    if floor is not None:
        axes.legend(fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
