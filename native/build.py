"""Build of both twins. Steps whose results are in the cache are skipped.

    system packages -> source -> interpreter ft  -+
                              -> interpreter gil -+-> environment ft, environment gil
                    -> CUDA libraries ------------+

Steps that do not depend on each other run at the same time. Where uv has downloaded both
interpreters (native.download), there is neither source nor compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from . import TwinsError, cache, download, interpreters, machine
from .progress import Progress, clock
from .variables import CLEARED

CHECKOUT = Path(__file__).resolve().parent.parent
SCRIPTS = CHECKOUT / "docker"
SOURCES = tuple(str(CHECKOUT / folder) for folder in ("loader", "bench", "safety", "runtime"))
"""Folders that hold the packages of this project."""
TWINS = ("ft", "gil")

# Disk space in GB for sources, builds, packages and uv's cache: measured, plus a margin.
NEEDED_GB = {"cuda": 5.0, "environment": 3.0, "interpreter": 1.0}

# Milliseconds after which CPython's allocator gives freed memory back, without the GIL. Its default
# of 10 makes threads fault the same memory in for each sample (docs/interpreters.md). The
# Dockerfiles set the same.
PURGE_DELAY = "1000"


@dataclass(frozen=True)
class Twin:
    """A finished twin: its environment's directory, the Python in it,
    the version, `pgo` (True if optimised), the release if the interpreter was downloaded.
    """

    name: str
    directory: Path
    python: Path
    version: str
    pgo: bool
    release: str = ""

    @property
    def label(self) -> str:
        """Return a name for users, such as "CPython 3.13.9";
        if the build is plain, or downloaded, the name says so.
        """
        kind = "" if self.pgo else ", plain build (no PGO)"
        if self.release:
            kind += f", python-build-standalone {self.release}"
        return f"CPython {self.version}{kind}"

    def environment(self, cleared: Collection[str] = CLEARED) -> dict[str, str]:
        """Return this process's environment variables, changed for a command in this twin,
        without the variables that *cleared* names.
        """
        variables = {name: value for name, value in os.environ.items() if name not in cleared}
        variables["VIRTUAL_ENV"] = str(self.directory)
        variables["PATH"] = (
            f"{self.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
        )
        # Our packages come from this checkout, not from the environment, which all clones share.
        folders = list(SOURCES)
        if variables.get("PYTHONPATH"):
            folders.append(variables["PYTHONPATH"])
        variables["PYTHONPATH"] = os.pathsep.join(folders)
        variables.setdefault("MIMALLOC_PURGE_DELAY", PURGE_DELAY)
        # A notebook names a module of its own environment. Elsewhere matplotlib cannot be imported
        # with this setting.
        if variables.get("MPLBACKEND", "").startswith("module://"):
            del variables["MPLBACKEND"]
        return variables


def series() -> str:
    """Return the series of CPython for the twins. Raises TwinsError
    if the twins do not exist for that series.

    The variable PYTHON_SERIES decides, else the interpreter in FT_PYTHON
    or GIL_PYTHON, else docker/python-series.
    """
    named = os.environ.get("PYTHON_SERIES")
    chosen, source = named, "PYTHON_SERIES="
    if not chosen:
        chosen, source = interpreters.brought_series(), "your interpreter is of CPython "
        if chosen not in (*interpreters.SERIES, "3.15"):  # brought() refuses others
            chosen = (SCRIPTS / "python-series").read_text().strip()
    if chosen not in interpreters.SERIES:
        raise TwinsError(
            f"{source}{chosen}: the twins exist for {' and '.join(interpreters.SERIES)}. `./twins "
            "info --requirements docker/requirements.lock` shows which of the locked packages lack "
            "wheels for 3.15t",
            2,
        )
    return chosen


def suite() -> str:
    """Return the Debian suite to take CPython's source from, such as "sid":
    PYTHON_SUITE, or the series' default.
    """
    named = os.environ.get("PYTHON_SUITE")
    if named:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", named):
            raise TwinsError(
                f"PYTHON_SUITE={named}: must be a Debian suite such as trixie, forky or sid", 2
            )
        return named
    return _output([SCRIPTS / "fetch-cpython", "--default-suite", series()])


def has_cuda() -> bool:
    """Return False if the variable CUDA asks for twins without CUDA. Raises TwinsError if it is
    neither yes nor no.
    """
    named = os.environ.get("CUDA") or "yes"
    # Some systems set it to the folder of their CUDA.
    if named not in ("yes", "no") and not named.startswith("/"):
        raise TwinsError(f"CUDA={named}: must be yes or no", 2)
    return named != "no"


def _output(command: list) -> str:
    return subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:10]


class Plan:
    """Paths in the cache for the parts of both twins: source,
    interpreters, CUDA libraries and environments.

    `pgo` is True for the paths of optimised builds, False for those of plain builds. `downloaded`
    is True if the interpreters are those that uv downloads, which are optimised.
    """

    def __init__(self, pgo: bool, downloaded: bool = False) -> None:
        self.pgo = pgo
        self.downloaded = downloaded
        self.root = cache.root()
        # Other patches give another source.
        patches = [
            SCRIPTS / "patch-cpython",
            SCRIPTS / "patches.txt",
            *sorted((SCRIPTS / "patches").rglob("*.patch")),
        ]
        recipe = _hash(b"".join(path.read_bytes() for path in patches))
        self.source = self.root / "source" / f"{series()}-{suite()}-{recipe}"
        # The locked uv has the list of releases in it, unless the user names another list.
        releases = (SCRIPTS / "uv.lock").read_text() + os.environ.get(download.LIST, "")
        self.download = (
            self.root / "interpreters" / f"cpython-{series()}-downloaded-{_hash(releases.encode())}"
        )
        self.brought = {twin: interpreters.brought(twin, series()) for twin in TWINS}
        lock = (SCRIPTS / "requirements.lock").read_bytes()
        self.has_cuda = has_cuda()
        self.packages = _hash(lock) + ("" if self.has_cuda else "-cpu")
        self.cuda = self.root / "cuda" / _hash(b"".join(re.findall(rb"^nvidia-[^ ]+", lock, re.M)))
        quality = [] if pgo else ["--no-pgo"]
        self._flags = _output([SCRIPTS / "build-cpython", "--print-flags", *quality])
        self._compiler = self._find_compiler()

    def _find_compiler(self) -> str:
        try:
            return "gcc" + _output(["gcc", "-dumpfullversion"])
        except (OSError, subprocess.SubprocessError):
            # No compiler yet: a build installs one first. A copied cache is used as it is.
            stamps = sorted(self.root.glob(f"interpreters/cpython-{series()}.*-gcc*/{cache.STAMP}"))
            return stamps[-1].parent.name.split("-")[-2] if stamps else "gcc"

    def interpreter(self, twin: str) -> Path:
        """Return the directory for `twin`'s interpreter, which may not be built yet.

        Until the source is fetched, the path has "unknown" in place of CPython's version.
        """
        if self.downloaded:
            return self.download / twin
        source = cache.finished(self.source) or {"version": "unknown", "patches": "unknown"}
        quality = "pgo" if self.pgo else "plain"
        flags = _hash(f"{self._flags} {source['patches']}".encode())
        name = f"cpython-{source['version']}-{twin}-{quality}-{self._compiler}-{flags}"
        return self.root / "interpreters" / name

    def environment(self, twin: str) -> Path:
        """Return the directory for `twin`'s environment,
        named after interpreter and a hash of requirements.lock, with "-cpu" if it has no CUDA.
        """
        facts = self.brought[twin]
        if facts:
            return (
                self.root
                / "environments"
                / f"own-{facts['version']}-{twin}-{facts['identity']}-{self.packages}"
            )
        name = self.interpreter(twin).name
        if self.downloaded:
            name = f"{self.download.name}-{twin}"
        return self.root / "environments" / f"{name}-{self.packages}"

    def origin(self) -> str:
        """Return words on where the interpreters come from, and their optimisation."""
        if self.downloaded:
            return "downloaded, optimised (PGO)"
        quality = "optimised (PGO)" if self.pgo else "plain (no PGO)"
        return f"from Debian {suite()}, {quality}"

    def present(self) -> int:
        """Return the number of twins whose environment or interpreter is in the cache. Twins that
        use FT_PYTHON or GIL_PYTHON do not count.
        """
        return sum(
            bool(self.twin(name)) or not _is_missing(self.part(name))
            for name in TWINS
            if not self.brought[name]
        )

    def part(self, twin: str) -> Path:
        """Return the part of the cache that holds `twin`'s interpreter."""
        if self.downloaded:
            return self.download
        return self.interpreter(twin)

    def twin(self, name: str) -> Twin | None:
        """Return the twin called `name`, or None if its environment is not finished."""
        directory = self.environment(name)
        record = cache.finished(directory)
        if not record:
            return None
        python = directory / "bin" / "python"
        release = record.get("release", "")
        return Twin(name, directory, python, record["version"], record["pgo"], release)

    def optimised_before(self, names: Collection[str]) -> bool:
        """True if the cache has an optimised interpreter for each twin in `names`.

        Only interpreters of the current series, built by the C compiler of this machine, count.
        """
        built: set[str] = set()
        for directory in (self.root / "interpreters").glob(
            f"cpython-{series()}.*-pgo-{self._compiler}-*"
        ):
            if cache.finished(directory) is not None:
                built.update(name for name in names if f"-{name}-" in directory.name)
        return built == set(names)

    def twins(self, names: Collection[str]) -> dict[str, Twin] | None:
        """Return the twins called `names`, by name, or None if one of them is not finished."""
        ready = {}
        for name in names:
            twin = self.twin(name)
            if twin is None:
                return None
            ready[name] = twin
        return ready


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def twins(
    names: Collection[str] = TWINS,
    quality: str = "any",
    say: Callable[[str], None] = _say,
    agreed: bool = False,
) -> dict[str, Twin]:
    """Return the twins called `names`, by name, after building those that are missing. `say` gets
    messages for users.

    Args:
        quality: "pgo" for optimised builds, "plain" for plain ones, "any" for twins that are built
            already, of either kind. If "any" finds none, it builds optimised twins if the cache has
            their interpreters, else plain ones.
        agreed: True if missing system packages may be installed without asking.
    """
    machine.check_platform()
    plan, ready = _in_cache(names, quality)
    if ready:
        return ready
    with cache.locked(say) as lock:
        # Another ./twins may have built them while this one waited.
        plan, ready = _in_cache(names, quality)
        if not ready:
            plan = plan or _downloaded(lock, say, agreed) or Plan(_qualities(quality)[-1])
            if quality == "any" and not plan.downloaded:
                plan = Plan(plan.pgo or plan.optimised_before(names))
            _Builder(plan, names, lock).build(agreed)
            # If this build installed the compiler, the directories' names have changed: they
            # contain its version.
            ready = Plan(plan.pgo, plan.downloaded).twins(names)
            assert ready, "a build that succeeded left its twins"
    _warn_if_unequal(ready, say)
    return ready


def finished() -> dict[str, Twin]:
    """Return both twins by name: optimised ones, else plain ones.
    Raises TwinsError if neither pair is built.
    """
    _, ready = _in_cache(TWINS, "any")
    if not ready:
        raise TwinsError(
            f"the twins are not built in {cache.root()}: run ./twins setup on this machine"
        )
    return ready


def _qualities(quality: str) -> tuple[bool, ...]:
    """Return `Plan.pgo` of the source builds that will do, preferred ones first."""
    return {"pgo": (True,), "plain": (False,), "any": (True, False)}[quality]


def _plans(quality: str) -> Iterator[Plan]:
    """Yield the plans that `quality` and PYTHON_FROM allow, preferred ones first."""
    best, *worse = _qualities(quality)
    choice = download.choice()
    if choice != "download":
        yield Plan(best)
    if choice != "source":
        yield Plan(True, downloaded=True)
    if choice != "download":
        yield from map(Plan, worse)


def _in_cache(names: Collection[str], quality: str) -> tuple[Plan | None, dict[str, Twin] | None]:
    """Return the plan whose interpreters are in the cache, None if no plan has any, and its twins
    called `names`, None if one of them is not finished.

    Looks at both twins, whichever of them `names` names: both have to come from one place.
    """
    plans = []
    for plan in _plans(quality):
        if all(plan.brought[name] for name in names) or plan.twins(TWINS):
            return plan, plan.twins(names)
        plans.append(plan)
    plan = max(plans, key=Plan.present)  # of equal ones the first
    if not plan.present():
        return None, None
    return plan, plan.twins(names)


def _downloaded(lock: int, say: Callable[[str], None], agreed: bool) -> Plan | None:
    """Download the interpreters if PYTHON_FROM allows it; return their plan. Return None, and say
    so, if the download fails and they may be built from source.
    """
    choice = download.choice()
    if choice == "source":
        return None
    plan = Plan(True, downloaded=True)
    try:
        with sigterm_as_ctrl_c():
            words = download.run(
                plan.download,
                series(),
                lock,
                _variables(plan),
                agreed,
                probed=choice == "auto",
            )
    except TwinsError as error:
        if choice == "download" or error.exit_code != 1:
            raise
        say(
            "The interpreters are built from source; they could not be downloaded: "
            f"{download.reason(error)}"
        )
        return None
    say(f"The interpreters were downloaded: {words}")
    return plan


def _warn_if_unequal(ready: dict[str, Twin], say: Callable[[str], None]) -> None:
    builds = {(twin.version, twin.pgo, twin.release) for twin in ready.values()}
    if len(builds) > 1:
        labels = "; ".join(f"{twin.name} is {twin.label}" for twin in ready.values())
        say(f"warning: these are not twins: they differ in more than the GIL: {labels}")


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Context manager for the main thread: during the block,
    SIGTERM raises KeyboardInterrupt, as Ctrl-C does.
    """

    def interrupt(number, frame) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@dataclass(frozen=True)
class _Missing:
    """Parts of a plan that are to be built."""

    environments: list[str]
    """Names of the twins that lack their environment."""
    interpreters: list[str]
    """Names of the twins whose interpreter is to be compiled."""
    source: bool
    cuda: bool

    def gigabytes(self) -> float:
        """Return the disk space that the parts need."""
        return (
            NEEDED_GB["environment"] * len(self.environments)
            + NEEDED_GB["interpreter"] * len(self.interpreters)
            + NEEDED_GB["cuda"] * self.cuda
        )

    def steps(self) -> int:
        """Return the number of steps of the build; an environment takes two."""
        return self.source + len(self.interpreters) + self.cuda + 2 * len(self.environments)

    def system_packages(self) -> list[str]:
        """Return the Debian packages that the build needs."""
        packages = []
        if self.interpreters:
            packages += (SCRIPTS / "build-packages.txt").read_text().split()
            # It brings the library that ftloader.decode uses.
            # Debian and Ubuntu name that differently.
            packages.append("libturbojpeg0-dev")
        if self.cuda and importlib.util.find_spec("ensurepip") is None:
            # without it Debian's python3 cannot make virtual environments
            packages.append("python3-venv")
        return packages


def _missing(plan: Plan, names: Collection[str]) -> _Missing:
    environments = [name for name in TWINS if name in names and not plan.twin(name)]
    built = []
    if not plan.downloaded:
        built = [name for name in environments if not plan.brought[name]]
    return _Missing(
        environments,
        interpreters=[name for name in built if _is_missing(plan.interpreter(name))],
        source=bool(built) and _is_missing(plan.source),
        cuda=plan.has_cuda and _is_missing(plan.cuda),
    )


def _is_missing(directory: Path) -> bool:
    return cache.finished(directory) is None


def _variables(plan: Plan) -> dict[str, str]:
    """Return the environment variables for the commands of a build."""
    variables = dict(os.environ)
    # uv hard-links files from its cache into environments,
    # which works only within one file system.
    variables.setdefault("UV_CACHE_DIR", str(plan.root / "uv"))
    # These are meant for the caller's Python, not for the build.
    for name in (*CLEARED, "PYTHONPATH", "PYTHON_GIL", "PYTHONDONTWRITEBYTECODE", "MPLBACKEND"):
        variables.pop(name, None)
    return variables


class _Builder:
    """Builder of those directories of a plan that are missing.
    The build's steps run in a pool of threads.
    """

    def __init__(self, plan: Plan, names: Collection[str], lock: int) -> None:
        self._plan = plan
        self._missing = _missing(plan, names)
        self._lock = lock
        self._env = _variables(plan)

    def build(self, agreed: bool) -> None:
        """Build all that is missing. If `agreed` is true,
        install missing system packages without asking.
        """
        plan, missing = self._plan, self._missing
        packages = missing.system_packages()
        install = machine.install_command(packages, agreed) if packages else None
        machine.check_space(plan.root, missing.gigabytes())

        total = bool(install) + missing.steps()
        logs = plan.root / "logs" / time.strftime("%Y%m%d-%H%M%S")
        begin = time.monotonic()
        title = " and ".join(missing.environments)
        with (
            Progress(logs, total) as progress,
            ThreadPoolExecutor(8, "step") as pool,
            sigterm_as_ctrl_c(),
        ):
            self._progress = progress
            progress.say(
                f"Building {title}: CPython {series()} {plan.origin()}"
                f"{'' if plan.has_cuda else ', without CUDA'}; "
                f"{total} steps; the result is kept in {plan.root}"
            )
            try:
                if install:
                    self._run("system packages", install)
                    self._plan = Plan(plan.pgo)  # as in twins()
                self._run_all(pool)
            except KeyboardInterrupt:
                progress.stop()
                progress.say("what was finished is kept, the rest is built again next time")
                raise
            progress.say(f"Built {title} in {clock(time.monotonic() - begin)}")

    def _run_all(self, pool: ThreadPoolExecutor) -> None:
        done, _ = wait(self._submit(pool), return_when=FIRST_EXCEPTION)
        errors = list(filter(None, (future.exception() for future in done)))
        if errors:
            self._progress.stop()  # so that the message does not wait for the other steps
            # these say nothing about the cause
            errors.sort(key=lambda error: str(error) == "stopped")
            raise errors[0]

    def _submit(self, pool: ThreadPoolExecutor) -> list[Future]:
        """Start the steps in the pool; a step waits for those that it needs."""
        futures: list[Future] = []
        needs: dict[str, list[Future]] = {name: [] for name in self._missing.environments}
        source = None
        if self._missing.source:
            source = pool.submit(self._source)
            futures.append(source)
        if self._missing.cuda:
            libraries = pool.submit(self._cuda)
            futures.append(libraries)
            for prerequisites in needs.values():
                prerequisites.append(libraries)
        for name in self._missing.interpreters:
            compilation = pool.submit(self._interpreter, name, source)
            futures.append(compilation)
            needs[name].append(compilation)
        for name in self._missing.environments:
            futures.append(pool.submit(self._environment, name, needs[name]))
        return futures

    def _run(self, step: str, command: list) -> None:
        self._progress.run(step, command, self._lock, self._env)

    def _source(self) -> None:
        directory = self._plan.source
        cache.start(directory)
        self._run("CPython source", [SCRIPTS / "fetch-cpython", series(), suite(), directory])
        patches = _hash((directory / "cpython" / "PATCHES").read_bytes())
        cache.finish(
            directory, {"version": (directory / "version").read_text().strip(), "patches": patches}
        )

    def _interpreter(self, name: str, source: Future | None) -> None:
        if source:
            source.result()
        plan = self._plan
        directory = plan.interpreter(name)
        if cache.finished(directory):
            return  # a new patch list gave the same patched source
        cache.start(directory)
        work = directory / "build"
        where = ("--source", plan.source / "cpython", "--prefix", directory, "--build", work)
        quality = [] if plan.pgo else ["--no-pgo"]
        self._run(
            f"interpreter {name}", [SCRIPTS / "build-cpython", "--twin", name, *where, *quality]
        )
        shutil.rmtree(work)
        cache.finish(directory, {"pgo": plan.pgo})

    def _cuda(self) -> None:
        cache.start(self._plan.cuda)
        into = self._plan.cuda / "packages"
        self._run(
            "CUDA libraries",
            [SCRIPTS / "install-packages", "--cuda", into, "--python", sys.executable],
        )
        cache.finish(self._plan.cuda, {})

    def _environment(self, name: str, needs: list[Future]) -> None:
        for future in needs:
            future.result()
        plan = self._plan
        if plan.twin(name):
            return  # see _interpreter; programs may be running in this environment
        brought = plan.brought[name]
        base = brought["executable"] if brought else plan.interpreter(name) / "bin" / "python3"
        directory = plan.environment(name)
        cache.start(directory)
        python = directory / "bin" / "python"
        script = '"$1" -I -m venv "$2"; "$3" --cuda "$4" --python "$5" --into "$5"'
        words = (base, directory, SCRIPTS / "install-packages", plan.cuda / "packages", python)
        self._run(f"packages {name}", ["sh", "-ec", script, "sh", *words])
        verify = (python, "-P", "-m", "ftrun.info", "--verify", "--expect", name)
        self._run(f"verify {name}", ["env", f"PYTHONPATH={CHECKOUT / 'runtime'}", *verify])
        version = _output([python, "-I", "-c", "import platform; print(platform.python_version())"])
        facts = brought or cache.finished(plan.part(name)) or {"pgo": plan.pgo}
        record = {"version": version, "pgo": facts["pgo"], "release": facts.get("release", "")}
        cache.finish(directory, record)
