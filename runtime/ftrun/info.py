"""``python -m ftrun.info``: describe this environment, and check its packages and GIL against the lock file."""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from ftrun import environment, host, imports
from ftrun.escape import any_locale

DESCRIPTION = """\
Describe this Python environment: interpreter and build flags, the version of every locked
package, what importing each of them does to the GIL, processor, memory and GPU.

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

TORCH_CUDA = """
import json, torch
seen = torch.cuda.is_available()
print(json.dumps({"available": seen, "built_for": torch.version.cuda,
                  "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
                  if seen else []}))
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog=host.command("python -m ftrun.info"),
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--verify", action="store_true", help="also exit with 1 without a lock file")
    twin = "with --verify: the twin that it must be, ft (free-threaded) or gil"
    result.add_argument("--expect", choices=("ft", "gil"), help=twin)
    wanted = "look at these packages (PEP 508), requirements files, pyproject.toml or lock files"
    result.add_argument("--requirements", nargs="+", metavar="FILE|PACKAGE", help=wanted)
    also = "with --requirements: import the packages in this interpreter, from a temporary folder"
    result.add_argument("--import", dest="import_too", action="store_true", help=also)
    cache = "with --requirements: the folder for uv and its cache (default: a temporary one)"
    result.add_argument("--cache", type=Path, metavar="DIR", help=cache)
    lock = f"the lock file to compare with (default: {imports.DEFAULT_LOCK})"
    result.add_argument("--lock", type=Path, metavar="FILE", help=lock)
    return result


class Shown:
    """Printer of the facts about an environment, line by line, as they become known."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, soft_wrap=True)
        self._free_threaded = self._headed = False

    def facts(self, info: dict) -> None:
        """Print the quickly known facts of `collect`: interpreter, processor, memory, system, GPU, revision."""
        python, cpu, memory, os_ = info["interpreter"], info["cpu"], info["memory"], info["os"]
        gpu, revision, gib = info["gpu"], info["revision"], 1024**3
        self._free_threaded = python["free_threaded"]
        gil = "on" if python["gil_enabled"] else "off"
        kind = "free-threaded" if python["free_threaded"] else "with the GIL"
        quota = "no quota" if cpu["quota"] is None else f"quota {cpu['quota']:g}"
        limit = "no limit" if memory["limit"] is None else f"limit {memory['limit'] / gib:.1f} GiB"
        sizes = f"{memory['total'] / gib:.1f} GiB, {limit}, {memory['available'] / gib:.1f} GiB free"
        usable = f"{cpu['usable']} usable of {cpu['count']} (affinity {cpu['affinity']}, {quota})"
        self._line("Python", f"{python['version']} {kind}, GIL {gil} at start, {python['build']}")
        self._line("", python["executable"])
        if self._free_threaded:
            delay = python.get("mimalloc_purge_delay")
            set_ = "is not set: freed memory goes back after 10 ms" if delay is None else f"is {delay}"
            self._line("allocator", f"mimalloc, MIMALLOC_PURGE_DELAY {set_}")
        self._line("configured with", python["config_args"] or "unknown")
        self._line("compiler", f"{python['compiler']}  {python['cflags']}")
        self._line("processor", f"{cpu['model']}: {usable}")
        self._line("memory", f"{sizes}; /dev/shm {memory['shm_total'] / gib:.2f} GiB")
        self._line("system", f"{os_['name']}, Linux {os_['kernel']}, {os_['container'] or 'no container'}")
        seen = ", ".join(gpu["devices"]) + f", driver {gpu['driver']}" if gpu["devices"] else gpu["reason"]
        self._line("GPU", seen)
        self._line("revision", revision["commit"] + (" + changes" if revision["dirty"] else ""))

    def package(self, package: dict) -> None:
        """Print a locked package's row: its version and what importing it did to the GIL."""
        if not self._headed:
            self._headed = True
            self._print("Locked packages", "italic")
            self._print(f"{'package':<30} {'version':<14} {'extensions':>10}  GIL after import", "bold")
        on = package["gil_enabled_after_import"]
        wrong = bool(package["errors"]) or (on and self._free_threaded)
        state = "on: turned on by this import" if on and self._free_threaded else "on" if on else "off"
        state = package["errors"][0] if package["errors"] else state
        row = f"{package['name']:<30} {package['installed']:<14} {package['extensions'] or '':>10}  {state}"
        self._print(row, "red" if wrong else "")

    def end(self, info: dict) -> None:
        """Print the facts that `collect` finds last: the GPUs that torch sees, and remarks."""
        cuda = "cannot be imported"
        if (torch := info["gpu"]["torch"]) is not None:
            cuda = f"built for CUDA {torch['built_for']}, sees {', '.join(torch['devices']) or 'no GPU'}"
        self._line("torch", cuda)
        for remark in info["remarks"]:
            self._line("note", remark)

    def _line(self, name: str, text: str) -> None:
        self._print(f"{name:<16} {text}")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text.rstrip(), style=style)
        sys.stdout.flush()


def collect(lock: Path | None, shown: Shown | None = None) -> dict:
    """Return facts about this environment and a list of problems; raises imports.LockError if `lock` is unusable.

    `shown` prints each fact as soon as it is known, since importing all packages takes up to a minute.
    """
    cuda = subprocess.Popen(
        [sys.executable, "-P", "-c", TORCH_CUDA], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    result = environment.describe()
    result["revision"] = environment.revision()
    problems, remarks, pinned = [], [], {}
    try:
        ctypes.CDLL("libturbojpeg.so.0")
    except OSError:
        remarks.append(
            "ftloader.decode leaves JPEGs to Pillow, which is slower: install libturbojpeg0 (Ubuntu: libturbojpeg)"
        )
    if lock is None and not imports.DEFAULT_LOCK.exists():
        # Installed with pip into another environment: there is no lock to compare with.
        remarks.append(f"no lock file at {imports.DEFAULT_LOCK}: packages are not compared")
    else:
        lock = lock or imports.DEFAULT_LOCK
        pinned = imports.read_lock(lock)
    if shown:
        shown.facts(result)
    for name, version in pinned.items():
        found = result["packages"].get(name)
        if found is None:
            problems.append(f"{name} {version} is locked but not installed")
        elif found != version:
            problems.append(f"{name} is {found}, the lock says {version}")
    judged = []
    for verdict in imports.judge(name for name in pinned if name in result["packages"]):
        judged.append({"locked": pinned[verdict.name], **asdict(verdict)})
        if shown:
            shown.package(judged[-1])
        problems += [f"{verdict.name}: {error}" for error in verdict.errors]
        if result["interpreter"]["free_threaded"] and verdict.turned_gil_on:
            problems.append(f"importing {verdict.name} {verdict.installed} turns the GIL on")
    result |= {"lock": lock and str(lock), "problems": problems, "remarks": remarks, "imports": judged}
    output = cuda.communicate()[0]
    result["gpu"]["torch"] = json.loads(output) if cuda.returncode == 0 else None
    if shown:
        shown.end(result)
    return result


def check_twin(info: dict, expect: str | None) -> list[str]:
    """Return error messages if this interpreter is not the twin `expect`, or if `expect` is "ft" and the GIL is on."""
    found = info["interpreter"]["twin"]
    if expect and found != expect:
        is_now = f"this interpreter is the {found!r} twin (Py_GIL_DISABLED={int(found == 'ft')})"
        return [f"{is_now}, expected {expect!r}: {info['interpreter']['executable']}"]
    # PYTHON_GIL can force the GIL on, which defeats the purpose of this twin.
    if expect == "ft" and info["interpreter"]["gil_enabled"]:
        variable = info["interpreter"]["python_gil_variable"]
        return ["the GIL is on at start" + (f": PYTHON_GIL={variable} is set" if variable else "")]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's); return the exit status."""
    options = parser().parse_args(arguments)
    any_locale()
    if options.expect and not options.verify:
        parser().error("--expect needs --verify")
    if options.import_too and not options.requirements:
        parser().error("--import needs --requirements")
    if options.requirements:
        from ftrun.wheels import command  # needs packages that a plain environment may lack

        return command.run(options.requirements, options.json, options.import_too, options.cache)
    try:
        info = collect(options.lock, None if options.json else Shown())
    except imports.LockError as error:
        print(f"ftrun.info: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # its children got the signal too
        return 130
    info["problems"] = check_twin(info, options.expect) + info["problems"]
    if options.verify and info["lock"] is None:
        info["problems"].append(f"no lock file at {imports.DEFAULT_LOCK}: name one with --lock")
    if options.json:
        json.dump(info, sys.stdout, indent=2)
        print()
    if info["problems"]:
        print("ftrun.info: this environment is not what it should be:", file=sys.stderr)
        for problem in info["problems"]:
            print(f"  - {problem}", file=sys.stderr)
        return 1
    if options.verify and not options.json:
        print(f"verified: {info['interpreter']['twin']} twin, {len(info['imports'])} locked packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
