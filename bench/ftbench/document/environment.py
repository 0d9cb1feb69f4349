"""The records of a run's environment: sources, interpreters and machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated as A
from typing import Literal

Count = A[int, {"minimum": 0}]
Whole = A[int, {"minimum": 1}]


@dataclass
class Interpreter:
    """Description of a measured Python interpreter,
    from its modules sys, sysconfig and platform.
    """

    version: A[str, '"3.13.5"']
    implementation: A[str, '"CPython"']
    executable: A[str, "path"]
    twin: A[Literal["ft", "gil"], "name of the twin"]
    free_threaded: A[bool, "built with --disable-gil"]
    gil_enabled: A[bool, "true if its GIL was on when it was asked"]
    python_gil_variable: A[str | None, "PYTHON_GIL of its environment"]
    pgo: A[bool, "built with --enable-optimizations"]
    lto: A[bool, "built with --with-lto"]
    build: A[str, "the same in words, and where the interpreter comes from"]
    config_args: A[str, "arguments of configure"]
    cflags: A[str, "compiler flags"]
    compiler: A[str, "name and version"]
    build_date: A[str, "as the interpreter has it"]
    soabi: A[str | None, "tag of its extension modules"]
    mimalloc_purge_delay: A[
        str | None,
        (
            "MIMALLOC_PURGE_DELAY of its environment: milliseconds until freed memory goes back, "
            "without the GIL"
        ),
    ]


@dataclass
class Cpu:
    """The processor that an interpreter runs on, and the CPUs that the interpreter may use."""

    model: A[str, "name"]
    machine: A[str, "architecture"]
    count: A[Whole, "CPUs of the machine"]
    affinity: A[Whole, "CPUs that its processes may use"]
    quota: A[float | None, "CPUs that its control group leaves it, null for all"]
    usable: A[Whole, "CPUs that affinity and quota leave"]


@dataclass
class Memory:
    """The memory that an interpreter found on its machine when the run started, in bytes."""

    total: A[Count, "of the machine"]
    limit: A[int | None, "of its control group, null for none"]
    available: A[Count, "free for it"]
    shm_total: A[Count, "size of /dev/shm"]
    shm_free: A[Count, "free in /dev/shm"]


@dataclass
class System:
    """The operating system that an interpreter runs on."""

    name: A[str, "distribution"]
    kernel: A[str, "release of Linux"]
    container: A[str | None, "kind of container, null for none"]
    machine_id: A[
        str | None, "hash of the machine's id and name; left out where they are unknown"
    ] = None


@dataclass
class Gpu:
    """The NVIDIA GPUs that are visible to an interpreter."""

    devices: A[list[str], "name and memory of each"]
    driver: A[str | None, "version, null without one"]
    reason: A[str | None, "reason that there is none, null if there is one"]


@dataclass
class TwinRecord:
    """Record of a measured interpreter (free-threaded: "ft", with the GIL:
    "gil"), its packages and its machine.
    """

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
    """The git commit of the sources that the run used."""

    commit: A[str, "git commit, or unknown"]
    dirty: A[bool | None, "true if the checkout had changes; null where that is unknown"]
    from_: A[Literal["git", "REVISION", None], "source of the commit"]


@dataclass
class Environment:
    """The sources, interpreters and machine of the run."""

    revision: Revision
    source: A[str, "SHA-256 over the source files of loader and bench"]
    twins: A[
        dict[Literal["ft", "gil"], TwinRecord],
        {"minProperties": 1},
        "by name: ft (free-threaded) and gil",
    ]
