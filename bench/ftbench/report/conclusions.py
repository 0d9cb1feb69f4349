"""What a run found: its waterfalls, and what other comparisons say, in sentences and as charts; and what to use."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ftbench.measure.checksums import by_batch
from ftbench.plan.candidates import VARIANTS, plural
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import REMOVED, THREADS, TODAY
from ftbench.report import phrases
from ftbench.report.draw import Bars, Chart, Ratios, Row
from ftbench.report.tables import Table
from ftbench.stats.statistics import FEWEST_ROUNDS, NO_DIFFERENCE, TOO_FEW, Ratio, median, ratio
from ftbench.stats.statistics import WITNESS as CPU
from ftbench.stats.statistics import verdict as verdict_of
from ftbench.stats.waterfall import in_each_process, typical_of, waterfalls

# A scenario's conclusion.
MOST_SENTENCES = 3
PYTHONS = {"gil": "ordinary Python (gil)", "ft": "free-threaded Python (ft)", "ft-gil": "free-threaded Python, GIL on"}
# So many outcomes have a middle that is worth a word.
FEWEST_TYPICAL = 3


@dataclass(frozen=True)
class Step:
    """A place of the chain: what changed, and what came of it."""

    name: str
    candidate: dict
    value: float
    """Samples a second there, by the ratios of the steps so far."""
    before: float
    """Where its bar begins: where the step before ended; nothing at the start and for the whole."""
    ratio: float | None
    """None at the start, and where none is told."""
    throughput: str
    """In words, "" at the start."""
    cpu: str
    dots: tuple[float, ...]
    """Samples a second in each process."""


def told(document: dict) -> dict:
    """The document as reports tell it: what compares candidates that gave different samples says that alone.

    Its waterfalls have "others" besides: who gave other samples than the start. Where nobody did, it is as it was.
    """
    apart: dict[str, set[tuple[str, str]]] = {scenario["name"]: set() for scenario in document["scenarios"]}
    for fall in document["waterfalls"]:
        apart[fall["scenario"]] |= _apart(scenario_of(document, fall), fall["start"]["candidate"])
    if not any(apart.values()):
        return document
    scenarios = []
    for scenario in document["scenarios"]:
        pairs = apart[scenario["name"]]
        comparisons = [
            {**c, "verdict": phrases.OTHER_SAMPLES} if (c["numerator"], c["denominator"]) in pairs else c
            for c in scenario["analysis"]["comparisons"]
        ]
        scenarios.append({**scenario, "analysis": {**scenario["analysis"], "comparisons": comparisons}})
    falls = waterfalls(scenarios)
    for fall in falls:
        keys = [c["key"] for c in scenario_of(document, fall)["candidates"]]
        fall["others"] = [key for key in keys if (fall["start"]["candidate"], key) in apart[fall["scenario"]]]
    return {**document, "scenarios": scenarios, "waterfalls": falls}


def _apart(scenario: dict, start: str) -> set[tuple[str, str]]:
    """The candidates, two by two and either way, of the start's case that gave different samples, by their checksums.

    Nobody if the start gives other ones from round to round: then none can be checked.
    """
    case = phrases.candidate(scenario, start)["case"]
    seen: dict[str, dict[str, set[int]]] = {c["key"]: {} for c in scenario["candidates"] if c["case"] == case}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            if trial["candidate"] in seen:
                for name, checksum in by_batch(trial).items():
                    seen[trial["candidate"]].setdefault(name, set()).add(checksum)
    if any(len(checksums) > 1 for checksums in seen[start].values()):
        return set()
    return {
        (a, b)
        for a, b in itertools.permutations(seen, 2)
        if any(len(seen[a][name] | seen[b][name]) > 1 for name in seen[a].keys() & seen[b].keys())
    }


def scenario_of(document: dict, fall: dict) -> dict:
    """The scenario that a waterfall is of."""
    return next(s for s in document["scenarios"] if s["name"] == fall["scenario"])


def steps(document: dict, fall: dict) -> list[Step]:
    """The chain from its start to its end, and the whole."""
    scenario = scenario_of(document, fall)
    about, cpu_about = METRICS["throughput"], METRICS[CPU]
    start, value = fall["start"], fall["start"]["value"]

    def step(key: str, name: str, before: float, change: dict | None = None, cpu: dict | None = None) -> Step:
        said = phrases.outcome(about, change) if change else ""
        ratio = change["ratio"] if change and change["verdict"] != phrases.OTHER_SAMPLES else None
        # The column says what it is of.
        cpu_said = phrases.outcome(cpu_about, cpu).replace(" CPU time", "") if cpu and ratio else ""
        dots = tuple(in_each_process(scenario, key, "throughput"))
        return Step(name, phrases.candidate(scenario, key), value, before, ratio, said, cpu_said, dots)

    found = [step(start["candidate"], start["name"], 0.0)]
    for change, cpu in zip(fall["steps"], fall[CPU]["steps"], strict=True):
        before, value = value, value * change["ratio"]
        found.append(step(change["candidate"], change["name"], before, change, cpu))
    return [*found, step(fall["steps"][-1]["candidate"], "in all", 0.0, fall["total"], fall[CPU]["total"])]


def waterfall_chart(document: dict, fall: dict) -> Chart:
    """The chain as bars from where each step begins to where it ends, with a dot for each process; and as a table.

    The title says what was loaded and by how many workers.
    """
    scenario, chain = scenario_of(document, fall), steps(document, fall)
    what = ", ".join(filter(None, (scenario["description"], phrases.case_title(scenario, fall["case"]))))
    rows, cells = [], []
    for step in chain:
        hover = "one process each: " + ", ".join(f"{dot:.0f}" for dot in step.dots) + " samples/s"
        factor, value = f"x {step.ratio:.2f}" if step.ratio else "", f"{step.value:.0f}"
        text = " · ".join(filter(None, (factor, f"{value}/s")))
        who = step.candidate["config"], step.candidate["variant"]
        rows.append(
            Row(step.name, step.value, None, None, hover, *who, step.throughput, text, step.before, dots=step.dots)
        )
        cells.append((step.name, factor, value, step.throughput, step.cpu))
    return Chart(
        f"waterfall-{phrases.slug(fall['workload'])}",
        phrases.capital(f"{what}: {phrases.workers(fall['workers'])}"),
        "Each bar is one change, from what was before it to what came after; in brackets its 95% confidence interval. "
        "Dots: one process each.",
        f"Waterfall of {fall['workload']}: "
        + "; ".join(f"{step.name} {step.throughput or f'{step.value:.0f}/s'}" for step in chain),
        Bars([("", rows)], "samples/s"),
        Table(("what changes", "factor", "samples/s", "throughput", "CPU time"), tuple(cells), frozenset({1, 2})),
    )


def sentence(document: dict, fall: dict) -> str:
    """The whole, and the last step, in a sentence."""
    about, chain = METRICS["throughput"], steps(document, fall)
    start, last, end = chain[0], chain[-2], chain[-1]
    against = "torch's DataLoader with processes"
    if start.candidate["variant"] != TODAY:
        against = phrases.describe(scenario_of(document, fall), start.candidate["key"], with_case=False)
    who = {
        "gil": "threads with the GIL",
        "ft-gil": "threads in the free-threaded build, GIL on",
        "ft": "threads without the GIL",
    }[end.candidate["config"]]
    if end.ratio is None:
        return f"{fall['workload']}: {who} gave other samples than {against}, so their speeds are not compared."
    text = (
        f"{fall['workload']}: {who} against {against}: {end.throughput}, "
        f"{about.write(end.value)} against {about.write(start.value)} samples/s"
    )
    if last.name == REMOVED and last.ratio:  # and nothing else besides, which could not be measured on the way
        text += f"; removing the GIL by itself: {last.throughput}"
    return text + "."


def beside(document: dict, fall: dict) -> list[str]:
    """What stands below the chain, in sentences: both ends, what would settle an undecided step, what is missing."""
    scenario, cpu, about = scenario_of(document, fall), fall[CPU], METRICS[CPU]
    said = f", {phrases.outcome(about, cpu['total'])}" if cpu["total"]["verdict"] != phrases.OTHER_SAMPLES else ""
    parts = [f"CPU time for 1,000 samples {about.write(cpu['start']['value'])} s to {about.write(cpu['end'])} s{said}"]
    for name, (start, end) in fall["ends"].items():
        metric = METRICS[name]
        parts.append(f"{metric.noun} {metric.write(start)} {metric.unit} to {metric.write(end)} {metric.unit}")
    found = [f"From first to last: {'; '.join(parts)}."]
    changes = [*fall["steps"], {"name": "in all", **fall["total"]}]
    undecided = [f"{each['name']}: {more}" for each in changes if (more := phrases.settles(scenario, each))]
    if undecided:
        found.append(f"Undecided: {'; '.join(undecided)}.")
    if fall["missing"]:
        titles = {**phrases.CONFIG_TITLES, "ft": "threads without the GIL"}
        missing = ", ".join(titles.get(each, each) for each in fall["missing"])
        found.append(f"Missing here: {missing}. The steps that need them are not in this chain.")
        found += _failures(document, fall)
    return found


def _failures(document: dict, fall: dict) -> list[str]:
    """Why candidates of a chain could not be measured, in sentences."""
    scenario = scenario_of(document, fall)
    # As ftbench.rounds.controller says it.
    said = {
        f"the trial of {c['title']} failed: ": c["variant"]
        for c in scenario["candidates"]
        if (c["workers"], c["case"]) == (fall["workers"], fall["case"])
    }
    whys = [each["why"] for each in document["skipped"] if each["what"] == scenario["name"]]
    failed = {why: variant for why in whys for start, variant in said.items() if why.startswith(start)}
    found = [phrases.capital(why.rstrip(".")) + "." for why in failed]
    target = document["options"].get("dataset")
    if target and THREADS in failed.values():
        found.append(f"./twins audit {target} looks for what is not safe under threads.")
    return found


def advice(document: dict, fall: dict) -> tuple[str, str]:
    """What to use for a workload in words, and the line of code for it, "" where too little was measured.

    That is the best that was measured of those who gave the same samples as the chain's start, which is kept if the
    best is not told apart from it.
    """
    scenario, workload, start = scenario_of(document, fall), fall["workload"], fall["start"]["candidate"]
    number = len(scenario["rounds"])
    if number < FEWEST_ROUNDS:
        few = f"{phrases.rounds(scenario)}, and at least {FEWEST_ROUNDS} are needed"
        return f"Too little was measured to advise for {workload}: {few}.", ""
    titles, others = {c["key"]: c for c in scenario["candidates"]}, fall.get("others", ())
    of_case = [c["key"] for c in scenario["analysis"]["candidates"] if titles[c["key"]]["case"] == fall["case"]]
    # The free-threaded build with its GIL on is there to be compared, not to be used.
    usable = [key for key in of_case if titles[key]["config"] != "ft-gil" and key not in others]
    about = METRICS["throughput"]

    def against(key: str) -> Ratio:
        return ratio(*(in_each_process(scenario, of, about.name) for of in (key, start)))

    # A noisy one must not hide another that is surely faster than what people have.
    faster = [key for key in usable if key != start and verdict_of(against(key), about) == about.above]
    best = max(faster or usable, key=lambda key: typical_of(scenario, key, "throughput"), default=start)

    def say(key: str) -> str:
        who = titles[key]
        return (
            f"{plural(who['variant'])} in {PYTHONS[who['config']]}, num_workers={who['workers']} "
            f"({typical_of(scenario, key, 'throughput'):.0f} samples/s)"
        )

    text = f"Best measured here for {workload}: {say(best)}."
    if best != start and verdict_of(against(best), about) == NO_DIFFERENCE:
        text = (
            f"Keep {say(start)} for {workload}: the best measured here, {say(best)}, is not told apart from it "
            f"({phrases.outcome(about, {**asdict(against(best)), 'verdict': NO_DIFFERENCE})})."
        )
        best = start
    if others:
        text += f" Left out, for they gave other samples: {', '.join(titles[key]['title'] for key in others)}."
    who = titles[best]
    ours = who["variant"].startswith("loader")
    method = f', worker_method="{"process" if VARIANTS[who["variant"]].processes else "thread"}"' if ours else ""
    return text, (
        f"from {'ftloader' if ours else 'torch.utils.data'} import DataLoader; "
        f"DataLoader(dataset, ..., num_workers={who['workers']}{method})"
    )


def advantage(comparison: dict) -> tuple[float, float | None, float | None]:
    """The ratio and its interval, turned so that above 1 the first is better."""
    mean, low, high = (comparison[name] for name in ("mean", "low", "high"))
    if METRICS[comparison["metric"]].best == "higher":
        return mean, low, high
    return 1 / mean, high and 1 / high, low and 1 / low


def outcome(comparison: dict) -> str:
    """How the first did: "better", "worse", "same" or "unknown" (too few rounds)."""
    if comparison["verdict"] in (TOO_FEW, NO_DIFFERENCE):
        return "unknown" if comparison["verdict"] == TOO_FEW else "same"
    return "better" if advantage(comparison)[0] > 1 else "worse"


def _tell(scenario: dict, found: Sequence[dict], ours: str, theirs: str) -> str:
    """Comparisons of one metric under several cases in a sentence: how many went which way, and the extremes."""
    about, number = METRICS[found[0]["metric"]], len(found)
    outcomes = {name: [c for c in found if outcome(c) == name] for name in ("better", "worse", "same", "unknown")}
    if len(outcomes["unknown"]) == number:
        low, high = (phrases.directed(about, which(c["mean"] for c in found)) for which in (min, max))
        return (
            f"{ours} and {theirs} met in {number} comparisons ({low} to {high}), all of too few rounds "
            f"for a verdict ({FEWEST_ROUNDS} are needed)."
        )
    parts = []
    for name, extreme_of in (("better", max), ("worse", min)):
        those = outcomes[name]
        if those:
            extreme = extreme_of(those, key=lambda c: advantage(c)[0])
            most = "most" if len(those) > 1 else "namely"
            if len(those) >= FEWEST_TYPICAL:
                most = f"typically {phrases.directed(about, median([c['mean'] for c in those]))}, {most}"
            count = "all" if len(those) == number else len(those)
            parts.append(
                f"did {name} in {count} ({most} {phrases.short(extreme)} in {phrases.case_of(scenario, extreme)})"
            )
    if outcomes["same"]:
        count = "any" if len(outcomes["same"]) == number else len(outcomes["same"])
        parts.append(f"were not shown to differ in {count}")
    if outcomes["unknown"]:
        parts.append(f"had too few rounds in {len(outcomes['unknown'])}")
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"of {number} comparisons with {theirs}, {ours} {listed}."


def _who(scenario: dict, comparison: dict, with_case: bool) -> tuple[str, str, str]:
    """What both have, as the beginning of a sentence, and who they are."""
    a, b = phrases.pair(scenario, comparison)
    same = a["workers"] == b["workers"]
    before = f"With {phrases.workers(a['workers'])}, " if same and a["workers"] else ""
    ours, theirs = (phrases.describe(scenario, c["key"], with_workers=not same, with_case=with_case) for c in (a, b))
    return before, ours, theirs


def conclusion(scenario: dict, comparison: dict) -> str:
    """One comparison of the scenario's metric, as a sentence."""
    a, b = phrases.pair(scenario, comparison)
    before, ours, theirs = _who(scenario, comparison, with_case=a["case"] != b["case"])
    case = phrases.case_title(scenario, a["case"]) if a["case"] == b["case"] else ""
    more = phrases.settles(scenario, comparison)
    after = f" ({more})" if more else ""
    target = f"; target {phrases.target(comparison)}" if comparison["target"] else ""
    about = phrases.metric(scenario)
    of = "" if about.above in ("faster", "more memory") else f"{about.noun} "
    said = f"{of}{phrases.short(comparison)}{after}{target}"
    return phrases.capital(f"{before}{ours} against {theirs}{f', {case}' if case else ''}: {said}.")


def verdict(scenario: dict) -> list[str]:
    """The conclusion in sentences: of what has targets, one for each; else at most three, the most important first.

    At the most workers measured. What was compared under several cases is told in one sentence.
    """
    found = phrases.comparisons(scenario, phrases.metric(scenario).name)
    wanted = [c for c in found if c["target"] is not None]
    if wanted:
        return [conclusion(scenario, c) for c in wanted]
    return [_of_group(scenario, group) for group in _chosen(scenario, found)[:MOST_SENTENCES]]


def _chosen(scenario: dict, found: Sequence[dict]) -> list[list[dict]]:
    """Comparisons in groups of one question each: two of the most important kind, one of each other, then the rest."""
    kinds: dict[str, dict[tuple, list[dict]]] = {}
    for c in found:
        who = tuple((p["config"], p["variant"], p["workers"]) for p in phrases.pair(scenario, c))
        kinds.setdefault(c["kind"], {}).setdefault(who, []).append(c)
    # How a candidate scales is in the charts; threads against processes is what a headline says, too.
    left_out = {"scaling"} | ({"method"} if "headline" in kinds else set())
    chosen = []
    for kind, groups in kinds.items():
        most = max(who[0][2] for who in groups)
        if kind not in left_out or len(kinds) == 1:
            chosen.append([group for who, group in groups.items() if who[0][2] == most])
    if not chosen:
        return []
    first, *others = chosen
    return [*first[:2], *(groups[0] for groups in others), *first[2:], *(g for groups in others for g in groups[1:])]


def _of_group(scenario: dict, group: Sequence[dict]) -> str:
    a, b = phrases.pair(scenario, group[0])
    if len(group) == 1 or a["case"] != b["case"]:
        return conclusion(scenario, group[0])
    before, ours, theirs = _who(scenario, group[0], with_case=False)
    return phrases.capital(before + _tell(scenario, group, ours, theirs))


def others(document: dict) -> list[dict]:
    """The scenarios without a waterfall."""
    told = {fall["scenario"] for fall in document["waterfalls"]}
    return [scenario for scenario in document["scenarios"] if scenario["name"] not in told]


def glance(document: dict) -> list[tuple[dict, str]]:
    """Every scenario without a waterfall, with its most important comparison in words."""
    return [(scenario, next(iter(verdict(scenario)), "")) for scenario in others(document)]


def sentences(document: dict) -> list[str]:
    """A sentence for each waterfall, and the first conclusion of each scenario without one."""
    found = [sentence(document, fall) for fall in document["waterfalls"]]
    return found + [f"{scenario['name']}: {answer}" for scenario, answer in glance(document) if answer]


def _meetings(scenario: dict) -> Iterator[tuple[str, dict]]:
    """Threads without the GIL against processes with it, by the scenario's metric: where, the first of each case."""
    found: dict[str, dict] = {}
    for c in phrases.comparisons(scenario, scenario["metrics"][0]):
        a, b = phrases.pair(scenario, c)
        if (
            VARIANTS[b["variant"]].processes
            and (a["config"], b["config"]) == ("ft", "gil")
            and a["workers"] == b["workers"]
        ):
            if a["case"] == b["case"] and not VARIANTS[a["variant"]].processes:
                found.setdefault(phrases.case_of(scenario, c), c)
    for case, c in found.items():
        yield f"{scenario['name']}, {case}" if case else scenario["name"], c


def overview(document: dict) -> Chart | None:
    """Threads without the GIL against processes with it, wherever they met; None if that is in one place at most."""
    found = [each for scenario in others(document) for each in _meetings(scenario)]
    if len(found) < 2:
        return None
    rows, cells = [], []
    for where, c in found:
        ratio, low, high = advantage(c)
        about, factor, said = METRICS[c["metric"]], phrases.times(ratio), phrases.short(c)
        hover = f"{where}\n{c['title']}\n{factor}"
        rows.append(Row(f"{where}: {about.noun}", ratio, low, high, hover, detail=said, shown=phrases.shown(c)))
        cells.append((where, about.title, factor, said))
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a difference is shown.",
        "Threads without the GIL against processes with it, above 1 where the threads are better: "
        + "; ".join(f"{where} {factor}" for where, _, factor, _ in cells),
        Ratios([("", rows)], "advantage of threads (above 1: better)"),
        Table(("scenario", "quantity", "advantage of threads", "as measured"), tuple(cells), frozenset({2})),
    )
