"""Kinds of machine: which machines are alike, and what a kind is called."""

from collections import Counter
from collections.abc import Iterable

from ftbench.merge.measured import Machine

ALIKE = 1.05
"""Largest ratio of memory from one machine to the next larger one of its kind: kernels and firmware keep some of it."""


def kinds(machines: Iterable[Machine]) -> dict[Machine, str]:
    """Return {machine: name of its kind}. Machines with equal names are of one kind; their order does not matter."""
    found: dict[Machine, str] = {}
    before: Machine | None = None
    name = ""
    for one in sorted(set(machines)):
        if before is None or one[:-1] != before[:-1] or one.memory > ALIKE * before.memory:
            name = _name(one)
        found[one], before = name, one
    return found


def _name(machine: Machine) -> str:
    """Return the name of a machine's kind (processor, CPUs, memory, GPUs), such as "AMD EPYC, 2 CPUs, 24 GiB"."""
    of = f"{machine.usable} of " if machine.usable != machine.cpus else ""
    gib = machine.memory / 2**30
    parts = [
        machine.model or "unknown processor",
        f"{of}{machine.cpus} CPU{'s' if machine.cpus != 1 else ''}",
        f"{gib:.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB",
    ]
    parts += [f"{times} x {name}" if times > 1 else name for name, times in Counter(machine.gpus).items()]
    return ", ".join(parts)
