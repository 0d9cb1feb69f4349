"""Sentences and labels that terminal, picture and page have in common."""

from __future__ import annotations

from bench.contestants import CONFIG_TITLES, plural
from bench.metrics import METRICS, Metric
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


def metric(scenario: dict) -> Metric:
    """The metric that the scenario is about."""
    return METRICS[scenario["metrics"][0]]


def pictured(scenario: dict) -> list[dict]:
    """The comparisons of the scenario's metric that a picture has room for.

    The headline for every number of workers, peers all; between others, at the most workers alone.
    """
    found = comparisons(scenario, metric(scenario).name)
    workers = {c["numerator"]: contestant(scenario, c["numerator"])["workers"] for c in found}
    most = max(workers.values(), default=0)
    return [c for c in found if c["kind"] in ("headline", "peer")
            or (c["kind"] in ("gil", "build", "method") and workers[c["numerator"]] == most)]


def contestant(scenario: dict, key: str) -> dict:
    """A contestant of the scenario by its key."""
    return next(c for c in scenario["contestants"] if c["key"] == key)


def describe(scenario: dict, key: str, with_workers: bool = False) -> str:
    """A contestant in words: "loader threads in the free-threaded build"."""
    c = contestant(scenario, key)
    number = f" x{c['workers']}" if with_workers else ""
    return f"{plural(c['variant'])}{number} in the {CONFIG_TITLES[c['config']]}"


def target(comparison: dict) -> str:
    """What was wanted of a ratio and what came of it: ">= 1.9x: met"; "" where nothing was wanted."""
    wanted = comparison["target"]
    if wanted is None:
        return ""
    return f"{'>=' if wanted['at'] == 'least' else '<='} {wanted['value']:.3g}x: {wanted['verdict']}"


def conclusion(scenario: dict, comparison: dict) -> str:
    """One comparison of the scenario's metric, as a sentence."""
    keys = comparison["numerator"], comparison["denominator"]
    counts = [contestant(scenario, key)["workers"] for key in keys]
    workers = counts[0]
    same = counts[0] == counts[1]
    a, b = (describe(scenario, key, with_workers=not same) for key in keys)
    head = f"With {workers} worker{'s' if workers != 1 else ''}, " if same else ""
    about = metric(scenario)
    factor = times(comparison["mean"])
    wanted = f"; target {target(comparison)}" if comparison["target"] else ""
    measure = (f"{factor}, 95% CI {interval(comparison)}, "
               f"noise floor {floor(scenario['analysis']['noise_floor'][about.name])}{wanted}")
    if comparison["verdict"] == TOO_FEW:
        return f"{head}{a} against {b}: {factor}, but {comparison['n']} round(s) are too few for a " \
               f"verdict ({FEWEST_ROUNDS} are needed){wanted}."
    if comparison["verdict"] == NO_DIFFERENCE:
        return f"{head}no difference was shown between {a} and {b} ({measure})."
    return f"{head}{a} {about.verb} {comparison['verdict']} than {b} ({measure})."


def verdict(scenario: dict) -> list[str]:
    """The conclusion in sentences: of peers, one for each target; else at most three.

    These are the headline, the GIL's effect and the build's cost; of one twin alone, what threads do
    against processes in it. All at the most workers measured.
    """
    found = comparisons(scenario, metric(scenario).name)
    wanted = [c for c in found if c["target"] is not None]
    if wanted:
        return [conclusion(scenario, c) for c in wanted]
    chosen = []
    for kind in ("headline", "gil", "build"):
        chosen += [c for c in found if c["kind"] == kind][:1]
    if not any(c["kind"] == "headline" for c in chosen):
        seen = set()
        for c in found:
            config = contestant(scenario, c["numerator"])["config"]
            if c["kind"] in ("method", "peer") and config not in seen:
                seen.add(config)
                chosen.append(c)
    return [conclusion(scenario, c) for c in chosen[:3]]


def noise(scenario: dict) -> str:
    """The noise floor in a sentence, with advice where it is too high to see much."""
    factor = scenario["analysis"]["noise_floor"][metric(scenario).name]
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
    parts = [scenario["description"],
             f"batches of {scenario['batch_size']}, {scenario['batches_per_worker']} a worker and trial"]
    if data["source"] != "none":
        source = f"generated {data['kind']}" if data["source"] == "generated" \
            else f"{data['kind']} of {data['directory']}"
        parts.append(f"{data['files']} {source}, {data['mean_bytes'] / 1000:.0f} kB on average")
    return "; ".join([*parts, rounds(scenario)])


def rounds(scenario: dict) -> str:
    """How often everything was measured: "5 rounds"."""
    number = len(scenario["rounds"])
    return f"{number} round{'s' if number != 1 else ''}"
