"""``python -m ftrun.info``: describe this environment,
and check its packages and GIL against the lock file.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from ftrun import environment, host, imports
from ftrun.errors import LockError
from ftrun.escape import any_locale

DESCRIPTION = """\
Describe this Python environment: interpreter and build flags, processor, memory, GPU, and what
importing the locked packages does to the GIL.

Lists what is wrong and exits with 1 if importing a locked package turns the GIL of a
free-threaded interpreter on, or if a locked package is missing or has another version.
--verify also wants a lock file, and the twin that --expect names. Image builds end with
this check.

--requirements looks at other packages instead, and at all that they need, without
installing them: is there a wheel for 3.13t, 3.14t and 3.15t, and does one of its extension
modules turn the GIL on? Exits with 1 if one does, with 2 if a package could not be judged,
with 3 if one is unclear or has no wheel. --import tries it, too, and so tells what is
unclear for this interpreter.

  info --requirements requirements.txt
  info --requirements msgpack 'numpy<2.5' --import
"""

PACKAGES = "list all locked packages, not only those with a problem"

TORCH_CUDA = """
import json, torch
available = torch.cuda.is_available()
devices = []
if available:
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps({"available": available, "built_for": torch.version.cuda, "devices": devices}))
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=host.command("python -m ftrun.info"),
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--packages", action="store_true", help=PACKAGES)
    parser.add_argument(
        "--verify", action="store_true", help="also exit with 1 without a lock file"
    )
    help_text = "with --verify: the twin that it must be, ft (free-threaded) or gil"
    parser.add_argument("--expect", choices=("ft", "gil"), help=help_text)
    help_text = "look at these packages (PEP 508), requirements files, pyproject.toml or lock files"
    parser.add_argument("--requirements", nargs="+", metavar="FILE|PACKAGE", help=help_text)
    help_text = (
        "with --requirements: import the packages in this interpreter, from a temporary folder"
    )
    parser.add_argument("--import", dest="import_too", action="store_true", help=help_text)
    help_text = "with --requirements: the folder for uv and its cache (default: a temporary one)"
    parser.add_argument("--cache", type=Path, metavar="DIR", help=help_text)
    help_text = f"the lock file to compare with (default: {imports.DEFAULT_LOCK})"
    parser.add_argument("--lock", type=Path, metavar="FILE", help=help_text)
    return parser


class Printer:
    """Printer of the facts about an environment, line by line, as they become known."""

    def __init__(self, packages: bool = False) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, soft_wrap=True)
        self._free_threaded = self._headed = False
        self._shows_all, self._packages, self._unfit = packages, 0, 0

    def facts(self, info: dict) -> None:
        """Print the quickly known facts of `collect`: interpreter,
        processor, memory, system, GPU, revision.
        """
        self._python(info["interpreter"])
        self._machine(info)
        self._line("GPU", _gpu(info["gpu"]))
        revision = info["revision"]
        changes = " + changes" if revision["dirty"] else ""
        self._line("revision", revision["commit"] + changes)

    def _python(self, python: dict) -> None:
        self._free_threaded = python["free_threaded"]
        gil = "on" if python["gil_enabled"] else "off"
        kind = "with the GIL"
        if self._free_threaded:
            kind = "free-threaded"
        self._line("Python", f"{python['version']} {kind}, GIL {gil} at start, {python['build']}")
        self._line("", python["executable"])
        if self._free_threaded:
            delay = python.get("mimalloc_purge_delay")
            setting = (
                "is not set: freed memory goes back after 10 ms" if delay is None else f"is {delay}"
            )
            self._line("allocator", f"mimalloc, MIMALLOC_PURGE_DELAY {setting}")
        self._line("configured with", python["config_args"] or "unknown")
        self._line("compiler", f"{python['compiler']}  {python['cflags']}")

    def _machine(self, info: dict) -> None:
        cpu, memory, system = info["cpu"], info["memory"], info["os"]
        quota = "no quota"
        if cpu["quota"] is not None:
            quota = f"quota {cpu['quota']:g}"
        usable = f"{cpu['usable']} usable of {cpu['count']} (affinity {cpu['affinity']}, {quota})"
        self._line("processor", f"{cpu['model']}: {usable}")
        limit = "no limit"
        if memory["limit"] is not None:
            limit = f"limit {_gib(memory['limit'])}"
        sizes = f"{_gib(memory['total'])}, {limit}, {_gib(memory['available'])} free"
        self._line("memory", f"{sizes}; /dev/shm {_gib(memory['shm_total'], 2)}")
        container = system["container"] or "no container"
        self._line("system", f"{system['name']}, Linux {system['kernel']}, {container}")

    def package(self, package: dict) -> None:
        """Print a locked package's row: its version and what importing it did to the GIL.

        By default, packages without a problem have no rows, as they would push the machine off the
        screen.
        """
        is_unfit = bool(package["errors"] or self._turned_on(package))
        self._packages += 1
        self._unfit += is_unfit
        if not (is_unfit or self._shows_all):
            return
        if not self._headed:
            self._headed = True
            self._print("Locked packages", "italic")
            self._print(
                f"{'package':<30} {'version':<14} {'extensions':>10}  GIL after import", "bold"
            )
        extensions = package["extensions"] or ""
        row = (
            f"{package['name']:<30} {package['installed']:<14} {extensions:>10}  "
            f"{self._state(package)}"
        )
        self._print(row, "red" if is_unfit else "")

    def _turned_on(self, package: dict) -> bool:
        return package["gil_enabled_after_import"] and self._free_threaded

    def _state(self, package: dict) -> str:
        if package["errors"]:
            return package["errors"][0]
        if self._turned_on(package):
            return "on: turned on by this import"
        return "on" if package["gil_enabled_after_import"] else "off"

    def end(self, info: dict) -> None:
        """Print the facts that `collect` finds last: a summary of the packages, the GPUs that torch
        sees, and remarks.
        """
        outcome = "can be imported"
        if self._free_threaded:
            outcome = "can be imported and leave the GIL off"
        if self._unfit:
            outcome = f"were imported, {self._unfit} with a problem"
        if self._packages and not self._shows_all:
            self._line("packages", f"{self._packages} locked ones {outcome} (--packages: all rows)")
        cuda = "cannot be imported"
        if (torch := info["gpu"]["torch"]) is not None:
            cuda = (
                f"built for CUDA {torch['built_for']}, sees "
                f"{', '.join(torch['devices']) or 'no GPU'}"
            )
            if torch["built_for"] is None:
                cuda = "built for CPUs alone"
        self._line("torch", cuda)
        for remark in info["remarks"]:
            self._line("note", remark)

    def _line(self, name: str, text: str) -> None:
        self._print(f"{name:<16} {text}")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text.rstrip(), style=style)
        sys.stdout.flush()


def _gib(size: int, digits: int = 1) -> str:
    return f"{size / 1024**3:.{digits}f} GiB"


def _gpu(gpu: dict) -> str:
    if not gpu["devices"]:
        return gpu["reason"]
    return f"{', '.join(gpu['devices'])}, driver {gpu['driver']}"


def collect(lock: Path | None, printer: Printer | None = None) -> dict:
    """Return facts about this environment and a list of problems;
    raises LockError if `lock` is unusable.

    `printer` prints each fact as soon as it is known,
    since importing all packages takes up to a minute.
    """
    cuda = subprocess.Popen(
        [sys.executable, "-P", "-c", TORCH_CUDA],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    info = environment.describe()
    info["revision"] = environment.revision()
    info["remarks"] = _remarks()
    pinned = {}
    lock = lock or _default_lock()
    if lock:
        pinned = imports.read_lock(lock)
        if imports.is_without_cuda(info["packages"]):
            pinned = imports.without_cuda(pinned)
    else:
        info["remarks"].append(f"no lock file at {imports.DEFAULT_LOCK}: packages are not compared")
    info["lock"] = lock and str(lock)
    if printer:
        printer.facts(info)
    info["problems"] = _differences(pinned, info["packages"])
    info["imports"] = []
    _import_packages(info, pinned, printer)
    output = cuda.communicate()[0]
    info["gpu"]["torch"] = None
    if cuda.returncode == 0:
        info["gpu"]["torch"] = json.loads(output)
    if printer:
        printer.end(info)
    return info


def _import_packages(info: dict, pinned: dict[str, str], printer: Printer | None) -> None:
    """Import the installed ones of the locked packages; add the results and problems to *info*."""
    installed = [name for name in pinned if name in info["packages"]]
    for verdict in imports.judge(installed):
        package = {"locked": pinned[verdict.name], **asdict(verdict)}
        info["imports"].append(package)
        if printer:
            printer.package(package)
        info["problems"] += _problems(verdict, info["interpreter"]["free_threaded"])


def _problems(verdict: imports.ImportResult, free_threaded: bool) -> list[str]:
    problems = [f"{verdict.name}: {error}" for error in verdict.errors]
    if free_threaded and verdict.turned_gil_on:
        problems.append(f"importing {verdict.name} {verdict.installed} turns the GIL on")
    return problems


def _default_lock() -> Path | None:
    if imports.DEFAULT_LOCK.exists():
        return imports.DEFAULT_LOCK
    return None  # installed with pip into another environment: there is no lock to compare with


def _remarks() -> list[str]:
    try:
        ctypes.CDLL("libturbojpeg.so.0")
    except OSError:
        return [
            (
                "ftloader.decode leaves JPEGs to Pillow, which is slower: install libturbojpeg0 "
                "(Ubuntu: libturbojpeg)"
            )
        ]
    return []


def _differences(pinned: dict[str, str], installed: dict[str, str]) -> list[str]:
    """Return error messages for packages that are missing
    or have another version than the lock's.
    """
    problems = []
    for name, version in pinned.items():
        if name not in installed:
            problems.append(f"{name} {version} is locked but not installed")
        elif installed[name] != version:
            problems.append(f"{name} is {installed[name]}, the lock says {version}")
    return problems


def check_twin(info: dict, expect: str | None) -> list[str]:
    """Return error messages if this interpreter is not the twin `expect`, or if `expect` is "ft"
    and the GIL is on.
    """
    twin = info["interpreter"]["twin"]
    if expect and twin != expect:
        is_now = f"this interpreter is the {twin!r} twin (Py_GIL_DISABLED={int(twin == 'ft')})"
        return [f"{is_now}, expected {expect!r}: {info['interpreter']['executable']}"]
    # PYTHON_GIL can force the GIL on, which defeats the purpose of this twin.
    if expect == "ft" and info["interpreter"]["gil_enabled"]:
        variable = info["interpreter"]["python_gil_variable"]
        reason = f": PYTHON_GIL={variable} is set" if variable else ""
        return [f"the GIL is on at start{reason}"]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's); return the exit status."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    any_locale()
    if options.expect and not options.verify:
        parser.error("--expect needs --verify")
    if options.import_too and not options.requirements:
        parser.error("--import needs --requirements")
    if options.requirements:
        from ftrun.wheels import command  # needs packages that a plain environment may lack

        return command.run(options.requirements, options.json, options.import_too, options.cache)
    try:
        info = collect(options.lock, None if options.json else Printer(options.packages))
    except LockError as error:
        print(f"{host.info()}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # its children got the signal too
        return 130
    return _finish(info, options)


def _finish(info: dict, options: argparse.Namespace) -> int:
    """Print the facts as JSON, if asked for, and the problems; return the exit status."""
    info["problems"] = check_twin(info, options.expect) + info["problems"]
    if options.verify and info["lock"] is None:
        info["problems"].append(f"no lock file at {imports.DEFAULT_LOCK}: name one with --lock")
    if options.json:
        json.dump(info, sys.stdout, indent=2)
        print()
    if info["problems"]:
        _print_problems(info["problems"])
        return 1
    if options.verify and not options.json:
        verified = (
            f"verified: {info['interpreter']['twin']} twin, {len(info['imports'])} locked packages"
        )
        if imports.is_without_cuda(info["packages"]):
            verified += ", without CUDA"
        print(verified)
    return 0


def _print_problems(problems: list[str]) -> None:
    print(f"{host.info()}: this environment is not what it should be:", file=sys.stderr)
    for problem in problems:
        print(f"  - {problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
