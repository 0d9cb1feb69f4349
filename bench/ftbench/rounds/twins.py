"""The twins of a run: connecting to them, describing and checking them."""

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from ftbench.document.model import SkippedPart
from ftbench.plan.candidates import VARIANTS
from ftbench.trial.endpoints import Endpoint, LocalEndpoint, connect
from ftrun.configurations import TWIN
from ftrun.errors import OverlayError, TwinError
from ftrun.interruption import Interruption
from ftrun.overlay import absent, install

NEEDED = ("torch", "numpy", "pillow", "psutil")
# Packages that only some variants need.
PEERS = sorted(set(itertools.chain.from_iterable(map(attrgetter("packages"), VARIANTS.values()))))
OLDEST = (3, 13)
BUILDS = {True: "free-threaded", False: "built with the GIL"}
INSTALL = "install docker/requirements.lock there, or use ./twins, which does"


@dataclass
class Twins:
    """The connected twins of a run: their endpoints and environments by name, "ft" or "gil"."""

    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    environments: dict[str, dict] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    """Reason why a twin cannot have the packages that the user's dataset needs,
    by the twin's name.
    """

    def close(self) -> None:
        for endpoint in self.endpoints.values():
            endpoint.close()

    def add(self, twin: str, where: str, interruption: Interruption) -> None:
        """Connect to the twin at `where`, and check that it can run the benchmark;
        raises TwinError or Interrupted.

        The connection of an earlier run is used again:
        a server in another container ends when its client goes.
        """
        self.lacking.pop(twin, None)  # of an earlier run
        endpoint = self.endpoints.get(twin)
        option = f"--twin {twin}={where}"
        if endpoint is None or endpoint.closed:
            endpoint = self.endpoints[twin] = connect(where, interruption)
        description = endpoint.describe()
        python = description["interpreter"]
        if python["twin"] != twin:
            build = BUILDS[python["free_threaded"]]
            raise TwinError(
                f"{option}: that Python is {build}, so it is the {python['twin']!r} twin"
            )
        if tuple(map(int, python["version"].split(".")[:2])) < OLDEST:
            raise TwinError(
                f"{option}: Python {python['version']} is too old, the benchmark needs 3.13 or "
                f"newer"
            )
        if missing := _missing(description["packages"], NEEDED):
            raise TwinError(f"{option}: {', '.join(missing)} not installed there; {INSTALL}")
        self.environments[twin] = {"endpoint": endpoint.name, **description}

    def add_packages(
        self, requirements: Sequence[str], cache: Path, work: Path, interruption: Interruption
    ) -> None:
        """Install the `requirements` that each twin lacks into a folder in `work`;
        record failures in `lacking`.

        Raises TwinError if a twin in another container lacks any,
        since nothing can be installed there.
        """
        pins: list[str] = []
        # The free-threaded twin first: fewer wheels fit it.
        # The other twin then takes the same versions.
        for twin, endpoint in sorted(self.endpoints.items()):
            installed = self.environments[twin]["packages"]
            if not isinstance(endpoint, LocalEndpoint):
                lacking = [name for name in requirements if absent(name, installed)]
                if not lacking:
                    continue
                raise TwinError(
                    f"the run needs {', '.join(lacking)}, and the containers have no network: "
                    "derive an image with the packages (docs/benchmark.md)"
                )
            try:
                folder = work / twin
                pins = install(
                    folder, endpoint.python, requirements, installed, cache, interruption, pins
                )
                endpoint.packages = str(folder)
            except OverlayError as error:
                self.lacking[twin] = str(error)

    def check_source(self, source: str) -> None:
        """Raise TwinError if a twin would run another version of the benchmark than `source`, a
        hash of its files.
        """
        for twin, environment in self.environments.items():
            if environment["source"] != source:
                raise TwinError(
                    f"the {twin} twin ({environment['endpoint']}) has another version of loader/ "
                    "or bench/ than this: rebuild the images, or use the same checkout for both"
                )

    def differences(self) -> list[str]:
        """Return a warning for each difference, other than the GIL, between the twins' Pythons,
        builds or packages.
        """
        if len(self.environments) < 2:
            return []
        ft = _facts(self.environments["ft"])
        gil = _facts(self.environments["gil"])
        warnings = []
        for part in ft:
            if ft[part] != gil[part]:
                warnings.append(
                    f"the twins differ in more than the GIL: {part} is {ft[part]} in ft and "
                    f"{gil[part]} in gil"
                )
        return warnings

    def lacks(self, twin: str, variant: str) -> str:
        """Return the reason why a variant cannot be measured in a twin;
        an empty string if it can.
        """
        missing = _missing(self.environments[twin]["packages"], VARIANTS[variant].packages)
        if not missing:
            return ""
        return f"{', '.join(missing)} not installed in the {twin} twin; {INSTALL}"

    def usable_cpus(self) -> int:
        """Return the smallest number of CPUs that any twin can use."""
        return min(e["cpu"]["usable"] for e in self.environments.values())

    def cpus_of_rank(self, ranks: int) -> int:
        """Return the number of CPUs for each of *ranks* ranks, at least 1."""
        return max(1, self.usable_cpus() // ranks)

    def memory(self) -> dict[str, dict]:
        """Return {twin's name: its sizes of memory and /dev/shm,
        in bytes} (ftrun.environment.memory).
        """
        return {twin: e["memory"] for twin, e in self.environments.items()}


def _missing(packages: Container[str], names: Iterable[str]) -> list[str]:
    """Return the *names* that are not among the *packages*."""
    return [name for name in names if name not in packages]


def _facts(environment: dict) -> dict[str, str | None]:
    """Return what should be equal in both twins: {title: value}."""
    python = environment["interpreter"]
    packages = environment["packages"]
    build = python["build"]
    if python["lto"]:
        build += " with LTO"
    facts = {"Python": python["version"], "build": build, "compiler": python["compiler"]}
    for name in (*NEEDED, *PEERS):
        facts[name] = packages.get(name)
    return facts


def cpus_in_words(number: int) -> str:
    """Return a number of CPUs in words: "1 CPU", "4 CPUs"."""
    return "1 CPU" if number == 1 else f"{number} CPUs"


def split_configs(
    configs: Iterable[str], twins: Mapping[str, str]
) -> tuple[list[str], list[SkippedPart]]:
    """Return the configurations that these twins can measure,
    and a SkippedPart for each of the others.
    """
    kinds = {"ft": "free-threaded interpreter", "gil": "interpreter with the GIL"}
    kept, skipped = [], []
    for config in configs:
        twin = TWIN[config]
        if twin in twins:
            kept.append(config)
            continue
        remedy = f"--twin {twin}=...; ./twins bench and the images give both"
        why = f"no {kinds[twin]} was given ({remedy})"
        skipped.append(SkippedPart(f"configuration {config}", why))
    return kept, skipped
