"""On the target machine: joins the twins with its CUDA libraries, checks them, and says how to use them.

Runs on an interpreter of the bundle, from its `unpack`; `unpack --help` says what it does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

STAMP = "finished.json"
"""As in native/cache.py: an environment with this file counts as finished."""

RUNTIME = "runtime"
"""The folder of the checkout that holds ftrun."""
# Asks the target's own Python where its packages are. It may be as old as Python 3.6.
_ASK = "import json, site, sys; print(json.dumps([p for p in sys.path if p] + site.getsitepackages()))"


class Missing(Exception):
    """This machine lacks something; the text says what, and what to do."""


def main() -> int:
    """Finishes the twins in the directory that the first argument names; returns the exit status."""
    parser = argparse.ArgumentParser(prog="unpack", allow_abbrev=False)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cuda", type=Path, action="append", default=[])
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--no-gpu", action="store_true")
    options = parser.parse_args()
    manifest = json.loads((options.directory / "bundle.json").read_text())
    try:
        packages = packages_of_this_machine()
        found, absent = find_libraries(manifest["cuda"], library_directories(options.cuda, packages))
        if absent:
            raise Missing(
                f"torch needs CUDA 13 libraries that were not found: {', '.join(absent)}\n"
                "  Say where they are: "
                "--cuda DIR, the directory of a CUDA 13 toolkit or a site-packages with nvidia/ in it"
            )
        for name in manifest["twins"]:
            site = site_packages(options.directory / name)
            link(found.values(), site / "nvidia" / "cu13" / "lib")
            if manifest["torch_libraries"]:
                link_torch(site / "torch", manifest["torch_libraries"], [options.torch] if options.torch else packages)
        print("CUDA: " + ", ".join(sorted({str(path.parent) for path in found.values()})), flush=True)
        gpu = True
        for name, twin in manifest["twins"].items():
            gpu = _finish_twin(options.directory, name, twin["pgo"]) and gpu
    except Missing as error:
        print(f"unpack: {error}\n  {options.directory} is unfinished; delete it before the next try", file=sys.stderr)
        return 1
    print_how_to_use(options.directory, list(manifest["twins"]))
    if not gpu and not options.no_gpu:
        print(
            "unpack: the twins are complete, but torch sees no GPU (see above); use --no-gpu if there is none",
            file=sys.stderr,
        )
        return 1
    return 0


def site_packages(prefix: Path) -> Path:
    """Where a twin keeps its packages."""
    (found,) = (prefix / "lib").glob("python3.*/site-packages")
    return found


def packages_of_this_machine() -> list[Path]:
    """The directories that this machine's own python3 imports from; none where it has no python3."""
    python = shutil.which("python3")
    if not python:
        return []
    done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
    return [Path(each) for each in json.loads(done.stdout)] if done.returncode == 0 else []


def library_directories(named: list[Path], packages: list[Path]) -> list[Path]:
    """Where to look for CUDA's libraries, in order."""
    result = []
    for root in named:
        result += [
            root,
            root / "lib64",
            root / "lib",
            *sorted(root.glob("nvidia/*/lib")),
            *sorted(root.glob("targets/*/lib")),
        ]
    result += [Path(each) for each in os.environ.get("LD_LIBRARY_PATH", "").split(":") if each]
    for root in packages:
        result += sorted(root.glob("nvidia/*/lib"))
    result += _loaders_cache()
    for root in sorted(Path("/usr/local").glob("cuda*"), reverse=True):
        result += [root / "lib64", *sorted(root.glob("targets/*/lib"))]
    return list(dict.fromkeys(each.absolute() for each in result if each.is_dir()))


def _loaders_cache() -> list[Path]:
    program = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if not program:
        return []
    listed = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
    return [Path(each).parent for each in re.findall(r"=> (/\S+)", listed)]


def find_libraries(wanted: list[str], directories: list[Path]) -> tuple[dict[str, Path], list[str]]:
    """Where the libraries `wanted` are, with those of the same family beside them, and which are nowhere.

    libcudnn.so.9 loads libcudnn_ops.so.9 and others from the directory that it lies in itself, and libnvrtc loads
    libnvrtc-builtins; so each comes with what has its name and goes on with "_" or "-".
    """
    found: dict[str, Path] = {}
    absent = []
    for name in wanted:
        directory = next((each for each in directories if (each / name).exists()), None)
        if directory is None:
            absent.append(name)
            continue
        stem = name.partition(".so")[0]
        for path in [directory / name, *directory.glob(f"{stem}[_-]*.so*")]:
            found.setdefault(path.name, path)
    return found, absent


def link(libraries, directory: Path) -> None:
    """Makes symbolic links to `libraries` in `directory`, where torch and nvImageCodec look (their RPATH).

    Files that the bundle itself has there stay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        target = directory / library.name
        if not target.exists():
            target.unlink(missing_ok=True)
            target.symlink_to(library)


def link_torch(torch: Path, libraries: list[str], packages: list[Path]) -> None:
    """Links `libraries` of this machine's own torch into the twin's `torch`, if both are the same torch.

    Raises:
        Missing: this machine has no torch, or another.
    """
    wanted = torch_version(torch)
    assert wanted, "the bundle carries torch's Python files"
    seen = []
    for each in dict.fromkeys(packages):
        own = each / "torch"
        version = torch_version(own)
        if version == wanted and all((own / "lib" / name).exists() for name in libraries):
            link([own / "lib" / name for name in libraries], torch / "lib")
            return
        if version:
            seen.append(f"{own} is {version[0]} of commit {version[1][:9]}")
    raise Missing(
        f"the bundle was made with --torch-libraries target, and so needs a torch {wanted[0]} of commit "
        f"{wanted[1][:9]} here, "
        f"for whatever Python. {'Seen: ' + '; '.join(seen) if seen else 'There is none'}.\n"
        "  Name its site-packages with --torch DIR, or make the bundle with --torch-libraries carry"
    )


def torch_version(torch: Path) -> tuple[str, str] | None:
    """Version and commit of the torch in this directory, read without importing it."""
    try:
        text = (torch / "version.py").read_text()
    except OSError:
        return None
    values = dict(re.findall(r"^(__version__|git_version) = '(.*)'$", text, re.MULTILINE))
    return (values.get("__version__", "unknown"), values.get("git_version", "unknown"))


def _finish_twin(directory: Path, name: str, pgo: bool) -> bool:
    """Compiles, checks and stamps one twin; returns whether torch sees a GPU.

    Raises:
        Missing: the check failed; what is wrong was printed.
    """
    prefix, checkout = directory / name, directory / "checkout"
    python = prefix / "bin" / "python"
    variables = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHON_GIL", "PYTHONPATH")
    }
    variables["PYTHONPATH"] = str(checkout / RUNTIME)
    print(f"== {name}: byte code", flush=True)
    # As pip does after an installation. Files for other versions of Python, in some packages, do not compile.
    subprocess.run([python, "-m", "compileall", "-q", "-q", "-j", "0", prefix / "lib"], env=variables, check=False)
    print(f"== {name}: {python}", flush=True)
    done = subprocess.run(
        [python, "-m", "ftrun.info", "--verify", "--expect", name, "--lock", prefix / "requirements.lock"],
        env=variables,
        cwd=checkout,
        check=False,
    )
    if done.returncode:
        raise Missing(f"the {name} twin is not what it should be; see above")
    code = "import platform, torch; print(platform.python_version(), torch.cuda.is_available())"
    answer = subprocess.run([python, "-c", code], env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
    version, gpu = answer.split()
    draft = prefix / (STAMP + ".draft")
    draft.write_text(json.dumps({"version": version, "pgo": pgo, "environment": True}))
    draft.replace(prefix / STAMP)
    return gpu == "True"


def print_how_to_use(directory: Path, names: list[str]) -> None:
    """The commands to go on with."""
    print("\nready:")
    for name in names:
        print(f"  {directory / name / 'bin' / 'python'}")
    if len(names) == 2:
        path = "" if shutil.which("python3") else f"PATH={directory / 'gil' / 'bin'}:$PATH \\\n  "
        print(
            f"\nthe benchmark, the tests, and everything else that ./twins --help lists:\n"
            f"  {path}FT_PYTHON={directory / 'ft' / 'bin' / 'python'} \\\n"
            f"  GIL_PYTHON={directory / 'gil' / 'bin' / 'python'} \\\n"
            f"  {directory / 'checkout' / 'twins'} bench --quick",
            flush=True,
        )
    print("The directory may be moved; its CUDA libraries are links to this machine's own.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
