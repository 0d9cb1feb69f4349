"""Conversion of observations and failures into findings."""

import itertools
import sys
from collections.abc import Iterable
from typing import Any

from ftrun import host
from ftsafety.audit import kinds
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import Burst, Mismatch
from ftsafety.audit.draws import Draw
from ftsafety.audit.libraries import CONNECTIONS, LIMITS, ONLY_SHARED, Limit
from ftsafety.audit.monitoring import Codes
from ftsafety.audit.moved_files import Move
from ftsafety.audit.observer import Observed
from ftsafety.audit.places import definition, line_naming
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import Finding, Level, SourceLine
from ftsafety.audit.samples import Loads
from ftsafety.audit.serial import Serial
from ftsafety.audit.shared_writes import Write

_LOCK_OF_ARRAY = (
    " The dataset has a lock; if it is held from the first write to the last read, this is safe."
)


def from_observation(first: Observed, second: Observed, nodes: list[Node]) -> list[Finding]:
    """Return findings for what two observations saw: writes, draws,
    moves of file positions, limits of libraries.

    A write, draw or move gives a finding only if both observations saw its line.
    """
    writes = sorted(first.writes & second.writes)
    draws = sorted(first.draws & second.draws)
    findings = list(map(_write, writes))
    findings += _moves(first, second)
    findings += map(_draw, draws)
    findings += _limits(second, nodes)
    findings += _views(nodes)
    return findings


def _write(write: Write) -> Finding:
    kind = f"unguarded-write {write.kind}"
    target = write.target
    if write.per_thread:
        kind = "late-thread-local"
    elif write.kind == "augmented":
        kind = "lost-update"
    elif write.kind == "call" and ("ndarray" in target or "tensor" in target):
        kind = "unguarded-write array"
    return kinds.make(kind, write.line, target=target)


def softened(findings: list[Finding], harmless: dict[Write, str]) -> list[Finding]:
    """Return *findings*, in which notes replace those of harmless writes. *harmless*: {write: kind
    of the note}.
    """
    notes = {}
    for write, kind in harmless.items():
        finding = _write(write)
        notes[finding] = kinds.make(kind, write.line, target=write.target)
    return [notes.get(finding, finding) for finding in findings]


def _draw(draw: Draw) -> Finding:
    remedy = kinds.remedy_of_draw(draw.name, draw.generator, _place(draw.line))
    return kinds.make(
        "global-random", draw.line, name=draw.name, generator=draw.generator, remedy=remedy
    )


def _moves(first: Observed, second: Observed) -> list[Finding]:
    """Return a finding for each file whose position both observations saw moved; one for files of
    the same lines.
    """
    lines = {move.line for move in first.moves}
    by_file: dict[str, list[Move]] = {}
    for move in sorted(second.moves):
        if move.line in lines:
            by_file.setdefault(move.file, []).append(move)
    by_lines: dict[tuple[SourceLine, ...], list[Move]] = {}
    for moves in by_file.values():
        lines_of_file = tuple(move.line for move in moves)
        by_lines[lines_of_file] = moves
    return list(map(_moves_of_file, by_lines.values()))


def _moves_of_file(moves: list[Move]) -> Finding:
    file = moves[0].file
    handle = "memory map" if file == "mmap" else "file"
    harm, remedy = kinds.POSITIONS[handle]
    level = None
    if not any(move.direct for move in moves):
        level = Level.RISK
        harm += " Here a library moves it; it may hold a lock of its own around both calls."
    other_places = ""
    if len(moves) > 1:
        places = sorted({_place(move.line) for move in moves[1:]})
        other_places = f" (also at {', '.join(places)})"
    return kinds.make(
        "file-position",
        moves[0].line,
        level,
        handle=handle,
        file=file,
        others=other_places,
        what=harm,
        remedy=remedy,
    )


def _place(line: SourceLine) -> str:
    return f"{line.filename}:{line.number}"


def _views(nodes: list[Node]) -> list[Finding]:
    """Return a finding for the first memoryview that threads share; *nodes*: the dataset, then what
    it refers to.
    """
    views = [node.path for node in nodes if type(node.value) is memoryview]
    if not views:
        return []
    where = definition(nodes[0].value)
    return [kinds.make("shared-view", where, path=views[0], number=len(views))]


def _limits(observed: Observed, nodes: list[Node]) -> list[Finding]:
    """Return a finding for each library with limits that the dataset calls,
    or to whose objects it refers.
    """
    path_by_module: dict[str, str] = {}
    for node in nodes:
        module, _, _ = type(node.value).__module__.partition(".")
        path_by_module.setdefault(module.lstrip("_"), node.path)
    findings = []
    for name, limit in _limits_of(path_by_module).items():
        where: SourceLine | str | None = observed.libraries.get(name)
        if name in path_by_module:
            where = where or f"{path_by_module[name]} is of {name}"
        elif name in ONLY_SHARED:
            where = None
        if where:
            findings.append(kinds.make("known-limit", where, name=name, limit=limit))
    return findings


def _limits_of(modules: Iterable[str]) -> dict[str, Limit]:
    """Return all limits of libraries, with those of the database modules among *modules*."""
    limits = {}
    for name in modules:
        # PEP 249: threads may not share the connections of a module with threadsafety 0 or 1.
        if getattr(sys.modules.get(name), "threadsafety", None) in (0, 1):
            limits[name] = CONNECTIONS
    return limits | LIMITS


def from_serial(serial: Serial) -> list[Finding]:
    """Return findings for what one thread shows: samples that vary, overwritten ones, late images,
    and written files.

    A late image is one that the dataset opened before,
    and that Pillow decoded only when samples were loaded.
    """
    loads = serial.loads
    where = definition(loads.dataset)
    findings = []
    if serial.unequal:
        keys_in_words = loads.shown(serial.unequal)
        findings.append(kinds.make("not-repeatable", where, keys=keys_in_words))
    keys = [key for key in serial.shared_memory if key not in serial.unequal]
    if keys:
        keys_in_words = loads.shown(keys)
        number = len(keys)
        findings.append(kinds.make("overwritten-sample", where, keys=keys_in_words, number=number))
    images = serial.decoded_late
    if images:
        number = len(images)
        findings.append(kinds.make("decoded-late", where, path=images[0], number=number))
    return findings + _files_written(serial, where)


def _files_written(serial: Serial, where: SourceLine) -> list[Finding]:
    written = serial.opened.written()
    if not written:
        return []
    path, line = next(iter(written.items()))
    path = host.path(path)
    return [kinds.make("files-written", line or where, path=path, number=len(written))]


def from_arrays(
    dataset: Any, paths: set[str], codes: Codes, written: list[Finding], second: Observed
) -> list[Finding]:
    """Return a finding for each array that was overwritten;
    *paths* names them ("dataset.buffer", ...).

    Leaves out arrays that are explained by a finding in *written*, or by a line that writes while
    its thread holds a lock (``second.locks``): the finding or the line contains the array's name.
    """
    level, lock = None, ""
    if second.has_locks:  # a library may write under it, which cannot be seen
        level = Level.NOTE
        lock = _LOCK_OF_ARRAY
    explanations = [finding.where + finding.title for finding in written]
    explanations += map(str, second.locks)
    findings = []
    for path in sorted(paths):
        attribute, _, _ = path.partition("[")
        _, _, name = attribute.rpartition(".")
        if not any(name in text for text in explanations):
            where = line_naming(codes, name) or definition(dataset)
            findings.append(kinds.make("shared-array", where, level, path=path, lock=lock))
    return findings


def from_threads(
    loads: Loads,
    failures: list[Mismatch],
    confirmed: list[Mismatch],
    bursts: tuple[list[Burst], list[Burst]],
    suspects: list[Finding],
) -> Finding:
    """Return the finding for failures of one kind: *failures* before the second look, and
    *confirmed* during it.

    *bursts*: those before the second look, and those during it.
    *suspects*: findings that may name the cause.
    """
    first = failures[0]
    before, after = bursts
    times = f"{len(failures)} times in {_rounds(before)} rounds ({first.way})"
    times_again = f"{len(confirmed)} times in {_rounds(after)} rounds of the second look"
    causes = [finding.where for finding in suspects if finding.level != Level.NOTE]
    remedy = _remedy(causes, suspects)
    evidence = f"{times}, and {times_again}; "
    error = first.copy
    if isinstance(error, Raised) and error.ignored:
        evidence += "it never came with one thread"
        return kinds.make(
            "ignored-exception", error.line, error=error, remedy=remedy, seen=evidence
        )
    evidence += "one thread alone gets it right before and after"
    keys = loads.shown({failure.key for failure in failures})
    if isinstance(error, Raised):
        return kinds.make(
            "exception", error.line, error=error, keys=keys, remedy=remedy, seen=evidence
        )
    where = causes[0] if len(causes) == 1 else definition(loads.dataset)
    examples = _examples(loads, failures)
    return kinds.make(
        "results-differ", where, examples=examples, keys=keys, remedy=remedy, seen=evidence
    )


def _rounds(bursts: list[Burst]) -> int:
    return sum(burst.rounds for burst in bursts)


def _examples(loads: Loads, failures: list[Mismatch]) -> str:
    """Return in words the last failure of each key, for up to three keys."""
    by_key = {repr(failure.key): failure for failure in failures}
    examples = []
    for key, failure in itertools.islice(by_key.items(), 3):
        examples.append(f"{loads.unit} {key}: {failure.description}")
    return "; ".join(examples)


def _remedy(causes: list[str], suspects: list[Finding]) -> str:
    """Return the remedy for a failure under threads. *causes*: lines that may be its cause."""
    if causes:
        lines = dict.fromkeys(line.partition("  ")[0] for line in causes)
        listed = "; ".join(list(lines)[:3])
        return f"see the finding of the likely cause, which has a remedy: {listed}"
    nothing = "none of the dataset's own lines was seen to write what threads share"
    limits = [finding for finding in suspects if finding.kind in ("known-limit", "files-written")]
    if limits:
        listed = "; ".join(f"{limit.title}: {limit.remedy}" for limit in limits)
        return f"{nothing}, but {listed}"
    return (
        f"{nothing}, so look at the objects that it calls: a decoder, reader or model that threads "
        "share needs one lock around each use, or one object per thread (threading.local)"
    )
