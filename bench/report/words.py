"""Sentences and labels that terminal, picture and page have in common."""

from __future__ import annotations

from bench.contestants import CONFIG_TITLES, plural
from bench.statistics import FEWEST_ROUNDS, NO_DIFFERENCE, TOO_FEW

# Above this, differences that matter to people are below the noise.
NOISY = 1.25


def times(value: float) -> str:
    """A ratio: "1.43x"."""
    return f"{_figure(value)}x"


def _figure(value: float) -> str:
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    return "<0.01" if value < 0.01 else ">100" if value > 100 else f"{value:.2f}"


def interval(comparison: dict) -> str:
    """A ratio's confidence interval, or a dash where one round gives none."""
    if comparison["low"] is None:
        return "-"
    return f"{_figure(comparison['low'])} to {_figure(comparison['high'])}"


def floor(factor: float | None) -> str:
    """A noise floor: "1.04x"."""
    return "unknown" if factor is None else times(factor)


def comparisons(scenario: dict, metric: str) -> list[dict]:
    """The scenario's comparisons of one metric."""
    return [c for c in scenario["analysis"]["comparisons"] if c["metric"] == metric]


def pictured(scenario: dict) -> list[dict]:
    """The comparisons of throughput that a picture has room for.

    The headline for every number of workers; between others, at the most workers alone.
    """
    found = comparisons(scenario, "throughput")
    workers = {c["numerator"]: contestant(scenario, c["numerator"])["workers"] for c in found}
    most = max(workers.values(), default=0)
    return [c for c in found if c["kind"] == "headline"
            or (c["kind"] in ("gil", "build", "method") and workers[c["numerator"]] == most)]


def contestant(scenario: dict, key: str) -> dict:
    """A contestant of the scenario by its key."""
    return next(c for c in scenario["contestants"] if c["key"] == key)


def describe(scenario: dict, key: str) -> str:
    """A contestant in words: "threads in the free-threaded build"."""
    c = contestant(scenario, key)
    return f"{plural(c['method'])} in the {CONFIG_TITLES[c['config']]}"


def conclusion(scenario: dict, comparison: dict) -> str:
    """One comparison of throughput, as a sentence."""
    workers = contestant(scenario, comparison["numerator"])["workers"]
    a, b = (describe(scenario, comparison[side]) for side in ("numerator", "denominator"))
    head = f"With {workers} worker{'s' if workers != 1 else ''}, "
    factor = times(comparison["mean"])
    measure = (f"{factor}, 95% CI {interval(comparison)}, "
               f"noise floor {floor(scenario['analysis']['noise_floor']['throughput'])}")
    if comparison["verdict"] == TOO_FEW:
        return f"{head}{a} against {b}: {factor}, but {comparison['n']} round(s) are too few for a " \
               f"verdict ({FEWEST_ROUNDS} are needed)."
    if comparison["verdict"] == NO_DIFFERENCE:
        return f"{head}no difference was shown between {a} and {b} ({measure})."
    return f"{head}{a} are {comparison['verdict']} than {b} ({measure})."


def verdict(scenario: dict) -> list[str]:
    """The conclusion in at most three sentences: the headline, the GIL's effect, the build's cost.

    Of one twin alone, what threads do against processes in it. All at the most workers measured.
    """
    found = comparisons(scenario, "throughput")
    chosen = []
    for kind in ("headline", "gil", "build"):
        chosen += [c for c in found if c["kind"] == kind][:1]
    if not any(c["kind"] == "headline" for c in chosen):
        seen = set()
        for c in found:
            config = contestant(scenario, c["numerator"])["config"]
            if c["kind"] == "method" and config not in seen:
                seen.add(config)
                chosen.append(c)
    return [conclusion(scenario, c) for c in chosen[:3]]


def noise(scenario: dict) -> str:
    """The noise floor in a sentence, with advice where it is too high to see much."""
    factor = scenario["analysis"]["noise_floor"]["throughput"]
    text = f"Noise floor: {floor(factor)} (how far two measurements of the same thing lay apart in this run)."
    if factor is not None and factor > NOISY:
        text += (" That is a lot: the machine was busy, or the rounds too few. Differences smaller than this "
                 "cannot be seen; a quiet machine or a larger --budget shows more.")
    return text


def state(document: dict) -> str | None:
    """What is to be said of a run that did not end as planned."""
    if document["status"] == "complete":
        return None
    rounds = sum(len(s["rounds"]) for s in document["scenarios"])
    return f"INCOMPLETE: {document['reason']}; {rounds} finished round{'s' if rounds != 1 else ''} reported"


def builds(document: dict) -> list[str]:
    """Each twin's interpreter on a line."""
    lines = []
    for twin, e in document["environment"]["twins"].items():
        python = e["interpreter"]
        kind = "free-threaded" if python["free_threaded"] else "with the GIL"
        lines.append(f"{twin}: Python {python['version']} {kind}, {python['build']}, {python['compiler']}")
    return lines


def machine(document: dict) -> str:
    """Processor, memory, system, in a line. Twins share a machine; the first one speaks."""
    e = next(iter(document["environment"]["twins"].values()))
    where = f"{e['os']['container']} container" if e["os"]["container"] else "no container"
    usable = min(t["cpu"]["usable"] for t in document["environment"]["twins"].values())
    return (f"{e['cpu']['model']}, {usable} of {e['cpu']['count']} CPUs usable, "
            f"{e['memory']['total'] / 2**30:.0f} GiB, {e['os']['name']}, Linux {e['os']['kernel']}, {where}")


def revision(document: dict) -> str:
    """The source's commit."""
    r = document["environment"]["revision"]
    return r["commit"][:12] + (" with changes" if r["dirty"] else "")


def work(scenario: dict) -> str:
    """What was measured, in a line."""
    data = scenario["dataset"]
    source = ("generated images" if data["source"] == "generated" else f"images of {data['directory']}")
    return (f"{scenario['description']}; batches of {scenario['batch_size']}, {scenario['batches_per_worker']} "
            f"a worker and trial; {data['images']} {source}, {data['mean_bytes'] / 1000:.0f} kB on average; "
            f"{len(scenario['rounds'])} rounds")
