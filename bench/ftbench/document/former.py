"""Reader of results.json of schema version 5.

That version also stored the analysis, verdicts in words and a seal, and called candidates "contestants".
"""

from ftbench.document.check import Inconsistent
from ftbench.document.model import SCHEMA_VERSION as PRESENT

SCHEMA_VERSION = 5


def converted(document: dict) -> dict:
    """Return the document in the present form, without waterfalls; changes *document*. Raises Inconsistent."""
    try:
        document.pop("seal")
        document.update(schema_version=PRESENT, waterfalls=[])
        document.setdefault("stress")
        for name, default in (("stress", False), ("stress_minutes", None), ("folders", {})):
            document["options"].setdefault(name, default)
        for scenario in document["scenarios"]:
            _convert(scenario)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise Inconsistent(f"it breaks the schema of version {SCHEMA_VERSION} ({error!r})") from error
    return document


def _convert(scenario: dict) -> None:
    comparisons = scenario.pop("analysis")["comparisons"]
    # The figures of a comparison follow from the rounds; the compared candidates do not.
    pairs: dict[tuple, list[dict]] = {}
    for c in comparisons:
        pairs.setdefault((c["numerator"], c["denominator"]), []).append(c)
    scenario["pairs"] = [_pair(of, len(scenario["metrics"])) for of in pairs.values()]
    scenario.setdefault("picture")
    scenario["failures"] = []  # which are among `skipped`, in words
    scenario["candidates"] = scenario.pop("contestants")
    for c in scenario["candidates"]:
        del c["key"], c["title"]
    for one in scenario["rounds"]:
        del one["disturbance"]["marks"]
        for trial in one["trials"]:
            trial["candidate"] = trial.pop("contestant")


def _pair(of_metrics: list[dict], metrics: int) -> dict:
    """Return the pair of candidates to compare, from version 5's comparisons of these two: one for each metric."""
    first = of_metrics[0]
    target = first["target"]
    # A remark followed the title, which has a colon of its own where one loader is compared with itself.
    same = len({first[who].rsplit("/", 1)[0] for who in ("numerator", "denominator")}) == 1
    return {
        **{name: first[name] for name in ("kind", "numerator", "denominator", "asked")},
        "why": ": ".join(first["title"].split(": ")[2 if same else 1 :]),
        "target": target and {"at": target["at"], "value": target["value"]},
        "first_only": len(of_metrics) < metrics,
    }
