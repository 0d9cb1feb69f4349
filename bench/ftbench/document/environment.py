"""The records of a run's environment: sources, interpreters and machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated as A
from typing import Literal

Count = A[int, {"minimum": 0}]
Whole = A[int, {"minimum": 1}]


@dataclass
class Interpreter:
    """A twin's Python interpreter, from sys, sysconfig and platform."""

    version: A[str, '"3.13.5"']
    implementation: A[str, '"CPython"']
    executable: A[str, "path"]
    twin: A[Literal["ft", "gil"], "name of the twin"]
    free_threaded: A[bool, "built with --disable-gil"]
    gil_enabled: A[bool, "true if its GIL was on when it was asked"]
    python_gil_variable: A[str | None, "PYTHON_GIL of its environment"]
    pgo: A[bool, "built with --enable-optimizations"]
    lto: A[bool, "built with --with-lto"]
    build: A[str, "the same in words"]
    config_args: A[str, "arguments of configure"]
    cflags: A[str, "compiler flags"]
    compiler: A[str, "name and version"]
    build_date: A[str, "as the interpreter has it"]
    soabi: A[str | None, "tag of its extension modules"]


@dataclass
class Cpu:
    """A twin's processor, and the CPUs that the twin may use."""

    model: A[str, "name"]
    machine: A[str, "architecture"]
    count: A[Whole, "CPUs of the machine"]
    affinity: A[Whole, "CPUs that its processes may use"]
    quota: A[float | None, "CPUs that its control group leaves it, null for all"]
    usable: A[Whole, "CPUs that affinity and quota leave"]


@dataclass
class Memory:
    """A twin's memory when the run started, in bytes."""

    total: A[Count, "of the machine"]
    limit: A[int | None, "of its control group, null for none"]
    available: A[Count, "free for it"]
    shm_total: A[Count, "size of /dev/shm"]
    shm_free: A[Count, "free in /dev/shm"]


@dataclass
class System:
    """A twin's operating system."""

    name: A[str, "distribution"]
    kernel: A[str, "release of Linux"]
    container: A[str | None, "kind of container, null for none"]


@dataclass
class Gpu:
    """NVIDIA GPUs that a twin sees."""

    devices: A[list[str], "name and memory of each"]
    driver: A[str | None, "version, null without one"]
    reason: A[str | None, "reason that there is none, null if there is one"]


@dataclass
class Twin:
    """An interpreter that was measured, and its machine."""

    endpoint: A[str, "path of its Python, or unix:PATH of its trial server"]
    interpreter: Interpreter
    packages: A[dict[str, str], "version by normalised name, all that are installed"]
    cpu: Cpu
    memory: Memory
    os: System
    gpu: Gpu
    source: A[str, "SHA-256 over the source files of loader and bench that it runs"]


@dataclass
class Revision:
    """The commit of the sources."""

    commit: A[str, "git commit, or unknown"]
    dirty: A[bool | None, "true if the checkout had changes; null where that is unknown"]
    from_: A[Literal["git", "REVISION", None], "source of the commit"]


@dataclass
class Environment:
    """The sources, interpreters and machine of the run."""

    revision: Revision
    source: A[str, "SHA-256 over the source files of loader and bench"]
    twins: A[dict[Literal["ft", "gil"], Twin], {"minProperties": 1}, "by name: ft (free-threaded) and gil"]
