"""Conversion of observations and failures into findings."""

import sys
from collections.abc import Iterator
from typing import Any

from ftrun import host
from ftsafety.audit import kinds
from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import Burst, Mismatch
from ftsafety.audit.draws import Draw
from ftsafety.audit.libraries import CONNECTIONS, LIMITS, ONLY_SHARED
from ftsafety.audit.observer import Observed
from ftsafety.audit.places import definition, line_naming
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import Finding, Level
from ftsafety.audit.samples import Loads
from ftsafety.audit.serial import Serial
from ftsafety.audit.shared_writes import Write


def from_observation(first: Observed, second: Observed, nodes: list[Node]) -> list[Finding]:
    """Return findings for what two observations saw: writes, draws, moves of file positions, limits of libraries.

    A write, draw or move gives a finding only if both observations saw its line.
    """
    writes, draws = sorted(first.writes & second.writes), sorted(first.draws & second.draws)
    return [*map(_write, writes), *_moves(first, second), *map(_draw, draws), *_limits(second, nodes), *_views(nodes)]


def _write(write: Write) -> Finding:
    kind, target = f"unguarded-write {write.kind}", write.target
    if write.per_thread:
        kind = "late-thread-local"
    elif write.kind == "augmented":
        kind = "lost-update"
    elif write.kind == "call" and ("ndarray" in target or "tensor" in target):
        kind = "unguarded-write array"
    return kinds.make(kind, write.line, target=target)


def softened(findings: list[Finding], harmless: dict[Write, str]) -> list[Finding]:
    """Return *findings*, in which notes replace those of harmless writes. *harmless*: {write: kind of the note}."""
    notes = {_write(write): kinds.make(kind, write.line, target=write.target) for write, kind in harmless.items()}
    return [notes.get(finding, finding) for finding in findings]


def _draw(draw: Draw) -> Finding:
    remedy = kinds.remedy_of_draw(draw.name, draw.generator, f"{draw.line.filename}:{draw.line.number}")
    return kinds.make("global-random", draw.line, name=draw.name, generator=draw.generator, remedy=remedy)


def _moves(first: Observed, second: Observed) -> Iterator[Finding]:
    lines = {move.line for move in first.moves} & {move.line for move in second.moves}
    by_file: dict[str, list] = {}
    for move in sorted(second.moves):
        if move.line in lines:
            by_file.setdefault(move.file, []).append(move)
    unique = {tuple(move.line for move in moves): (file, moves) for file, moves in by_file.items()}
    for file, moves in unique.values():
        others = ", ".join(sorted({f"{move.line.filename}:{move.line.number}" for move in moves[1:]}))
        handle = "memory map" if file == "mmap" else "file"
        harm, remedy = kinds.POSITIONS[handle]
        level = None
        if not any(move.direct for move in moves):
            level = Level.RISK
            harm += " Here a library moves it; it may hold a lock of its own around both calls."
        others = f" (also at {others})" if others else ""
        values: dict[str, Any] = {"handle": handle, "file": file, "others": others, "what": harm, "remedy": remedy}
        yield kinds.make("file-position", moves[0].line, level, **values)


def _views(nodes: list[Node]) -> Iterator[Finding]:
    """Yield a finding for the first memoryview that threads share; *nodes*: the dataset, then what it refers to."""
    views = [node.path for node in nodes if type(node.value) is memoryview]
    if views:
        yield kinds.make("shared-view", definition(nodes[0].value), path=views[0], number=len(views))


def _limits(seen: Observed, nodes: list[Node]) -> Iterator[Finding]:
    shared: dict[str, str] = {}
    for node in nodes:
        shared.setdefault(type(node.value).__module__.partition(".")[0].lstrip("_"), node.path)
    modules = {name: sys.modules.get(name) for name in shared}
    # PEP 249: threads may not share the connections of a module with threadsafety 0 or 1.
    unshared = {
        name: CONNECTIONS for name, module in modules.items() if getattr(module, "threadsafety", None) in (0, 1)
    }
    for name, limit in (unshared | LIMITS).items():
        called = seen.libraries.get(name)
        if name in shared or (called and name not in ONLY_SHARED):
            yield kinds.make("known-limit", called or f"{shared[name]} is of {name}", name=name, limit=limit)


def from_serial(serial: Serial) -> list[Finding]:
    """Return findings for what one thread shows: samples that vary, overwritten ones, late images, and written files.

    A late image is one that the dataset opened before, and that Pillow decoded only when samples were loaded.
    """
    loads, unequal, images = serial.loads, serial.unequal, serial.decoded_late
    findings, where = [], definition(loads.dataset)
    if unequal:
        findings.append(kinds.make("not-repeatable", where, keys=loads.shown(unequal)))
    repeated = [key for key in serial.shared_memory if key not in unequal]
    if repeated:
        findings.append(kinds.make("overwritten-sample", where, keys=loads.shown(repeated), number=len(repeated)))
    if images:
        findings.append(kinds.make("decoded-late", where, path=images[0], number=len(images)))
    if written := serial.opened.written():
        path, line = next(iter(written.items()))
        findings.append(kinds.make("files-written", line or where, path=host.path(path), number=len(written)))
    return findings


def from_arrays(dataset: Any, paths: set[str], codes: set, written: list[Finding], second: Observed) -> list[Finding]:
    """Return a finding for each array that was overwritten; *paths* names them ("dataset.buffer", ...).

    Leaves out arrays that are explained by a finding in *written*, or by a line that writes while its thread holds a
    lock (``second.locks``): the finding or the line contains the array's name.
    """
    level, lock = None, ""
    if second.has_locks:  # a library may write under it, which cannot be seen
        level, lock = Level.NOTE, " The dataset has a lock; if it is held from the first write to the last read, "
        lock += "this is safe."
    known = [finding.where + finding.title for finding in written] + [str(line) for line in second.locks]
    named = {path: path.split("[")[0].rpartition(".")[2] for path in sorted(paths)}
    return [
        kinds.make("shared-array", line_naming(codes, name) or definition(dataset), level, path=path, lock=lock)
        for path, name in named.items()
        if not any(name in text for text in known)
    ]


def from_threads(
    loads: Loads,
    failures: list[Mismatch],
    again: list[Mismatch],
    rounds: tuple[list[Burst], list[Burst]],
    suspects: list[Finding],
) -> Finding:
    """Return the finding for failures of one kind: *failures* before the second look, and *again* during it.

    *rounds*: the bursts before the second look, and those during it. *suspects*: findings that may name the cause.
    """
    first = failures[0]
    before, after = (sum(burst.rounds for burst in bursts) for bursts in rounds)
    ignored = isinstance(first.copy, Raised) and first.copy.ignored
    alone = "it never came with one thread" if ignored else "one thread alone gets it right before and after"
    seen = (
        f"{len(failures)} times in {before} rounds ({first.way}), and {len(again)} times in {after} rounds of the "
        f"second look; {alone}"
    )
    through = [finding.where for finding in suspects if finding.level != Level.NOTE]
    limits = [finding for finding in suspects if finding.kind in ("known-limit", "files-written")]
    values: dict[str, Any] = {
        "keys": "" if ignored else loads.shown({each.key for each in failures}),
        "remedy": _remedy(through, limits),
        "seen": seen,
    }
    if isinstance(first.copy, Raised):
        return kinds.make("ignored-exception" if ignored else "exception", first.copy.line, error=first.copy, **values)
    one_each = {repr(each.key): each for each in failures}.values()
    examples = "; ".join(f"{loads.unit} {each.key!r}: {each.how}" for each in [*one_each][:3])
    where = through[0] if len(through) == 1 else definition(loads.dataset)
    return kinds.make("results-differ", where, examples=examples, **values)


def _remedy(lines: list[str], limits: list[Finding]) -> str:
    if lines:
        causes = list(dict.fromkeys(line.partition("  ")[0] for line in lines))[:3]
        return f"see the finding of the likely cause, which has a remedy: {'; '.join(causes)}"
    nothing = "none of the dataset's own lines was seen to write what threads share"
    if limits:
        return f"{nothing}, but " + "; ".join(f"{limit.title}: {limit.remedy}" for limit in limits)
    return (
        f"{nothing}, so look at the objects that it calls: a decoder, reader or model that threads share needs one "
        "lock around each use, or one object per thread (threading.local)"
    )
