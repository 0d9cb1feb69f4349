"""Identity of a run: its machine, software, options and work, in words.
Runs of equal identity can be compared.
"""

import shlex
from collections.abc import Iterator, Mapping, Set
from typing import Any

from ftbench.document.environment import Interpreter, TwinRecord
from ftbench.document.model import MeasuredCase, MeasuredScenario, Options, Results
from ftbench.plan.scenario import COMMAND, OWN
from ftbench.report import run_words
from ftrun.environment import FROM_SOURCE

# The project itself, which a checkout uses as it is and an image installs.
# Its sources are compared.
OURS = "ftloader", "ft-env"
USUAL_COLLATE = "torch's"
COMMIT = "commit"
MACHINE, UNKNOWN = "machine", "unknown"
# Titles of what tells two machines apart.
HARDWARE = MACHINE, "processor", "CPUs usable", "memory"


def work(
    run: Results, scenario: MeasuredScenario, case: MeasuredCase | MeasuredScenario
) -> dict[str, Any]:
    """Return the work of a case, such as {"batch size": 128}. Two runs are compared in cases of
    equal work only.
    """
    data = case.load.dataset
    # Not the number of turns, which is planned from measured costs:
    # each turn is measured by itself.
    facts = {
        "number of ranks": scenario.ranks or 1,
        "batch size": case.load.batch_size,
        "batches a worker": case.load.batches_per_worker,
        "bytes a sample": case.load.sample_bytes,
        "parameters": getattr(case, "parameters", None),
        "kind of data": data.kind,
        "source of the data": data.source,
        "version of the data": data.version,
        "files": data.files,
        "mean size of a file": data.mean_bytes,
    }
    if scenario.name == OWN:
        # the dataset's file may have moved, and its turns are chosen from a measured time
        del facts["batches a worker"]
        facts["collate_fn"] = run.options.collate_fn or USUAL_COLLATE
        facts["dataset"] = scenario.description.rpartition("/")[2]
    if scenario.name == COMMAND:
        # The parameters of a case are the words of these, with its value.
        del facts["parameters"]
        words = run.options.command  # each option, then its value
        settings = dict(zip(words[::2], words[1::2]))
        for name in ("--command", "--setup", "--stdin"):
            facts[name] = settings.get(name)
    return facts


def python(interpreter: Interpreter) -> dict[str, str]:
    """Return {title: words} of an interpreter: what has to be equal
    in two runs of the same software.
    """
    result = {
        "Python's version": interpreter.version,
        # Earlier runs did not name the source.
        "Python's build": interpreter.build.removesuffix(FROM_SOURCE),
        "Python's compiler": interpreter.compiler,
    }
    if interpreter.free_threaded:  # with the GIL the memory is glibc's
        result["MIMALLOC_PURGE_DELAY"] = interpreter.mimalloc_purge_delay or "unset"
    return result


def described(results: Results, compared: Set[str]) -> dict[str, str]:
    """Return a run's machine, software and options, as {title: words}.

    The twins' interpreters and packages are included only for the twins in *compared*.
    """
    environment = results.environment
    facts = {
        COMMIT: run_words.revision(results),
        "sources of loader and bench": environment.source[:12],
    }
    facts |= _machine(results) | _options(results.options)
    for twin in ("ft", "gil"):
        facts[f"{twin} twin"] = "measured" if twin in environment.twins else "not measured"
    for name, software in environment.twins.items():
        if name in compared:
            for title, words in _software(software):
                facts[f"{name}: {title}"] = words
    return facts


def _software(twin: TwinRecord) -> Iterator[tuple[str, str]]:
    """Yield (title, words) of an interpreter and its packages."""
    yield from python(twin.interpreter).items()
    for package, version in sorted(twin.packages.items()):
        if package not in OURS:
            yield package, version


def _machine(results: Results) -> dict[str, str]:
    first = next(iter(results.environment.twins.values()))
    system = first.os
    return {
        MACHINE: system.machine_id or UNKNOWN,
        "processor": first.cpu.model,
        "CPUs usable": str(run_words.usable(results)),
        # Rounded: the kernel keeps a varying part of the memory for itself.
        "memory": f"{first.memory.total / 2**30:.0f} GiB",
        "system": f"{system.name}, Linux {system.kernel}, container: {system.container or 'none'}",
        "GPU": ", ".join(first.gpu.devices) or "none",
    }


def _options(options: Options) -> dict[str, str]:
    return {
        "scenarios": ", ".join(options.scenarios),
        "--quick": "yes" if options.quick else "no",
        "--configs": ", ".join(options.configs),
        "--rounds": str(options.rounds or "as many as fit"),
        "--budget": f"{options.budget:g}",
        "--precision": f"{100 * options.precision:g}%",
        "--data": options.data or "generated",
        "--collate-fn": options.collate_fn or USUAL_COLLATE,
        "--command": shlex.join(options.command) or "none",
        "--requirements": ", ".join(options.requirements) or "none",
        "--batch-size": str(options.batch_size or "the scenarios'"),
        "--workers": ", ".join(map(str, options.workers or ())) or "the scenarios'",
        "--ranks": str(options.ranks or 1),
    }


def differing[Value](
    a: Mapping[str, Value], b: Mapping[str, Value], missing: Value
) -> Iterator[tuple[str, Value, Value]]:
    """Yield (title, value in *a*, value in *b*) of each difference; *missing* is that of none."""
    for title in {**a, **b}:
        values = a.get(title, missing), b.get(title, missing)
        if values[0] != values[1]:
            yield title, *values


def identity(results: Results) -> dict[str, str]:
    """Return the machine, settings and software of a run. Sources are compared by their content,
    not their commit.
    """
    description = described(results, results.environment.twins.keys())
    del description[COMMIT]
    return description
