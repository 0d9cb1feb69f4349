"""Build of both twins. Steps whose results are in the cache are skipped.

    system packages -> source -> interpreter ft  -+
                              -> interpreter gil -+-> environment ft, environment gil
                    -> CUDA libraries ------------+

Steps that do not depend on each other run at the same time.
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

from . import TwinsError, cache, interpreters, machine
from .progress import Progress, clock
from .variables import CLEARED

CHECKOUT = Path(__file__).resolve().parent.parent
SCRIPTS = CHECKOUT / "docker"
SOURCES = tuple(str(CHECKOUT / folder) for folder in ("loader", "bench", "safety", "runtime"))
"""Folders that hold the packages of this project."""
TWINS = ("ft", "gil")

# Disk space in GB for sources, builds, packages and uv's cache: measured, plus a margin.
NEEDED_GB = {"cuda": 5.0, "environment": 3.0, "interpreter": 1.0}

# Milliseconds after which CPython's allocator gives freed memory back, without the GIL. Its default of 10 makes threads
# fault the same memory in for each sample (docs/interpreters.md). The Dockerfiles set the same.
PURGE_DELAY = "1000"


@dataclass(frozen=True)
class Twin:
    """A finished twin: its environment's directory, the Python in it, the version, `pgo` (True if optimised)."""

    name: str
    directory: Path
    python: Path
    version: str
    pgo: bool

    @property
    def label(self) -> str:
        """Return a name for users, such as "CPython 3.13.9"; if the build is plain, the name says so."""
        return f"CPython {self.version}" + ("" if self.pgo else ", plain build (no PGO)")

    def environment(self, cleared: Collection[str] = CLEARED) -> dict[str, str]:
        """Return this process's environment variables, changed for a command in this twin, without those *cleared*."""
        variables = {name: value for name, value in os.environ.items() if name not in cleared}
        variables["VIRTUAL_ENV"] = str(self.directory)
        variables["PATH"] = f"{self.directory / 'bin'}{os.pathsep}{variables.get('PATH', os.defpath)}"
        # Our packages come from this checkout, not from the environment, which all clones share.
        variables["PYTHONPATH"] = os.pathsep.join([*SOURCES, *filter(None, [variables.get("PYTHONPATH")])])
        variables.setdefault("MIMALLOC_PURGE_DELAY", PURGE_DELAY)
        # A notebook names a module of its own environment. Elsewhere matplotlib cannot be imported with this setting.
        if variables.get("MPLBACKEND", "").startswith("module://"):
            del variables["MPLBACKEND"]
        return variables


def series() -> str:
    """Return the series of CPython for the twins. Raises TwinsError if the twins do not exist for that series.

    The variable PYTHON_SERIES decides, else the interpreter in FT_PYTHON or GIL_PYTHON, else docker/python-series.
    """
    named, own = os.environ.get("PYTHON_SERIES"), interpreters.brought_series()
    if own not in (*interpreters.SERIES, "3.15"):
        own = None  # brought() refuses it
    wanted = named or own or (SCRIPTS / "python-series").read_text().strip()
    if wanted not in interpreters.SERIES:
        raise TwinsError(
            f"{'PYTHON_SERIES=' if named else 'your interpreter is of CPython '}{wanted}: the twins exist for "
            f"{' and '.join(interpreters.SERIES)}. `./twins info --requirements docker/requirements.lock` shows which "
            "of the locked packages lack wheels for 3.15t",
            2,
        )
    return wanted


def suite() -> str:
    """Return the Debian suite to take CPython's source from, such as "sid": PYTHON_SUITE, or the series' default."""
    named = os.environ.get("PYTHON_SUITE")
    if named:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", named):
            raise TwinsError(f"PYTHON_SUITE={named}: must be a Debian suite such as trixie, forky or sid", 2)
        return named
    return _output([SCRIPTS / "fetch-cpython", "--default-suite", series()])


def _output(command: list) -> str:
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:10]


class Plan:
    """Paths in the cache for the parts of both twins: source, interpreters, CUDA libraries and environments.

    `pgo` is True for the paths of optimised builds, False for those of plain builds.
    """

    def __init__(self, pgo: bool) -> None:
        self.pgo = pgo
        self.root = cache.root()
        # Other patches give another source.
        patches = [SCRIPTS / "patch-cpython", SCRIPTS / "patches.txt", *sorted((SCRIPTS / "patches").rglob("*.patch"))]
        recipe = _hash(b"".join(path.read_bytes() for path in patches))
        self.source = self.root / "source" / f"{series()}-{suite()}-{recipe}"
        self.own = {twin: interpreters.brought(twin, series()) for twin in TWINS}
        lock = (SCRIPTS / "requirements.lock").read_bytes()
        self.packages = _hash(lock)
        self.cuda = self.root / "cuda" / _hash(b"".join(re.findall(rb"^nvidia-[^ ]+", lock, re.M)))
        self._flags = _output([SCRIPTS / "build-cpython", "--print-flags", *([] if pgo else ["--no-pgo"])])
        try:
            self._compiler = "gcc" + _output(["gcc", "-dumpfullversion"])
        except (OSError, subprocess.SubprocessError):
            # No compiler yet: a build installs one first. A copied cache is used as it is.
            stamps = sorted(self.root.glob(f"interpreters/cpython-{series()}.*-gcc*/{cache.STAMP}"))
            self._compiler = stamps[-1].parent.name.split("-")[-2] if stamps else "gcc"

    def interpreter(self, twin: str) -> Path:
        """Return the directory for `twin`'s interpreter, which may not be built yet.

        Until the source is fetched, the path has "unknown" in place of CPython's version.
        """
        source = cache.finished(self.source) or {"version": "unknown", "patches": "unknown"}
        quality = "pgo" if self.pgo else "plain"
        flags = _hash(f"{self._flags} {source['patches']}".encode())
        name = f"cpython-{source['version']}-{twin}-{quality}-{self._compiler}-{flags}"
        return self.root / "interpreters" / name

    def environment(self, twin: str) -> Path:
        """Return the directory for `twin`'s environment, named after interpreter and a hash of requirements.lock."""
        own = self.own[twin]
        if own:
            return self.root / "environments" / f"own-{own['version']}-{twin}-{own['identity']}-{self.packages}"
        return self.root / "environments" / f"{self.interpreter(twin).name}-{self.packages}"

    def twin(self, name: str) -> Twin | None:
        """Return the twin called `name`, or None if its environment is not finished."""
        directory = self.environment(name)
        record = cache.finished(directory)
        if not record:
            return None
        return Twin(name, directory, directory / "bin" / "python", record["version"], record["pgo"])

    def optimised_before(self, names: Collection[str]) -> bool:
        """True if the cache has an optimised interpreter for each twin in `names`.

        Only interpreters of the current series, built by the C compiler of this machine, count.
        """
        there = (self.root / "interpreters").glob(f"cpython-{series()}.*-pgo-{self._compiler}-*")
        built = [each.name for each in there if cache.finished(each) is not None]
        return all(any(f"-{name}-" in one for one in built) for name in names)

    def twins(self, names: Collection[str]) -> dict[str, Twin] | None:
        """Return the twins called `names`, by name, or None if one of them is not finished."""
        found = {name: twin for name in names if (twin := self.twin(name))}
        return found if len(found) == len(names) else None


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def twins(
    names: Collection[str] = TWINS, quality: str = "any", say: Callable[[str], None] = _say, agreed: bool = False
) -> dict[str, Twin]:
    """Return the twins called `names`, by name, after building those that are missing. `say` gets messages for users.

    Args:
        quality: "pgo" for optimised builds, "plain" for plain ones, "any" for twins that are built already, of either
            kind. If "any" finds none, it builds optimised twins if the cache has their interpreters, else plain ones.
        agreed: True if missing system packages may be installed without asking.
    """
    machine.check_platform()
    for pgo in {"pgo": (True,), "plain": (False,), "any": (True, False)}[quality]:
        plan = Plan(pgo)
        ready = plan.twins(names)
        if ready:
            return ready
    with cache.locked(say) as lock:
        plan = Plan(plan.pgo or (quality == "any" and plan.optimised_before(names)))
        ready = plan.twins(names)  # another ./twins may have built them while this one waited
        if not ready:
            _Builder(plan, names, lock).build(agreed)
            # If this build installed the compiler, the directories' names have changed: they contain its version.
            ready = Plan(plan.pgo).twins(names)
            assert ready, "a build that succeeded left its twins"
    _warn_if_unequal(ready, say)
    return ready


def finished() -> dict[str, Twin]:
    """Return both twins by name: optimised ones, else plain ones. Raises TwinsError if neither pair is built."""
    for pgo in (True, False):
        if ready := Plan(pgo).twins(TWINS):
            return ready
    raise TwinsError(f"the twins are not built in {cache.root()}: run ./twins setup on this machine")


def _warn_if_unequal(ready: dict[str, Twin], say: Callable[[str], None]) -> None:
    if len({(twin.version, twin.pgo) for twin in ready.values()}) > 1:
        say(
            "warning: these are not twins: they differ in more than the GIL: "
            + "; ".join(f"{twin.name} is {twin.label}" for twin in ready.values())
        )


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Context manager for the main thread: during the block, SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(number, frame) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


class _Builder:
    """Builder of those directories of a plan that are missing. The build's steps run in a pool of threads."""

    def __init__(self, plan: Plan, names: Collection[str], lock: int) -> None:
        self._plan = plan
        self._names = [name for name in TWINS if name in names and not plan.twin(name)]
        self._lock = lock
        self._env = dict(os.environ)
        # uv hard-links files from its cache into environments, which works only within one file system.
        self._env.setdefault("UV_CACHE_DIR", str(plan.root / "uv"))
        # These are meant for the caller's Python, not for the build.
        for name in (*CLEARED, "PYTHONPATH", "PYTHON_GIL", "PYTHONDONTWRITEBYTECODE", "MPLBACKEND"):
            self._env.pop(name, None)

    def build(self, agreed: bool) -> None:
        """Build all that is missing. If `agreed` is true, install missing system packages without asking."""
        plan = self._plan
        built = [name for name in self._names if not plan.own[name]]
        fetch = bool(built) and cache.finished(plan.source) is None
        compile_ = [name for name in built if cache.finished(plan.interpreter(name)) is None]
        cuda = cache.finished(plan.cuda) is None
        # libturbojpeg0-dev brings the library that ftloader.decode uses. Debian and Ubuntu name it differently.
        packages = [*(SCRIPTS / "build-packages.txt").read_text().split(), "libturbojpeg0-dev"]
        wanted = packages if compile_ else []
        if cuda and importlib.util.find_spec("ensurepip") is None:
            wanted.append("python3-venv")  # without it Debian's python3 cannot make virtual environments
        install = machine.install_command(wanted, agreed) if wanted else None
        machine.check_space(
            plan.root,
            NEEDED_GB["environment"] * len(self._names)
            + NEEDED_GB["interpreter"] * len(compile_)
            + NEEDED_GB["cuda"] * cuda,
        )

        total = bool(install) + fetch + len(compile_) + cuda + 2 * len(self._names)
        logs = plan.root / "logs" / time.strftime("%Y%m%d-%H%M%S")
        begin = time.monotonic()
        what = " and ".join(self._names)
        kind = "optimised (PGO)" if plan.pgo else "plain (no PGO)"
        with Progress(logs, total) as progress, ThreadPoolExecutor(8, "step") as pool, sigterm_as_ctrl_c():
            self._progress = progress
            progress.say(
                f"Building {what}: CPython {series()} from Debian {suite()}, {kind}; "
                f"{total} steps; the result is kept in {plan.root}"
            )
            try:
                if install:
                    self._run("system packages", install)
                    self._plan = Plan(plan.pgo)  # as in twins()
                self._run_all(pool, compile_, fetch, cuda)
            except KeyboardInterrupt:
                progress.stop()
                progress.say("what was finished is kept, the rest is built again next time")
                raise
            progress.say(f"Built {what} in {clock(time.monotonic() - begin)}")

    def _run_all(self, pool, compile_, fetch: bool, cuda: bool) -> None:
        libraries = pool.submit(self._cuda) if cuda else None
        source = pool.submit(self._source) if fetch else None
        compiled: dict[str, Future] = {name: pool.submit(self._interpreter, name, source) for name in compile_}
        futures: list[Future] = [future for future in (libraries, source, *compiled.values()) if future]
        for name in self._names:
            needs = [future for future in (compiled.get(name), libraries) if future]
            futures.append(pool.submit(self._environment, name, needs))
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        errors = [error for future in done if (error := future.exception())]
        if errors:
            self._progress.stop()  # so that the message does not wait for the other steps
            raise next((error for error in errors if str(error) != "stopped"), errors[0])

    def _run(self, step: str, command: list) -> None:
        self._progress.run(step, command, self._lock, self._env)

    def _source(self) -> None:
        directory = self._plan.source
        cache.start(directory)
        self._run("CPython source", [SCRIPTS / "fetch-cpython", series(), suite(), directory])
        patches = _hash((directory / "cpython" / "PATCHES").read_bytes())
        cache.finish(directory, {"version": (directory / "version").read_text().strip(), "patches": patches})

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
        self._run(f"interpreter {name}", [SCRIPTS / "build-cpython", "--twin", name, *where, *quality])
        shutil.rmtree(work)
        cache.finish(directory, {"pgo": plan.pgo})

    def _cuda(self) -> None:
        cache.start(self._plan.cuda)
        into = self._plan.cuda / "packages"
        self._run("CUDA libraries", [SCRIPTS / "install-packages", "--cuda", into, "--python", sys.executable])
        cache.finish(self._plan.cuda, {})

    def _environment(self, name: str, needs: list[Future]) -> None:
        for future in needs:
            future.result()
        plan = self._plan
        if plan.twin(name):
            return  # see _interpreter; programs may be running in this environment
        own = plan.own[name]
        base = own["executable"] if own else plan.interpreter(name) / "bin" / "python3"
        directory = plan.environment(name)
        cache.start(directory)
        python = directory / "bin" / "python"
        both = '"$1" -I -m venv "$2"; "$3" --cuda "$4" --python "$5" --into "$5"'
        words = (base, directory, SCRIPTS / "install-packages", plan.cuda / "packages", python)
        self._run(f"packages {name}", ["sh", "-ec", both, "sh", *words])
        verify = (python, "-P", "-m", "ftrun.info", "--verify", "--expect", name)
        self._run(f"verify {name}", ["env", f"PYTHONPATH={CHECKOUT / 'runtime'}", *verify])
        version = _output([python, "-I", "-c", "import platform; print(platform.python_version())"])
        cache.finish(directory, {"version": version, "pgo": own["pgo"] if own else plan.pgo})
