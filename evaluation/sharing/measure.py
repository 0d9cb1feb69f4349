"""Does ``./twins bench --dataset FILE.py:NAME --why`` name what threads fight over, and nothing
else? Quick runs on planted datasets, in turn (20 s each, more on a busy machine):

    ./twins exec ft python -m evaluation.sharing.measure [--runs 10]
"""

import argparse
import contextlib
import sys
from collections import Counter
from pathlib import Path

from ftbench.document.model import Options, Results
from ftbench.rounds import why
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.scenarios import own
from ftbench.stats.sharing import Why
from ftrun.interruption import Interruption

PLANTED = {"Counted": "counter", "LookedUp": "vocabulary", "Locked": "with LOCK", "Apart": ""}
"""{dataset: the attribute, or a part of the line, that has to be named; "" for none}"""
FILE = Path(__file__).with_name("planted.py")


def answer(dataset: str, interruption: Interruption) -> Why:
    """Return the conclusions of a quick run."""
    options = Options(
        scenarios=[own.SCENARIO.name],
        quick=True,
        out="",
        budget=0.0,
        configs=["ft"],
        twins={"ft": sys.executable},
    )
    results, scenario = Results(options, started=""), own.scenario(f"{FILE}:{dataset}")
    with contextlib.closing(Twins()) as twins, Display(results) as display:
        return why.measure(results, scenario, twins, display, interruption)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="of each dataset, twice of Apart")
    runs = parser.parse_args().runs
    right, total = Counter(), Counter()
    with Interruption() as interruption:
        for dataset in [*PLANTED, "Apart"] * runs:
            part, conclusions = PLANTED[dataset], answer(dataset, interruption)
            names = [culprit.name for culprit in conclusions.culprits]
            names += [line for line, _ in conclusions.waits]
            right[dataset] += any(part in name for name in names) if part else not names
            total[dataset] += 1
            harms = ", ".join(f"{p.name} {p.harm.ratio:.2f}" for p in conclusions.parts)
            load = "; ".join(conclusions.disturbances)
            print(f"{dataset}: names {names}; {harms}; {load}", flush=True)
            print(", ".join(f"{name} {right[name]} of {total[name]}" for name in total), flush=True)


if __name__ == "__main__":
    main()
