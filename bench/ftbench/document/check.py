"""Checks that results.json fits its schema and is consistent. `python -m ftbench.document.check`
prints the schema.
"""

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ftbench.document.convert import schema
from ftbench.document.model import MeasuredScenario, Results, Stress, Trial
from ftbench.plan.candidates import VARIANTS, by_key
from ftbench.plan.metrics import METRICS

# Values above this or below its reciprocal are no measurements; ratios of other values never
# overflow a float.
MOST = 1e150


class Inconsistent(Exception):
    """Raised if the content of a results.json breaks the schema or contradicts itself;
    the message says where.
    """


@functools.cache
def validator() -> Callable[[dict], dict]:
    """Return a function that raises fastjsonschema.JsonSchemaException
    if a document breaks the results.json schema.
    """
    import fastjsonschema

    return fastjsonschema.compile(schema(Results))


def check_form(document: dict) -> None:
    """Raise Inconsistent if the document breaks the schema of results.json."""
    import fastjsonschema

    try:
        validator()(document)
    except fastjsonschema.JsonSchemaException as error:
        # The error's message may quote the whole document.
        raise Inconsistent(f"it breaks the schema: {error.message[:300]}") from error


def check_keys(results: Results) -> None:
    """Raise Inconsistent for the first contradiction in the results, such as a missing round or a
    name listed twice.
    """
    for problem in _problems(results):
        raise Inconsistent(problem)


def _problems(results: Results) -> Iterator[str]:
    names = [scenario.name for scenario in results.scenarios]
    yield from _twice(names, "scenario ")
    for scenario in results.scenarios:
        if scenario.ranks != results.options.ranks:
            yield f"scenario {scenario.name}: its ranks are not those of the run"
        for problem in _of_scenario(scenario):
            yield f"scenario {scenario.name}: {problem}"
    for fall in results.waterfalls:
        if fall.scenario not in names:
            yield f"a waterfall is of {fall.scenario}, which was not measured"
    if results.stress:
        for problem in _of_stress(results.stress, results.options.configs):
            yield f"stress: {problem}"


def _twice(names: Sequence[str], what: str = "") -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{what}{name} is listed twice"


def _of_scenario(scenario: MeasuredScenario) -> Iterator[str]:
    for name in scenario.metrics:
        if name not in METRICS:
            yield f"metric {name!r} is unknown to this bench"
    yield from _of_candidates(scenario)
    keys = set(by_key(scenario.candidates))
    for position, finished in enumerate(scenario.rounds, 1):
        if finished.number != position:
            yield f"round {position} is missing"
        for problem in _of_trials(finished.trials, scenario.metrics):
            yield f"round {position}: {problem}"
    yield from _of_keys(scenario, keys)


def _of_candidates(scenario: MeasuredScenario) -> Iterator[str]:
    yield from _twice([c.key for c in scenario.candidates])
    for c in scenario.candidates:
        if c.variant not in VARIANTS:
            yield f"{c.key}: variant {c.variant!r} is unknown to this bench"
        if c.case not in scenario.case_names:
            yield f"{c.key}: there is no case {c.case!r}"


def _of_keys(scenario: MeasuredScenario, keys: set[str]) -> Iterator[str]:
    """Yield the contradictions between the keys of candidates
    and what the scenario says of candidates.
    """
    measured: set[str] = set()
    for finished in scenario.rounds:
        measured |= finished.keys
    for key in sorted(measured - keys):
        yield f"{key} was measured, and did not take part"
    compared: set[str] = set()
    for pair in scenario.pairs:
        compared |= {pair.numerator, pair.denominator}
    for key in sorted(compared - by_key(scenario.whole).keys()):
        yield f"{key} is compared, and was not measured in every round"
    for failure in scenario.failures:
        if failure.candidate not in keys:
            yield f"{failure.candidate} failed, and did not take part"


def _of_trials(trials: Sequence[Trial], metrics: Sequence[str]) -> Iterator[str]:
    yield from _twice([trial.candidate for trial in trials])
    for trial in trials:
        yield from _of_metrics(trial, metrics)
        yield from _of_conditions(trial)
        if trial.turn_seconds and not _is_of_its_turns(trial):
            yield f"throughput of {trial.candidate} is not that of its turns"
        for name, curve in trial.distributions.items():
            if len(curve.over.values) != len(curve.values):
                yield f"{name} of {trial.candidate} is no curve: a value has no place"


def _of_conditions(trial: Trial) -> Iterator[str]:
    for name, conditions in trial.condition_seconds.items():
        if len(conditions) != 2 or len(conditions[0]) != len(conditions[1]):
            equally_many = "equally many turns of two conditions"
            yield f"{name} of {trial.candidate} does not have {equally_many}"


def _of_metrics(trial: Trial, metrics: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        if metric not in trial.metrics:
            yield f"{metric} of {trial.candidate} is missing"
        elif not 1 / MOST < trial.metrics[metric] < MOST:
            yield f"{metric} of {trial.candidate} is no measurement"


def _is_of_its_turns(trial: Trial) -> bool:
    """True if the throughput is the samples of the turns that count,
    divided by the seconds of these turns.
    """
    if "throughput" not in trial.metrics:
        return True
    counted = trial.counted(trial.turn_seconds)
    samples = trial.samples * len(counted) / len(trial.turn_seconds)
    return bool(counted) and math.isclose(
        trial.metrics["throughput"], samples / math.fsum(counted), rel_tol=1e-6
    )


def _of_stress(part: Stress, configs: list[str]) -> Iterator[str]:
    """Yield a sentence for each contradiction in the record of the thread-safety suite."""
    names = [f"{result.scenario} in {result.configuration}" for result in part.results]
    yield from _twice(names)
    for name, result in zip(names, part.results, strict=True):
        if result.scenario not in part.scenarios or result.configuration not in configs:
            yield f"{name} was not to be run"
        if (result.outcome == "passed") == bool(result.failures):
            yield f"{name} has {result.outcome}, and {len(result.failures)} failures"
    if part.status == "complete" and len(names) != len(part.scenarios) * len(configs):
        yield (
            f"{len(names)} results of {len(part.scenarios)} scenarios in {len(configs)} "
            f"configurations are complete"
        )


if __name__ == "__main__":
    print(
        json.dumps(
            {"$schema": "http://json-schema.org/draft-07/schema#", **schema(Results)}, indent=1
        )
    )
