"""The environment of a measurement: interpreter, packages, processor, memory, revision.

Nothing is guessed: a value that cannot be read is None, or a string that gives the reason.
``python -m ftrun.environment`` prints the description as one JSON object. ftbench and ftsafety run
it in each twin.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from ftrun import cgroup
from ftrun.configurations import gil_enabled, this_twin
from ftrun.project import ROOT, normalise, source_folders

MIB = 1024 * 1024
FROM_SOURCE = " from source"
"""Words in the description of an interpreter that ./twins or an image built."""


def interpreter() -> dict:
    """Describe this interpreter: version, build and the present state of its GIL."""
    config_args = sysconfig.get_config_var("CONFIG_ARGS") or ""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    pgo = "--enable-optimizations" in config_args
    patches = cgroup.read(Path(sys.base_prefix, "share/cpython/PATCHES"))
    build = "PGO build" if pgo else "plain build (no PGO)"
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "twin": this_twin(),
        "free_threaded": free_threaded,
        "gil_enabled": gil_enabled(),
        "python_gil_variable": os.environ.get("PYTHON_GIL"),
        "mimalloc_purge_delay": os.environ.get("MIMALLOC_PURGE_DELAY"),
        "pgo": pgo,
        "lto": "--with-lto" in config_args,
        "upstream_fixes": len((patches or "").splitlines()),
        "build": f"{build}{_origin(patches)}",
        "config_args": config_args,
        "cflags": sysconfig.get_config_var("PY_CFLAGS") or sysconfig.get_config_var("CFLAGS") or "",
        "compiler": platform.python_compiler(),
        "build_date": platform.python_build()[1],
        "soabi": sysconfig.get_config_var("SOABI"),
    }


def _origin(patches: str | None) -> str:
    """Return words on where this interpreter comes from, to follow those on its build. *patches*:
    its list of patches, None without one.
    """
    if patches is not None:  # docker/build-cpython wrote it
        return FROM_SOURCE
    if not sysconfig.get_config_var("PYTHON_BUILD_STANDALONE"):
        return ""
    release = cgroup.read(Path(sys.base_prefix, "BUILD")) or ""
    return f" of python-build-standalone {release}".rstrip()


def packages() -> dict[str, str]:
    """Return every installed distribution's version, by normalised name."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        # Of two copies, the first one on sys.path is imported.
        if name:
            versions.setdefault(normalise(name), distribution.version)
    return dict(sorted(versions.items()))


def cpu() -> dict:
    """Describe the processor, and the number of CPUs that this process may use."""
    text = cgroup.read(Path("/proc/cpuinfo")) or ""
    model = f"unknown ({platform.machine()})"
    if name := re.search(r"^(?:model name|Model|Processor)\s*:\s*(.+)$", text, re.MULTILINE):
        model = name[1].strip()
    return {
        "model": model,
        "machine": platform.machine(),
        "count": os.cpu_count(),
        "affinity": len(os.sched_getaffinity(0)),
        "quota": cgroup.cpu_quota(),
        "usable": cgroup.usable_cpus(),
    }


def memory() -> dict:
    """Return, in bytes, total memory, the container's limit, memory free now, and size and free
    space of /dev/shm.
    """
    import psutil

    machine = psutil.virtual_memory()
    limit, left = cgroup.memory_left()
    available = machine.available
    if left is not None:
        available = min(available, left)
    try:
        shm = os.statvfs("/dev/shm")
        shm_total, shm_free = shm.f_blocks * shm.f_frsize, shm.f_bavail * shm.f_frsize
    except OSError:
        shm_total = shm_free = 0
    return {
        "total": machine.total,
        "limit": limit,
        "available": available,
        "shm_total": shm_total,
        "shm_free": shm_free,
    }


def operating_system() -> dict:
    """Return the names of the Linux distribution, the kernel, the kind of container (None outside
    of one), the machine.

    The machine's name is left out where it is unknown.
    """
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        name = "unknown"
    facts = {"name": name, "kernel": platform.release(), "container": container()}
    if identity := machine_id():
        facts["machine_id"] = identity
    return facts


def machine_id(path: Path = Path("/etc/machine-id")) -> str | None:
    """Return a name of this machine, from which nothing about the machine can be read;
    None if it is unknown.

    machine-id(5) asks for a hash in place of the id. Machines made from one image may have the same
    id, so the host's name is part of it. In a container the id is that of the image, and the name
    changes with each container.
    """
    identity = cgroup.read(path)
    if container() or not identity or not re.fullmatch("[0-9a-f]{32}", identity):
        return None
    text = f"ft-env {identity} {platform.node()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def container() -> str | None:
    """Return the kind of container this process runs in, None on a bare machine."""
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    kind = re.search(
        r"docker|kubepods|containerd|libpod|lxc", cgroup.read(Path("/proc/1/cgroup")) or ""
    )
    return os.environ.get("container") or (kind[0] if kind else None)


def gpu() -> dict:
    """Describe the GPUs and their driver, or say why there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return _no_gpu(_why_no_tool())
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=15)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _no_gpu(f"nvidia-smi failed: {error}")
    rows = _rows(done.stdout)
    if done.returncode or not rows:
        output = (done.stdout + done.stderr).strip()
        lines = output.splitlines() or [f"exit {done.returncode}"]
        return _no_gpu(f"nvidia-smi failed: {lines[0]}")
    devices = [f"{name} ({size})" for name, size, _ in rows]
    return {"devices": devices, "driver": rows[0][2], "reason": None}


def _rows(table: str) -> list[list[str]]:
    """Return the lines of three columns."""
    rows = [line.split(", ") for line in table.splitlines()]
    return [row for row in rows if len(row) == 3]


def _no_gpu(reason: str) -> dict:
    return {"devices": [], "driver": None, "reason": reason}


def _why_no_tool() -> str:
    devices = list(Path("/dev").glob("nvidia[0-9]*"))
    if devices:
        return (
            f"the device files of {len(devices)} NVIDIA GPU(s) are here, but nvidia-smi is not: no "
            "driver libraries in this environment"
        )
    return (
        "no NVIDIA GPU is visible: no /dev/nvidia* and no nvidia-smi (in a container: start it "
        "with --gpus all, or with compose.gpu.yaml)"
    )


def revision(root: Path = ROOT) -> dict:
    """Return the source's commit or "unknown", and where it was found: git, an image's file
    REVISION, or None.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    # The commit of another repository, which holds a copy of the package, would be wrong.
    if top and Path(top).resolve() == root:
        commit = _git(root, "rev-parse", "HEAD")
        if commit:
            return {
                "commit": commit,
                "dirty": bool(_git(root, "status", "--porcelain")),
                "from": "git",
            }
    commit = cgroup.read(root / "REVISION")
    if commit:
        return {"commit": commit, "dirty": None, "from": "REVISION"}
    return {"commit": "unknown", "dirty": None, "from": None}


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git command in *root*; None if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, timeout=15)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None


def source_hash(folders: Sequence[Path] | None = None) -> str:
    """Return a SHA-256 over the source files (names and contents) in `folders`,
    by default the project's packages.
    """
    digest = hashlib.sha256()
    if folders is None:
        folders = source_folders()
    for folder in folders:
        for path in _source_files(folder):
            digest.update(f"{folder.name}/{path.relative_to(folder)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _source_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".json", ".jinja") and path.is_file():
            yield path


def describe() -> dict:
    """Return the facts about this interpreter and this machine,
    by topic, as a dictionary that fits JSON.
    """
    return {
        "interpreter": interpreter(),
        "packages": packages(),
        "cpu": cpu(),
        "memory": memory(),
        "os": operating_system(),
        "gpu": gpu(),
        "source": source_hash(),
    }


if __name__ == "__main__":
    json.dump(describe(), sys.stdout)
    print()
