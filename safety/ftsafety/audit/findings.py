"""Findings made from observations: the words, the lines and the remedies."""

from typing import Any

from ftsafety.audit.comparison import Raised
from ftsafety.audit.concurrent_loads import Burst, Odd, Stuck
from ftsafety.audit.libraries import IO_SOURCE, LIMITS, NUMPY_SOURCE, ONLY_SHARED
from ftsafety.audit.observer import Observed, Write, definition, line_naming
from ftsafety.audit.reachable import Node
from ftsafety.audit.report import NOTE, PROBLEM, RISK, Finding
from ftsafety.audit.samples import Loads

_TWICE = "in both of two observations, each with two threads taking turns"
_PER_THREAD = (
    "keep it per thread (threading.local), or make it in __init__, or put a lock around the test and the write"
)

_WRITES = {
    "augmented": (
        PROBLEM,
        "lost updates: several threads read, compute and write {target} without a lock",
        "Two threads that read the same value write the same result, and one update is gone.",
        "put a lock around the line, or count per thread (threading.local) and add up at the end",
    ),
    "checked": (
        RISK,
        "{target} is looked at and then written, by several threads without a lock",
        "Between the test and the write another thread may do the same: two values are made, and one is lost "
        "or both are used.",
        _PER_THREAD,
    ),
    "global": (
        RISK,
        "the global variable {target} is written by several threads without a lock",
        "Which value remains, and which value a thread reads back, depends on the order of the threads.",
        "pass the value on as an argument or return it; else a lock, or threading.local",
    ),
    "attribute": (
        RISK,
        "{target} is written by several threads without a lock",
        "All threads share the dataset: what one writes there, another may read in the middle of its sample.",
        "use a local variable for what belongs to one sample; else a lock, or threading.local",
    ),
    "item": (
        RISK,
        "{target} is written by several threads without a lock",
        "All threads share the container: one may overwrite what another is about to read.",
        "use a local variable for what belongs to one sample; a cache needs a lock, or dict.setdefault",
    ),
    "call": (
        RISK,
        "several threads change {target} without a lock",
        "The call itself is atomic, but not together with what the line does before and after it.",
        "use a local variable for what belongs to one sample; else a lock around all lines that belong together",
    ),
}

_POSITIONS = {
    "memory map": (
        "Between a seek() and its read() another thread may move it: the wrong bytes are read.",
        "read slices of the map (map[begin:end]), which have no position; or map the file once per thread "
        "(threading.local); or put a lock around seek and read",
    ),
    "file": (
        "Between a seek() and its read() another thread may move it, and the wrong bytes are read, mostly without an "
        f"error ({IO_SOURCE}).",
        "read with os.pread(file.fileno(), size, offset), which has no position; or open the file once per thread "
        "(threading.local); or put a lock around seek and read",
    ),
}


def from_observation(loads: Loads, first: Observed, second: Observed, nodes: list[Node]) -> list[Finding]:
    """Return findings that two observations agree on."""
    found = []
    for write in sorted(first.writes & second.writes):
        found.append(_late(write) if write.per_thread else _write(write))
    found += _moves(first, second)
    for draw in sorted(first.draws & second.draws):
        found.append(
            Finding(
                "global-random",
                PROBLEM,
                f"{draw.name}() uses {draw.generator}",
                str(draw.line),
                "All threads share this generator: which sample gets which number depends on the order of the threads, "
                "so a fixed seed does not repeat the results.",
                "use the sample's own generator: ftloader.sample_rng().python, .numpy or .torch; where the line is a "
                "library's, put a transform of your own in its place",
                f"called {_TWICE}",
            )
        )
    return found + _limits(second, nodes)


def _write(write: Write) -> Finding:
    level, title, what, remedy = _WRITES[write.kind]
    if write.kind == "call" and ("ndarray" in write.target or "tensor" in write.target):
        what = f"Threads that write the same array at once leave a mixture ({NUMPY_SOURCE})."
    return Finding(
        "lost-update" if write.kind == "augmented" else "unguarded-write",
        level,
        title.format(target=write.target),
        str(write.line),
        what,
        remedy,
        f"written to the same object, with no lock held, {_TWICE}",
    )


def _moves(first: Observed, second: Observed) -> list[Finding]:
    lines = {move.line for move in first.moves} & {move.line for move in second.moves}
    by_file: dict[str, list] = {}
    for move in sorted(second.moves):
        if move.line in lines:
            by_file.setdefault(move.file, []).append(move)
    unique = {tuple(move.line for move in moves): (file, moves) for file, moves in by_file.items()}
    found = []
    for file, moves in unique.values():
        direct = any(move.direct for move in moves)
        others = sorted({f"{move.line.filename}:{move.line.number}" for move in moves[1:]})
        kind = "memory map" if file == "mmap" else "file"
        what, remedy = _POSITIONS[kind]
        found.append(
            Finding(
                "file-position",
                PROBLEM if direct else RISK,
                f"the position of a {kind} that threads share is moved",
                str(moves[0].line),
                f"{file}{' (also at ' + ', '.join(others) + ')' if others else ''}: all threads share the position. "
                f"{what}"
                + ("" if direct else " Here a library moves it; it may hold a lock of its own around both calls."),
                remedy,
                f"the position moved, with no lock of the dataset's held, {_TWICE}",
            )
        )
    return found


def _late(write: Write) -> Finding:
    return Finding(
        "late-thread-local",
        NOTE,
        f"each thread makes its own {write.target} when it loads its first sample",
        str(write.line),
        "This is safe. But it exists once per worker thread: it takes that many times the memory or file handles, "
        "delays each worker's first sample, and ends with the thread: with persistent_workers=False in every epoch.",
        "none needed; keep workers (persistent_workers=True) where making it is expensive",
        f"made {_TWICE}",
    )


def _limits(seen: Observed, nodes: list[Node]) -> list[Finding]:
    shared: dict[str, str] = {}
    for node in nodes:
        shared.setdefault(type(node.value).__module__.partition(".")[0].lstrip("_"), node.path)
    found = []
    for name, limit in LIMITS.items():
        called = seen.libraries.get(name)
        if name in shared or (called and name not in ONLY_SHARED):
            where = str(called) if called else f"{shared[name]} is of {name}"
            found.append(
                Finding(
                    "known-limit",
                    NOTE,
                    f"{name}, which is in use, has limits under threads",
                    where,
                    f"{limit.says} ({limit.source})",
                    limit.remedy,
                    "the dataset calls it, or refers to an object of it",
                )
            )
    return found


def from_serial(loads: Loads, unequal: set, overwritten: list) -> list[Finding]:
    """Return findings of samples loaded by one thread."""
    found, where = [], str(definition(loads.dataset))
    if unequal:
        found.append(
            Finding(
                "not-repeatable",
                NOTE,
                f"samples differ from call to call, with one thread alone: {shown(loads, unequal)}",
                where,
                "They are random, or depend on earlier calls. This is no race; under threads only their types and "
                "shapes are compared.",
                "draw random numbers from ftloader.sample_rng(), which repeats them, or let the dataset switch its "
                "randomness off for an audit",
                "three serial passes, in two orders",
            )
        )
    repeated = [key for key in overwritten if key not in unequal]
    if repeated:
        found.append(
            Finding(
                "overwritten-sample",
                PROBLEM,
                f"loading a sample overwrites the previous one: {shown(loads, repeated)}",
                where,
                "The dataset returns memory that it uses again for the next sample. But even a single worker collects "
                "all samples of a batch before it copies them.",
                "return a copy, or allocate a new result in every call",
                f"{len(repeated)} samples changed after they had been returned, with one thread",
            )
        )
    return found


def from_changes(
    dataset: Any, changes: set[tuple[str, str]], written: list[Finding], second: Observed
) -> list[Finding]:
    """Return findings of state that changed although no line of the dataset was seen to write it."""
    known = [finding.where + finding.title for finding in written] + [str(line) for line in second.locks]
    found = []
    for path, change in sorted(changes):
        name = path.split("[")[0].rpartition(".")[2]
        if any(name in text for text in known):
            continue
        found.append(
            Finding(
                "state-changed",
                NOTE,
                f"{path} changes while samples are loaded",
                str(definition(dataset)),
                f"{change}. None of the dataset's own lines was seen to write it without a lock. So a library "
                "writes it (functools.cached_property, for example), or a line that holds a lock.",
                "none needed if a lock is held; else make it in __init__, before threads share the dataset",
                "changed in each of two serial passes",
            )
        )
    return found


def from_arrays(dataset: Any, paths: set[str], codes: set, written: list[Finding], second: Observed) -> list[Finding]:
    """Return findings of arrays that every sample overwrites: by ``out=``, a decoder, or through a local name."""
    known = [finding.where + finding.title for finding in written] + [str(line) for line in second.locks]
    found = []
    for path in sorted(paths):
        name = path.split("[")[0].rpartition(".")[2]
        if any(name in text for text in known):
            continue
        line = line_naming(codes, name)
        # The lock under which a library writes cannot be seen. If the dataset has no lock, there is none.
        level = NOTE if second.has_locks else RISK
        found.append(
            Finding(
                "shared-array",
                level,
                f"the values of {path}, an array that threads share, are overwritten for every sample",
                str(line or definition(dataset)),
                f"Threads that write the same array at once leave a mixture ({NUMPY_SOURCE})."
                + (
                    " The dataset has a lock; if it is held from the first write to the last read, this is safe."
                    if second.has_locks
                    else ""
                ),
                "allocate the array in each call, or one a thread (threading.local); else a lock from the first write "
                "to the last read",
                "other values after each of two serial passes",
            )
        )
    return found


def from_owner_thread(loads: Loads, error: Raised) -> Finding:
    """Return the finding of a dataset that only the thread that made it can use."""
    return Finding(
        "bound-to-thread",
        PROBLEM,
        f"no thread but the one that made the dataset can use it: {error.text}",
        error.line,
        f"Worker threads load samples, and another thread makes the dataset.\n{error.traceback}",
        "make it once per thread (threading.local), in __getitem__, when it is first needed",
        "it failed twice in another thread, and worked twice in the thread that made the dataset",
    )


def from_makers_thread(loads: Loads, other: dict[Any, str]) -> list[Finding]:
    """Return findings of samples that differ in the thread that made the dataset. *other*: how they differ."""
    if not other:
        return []
    key, how = next(iter(other.items()))
    return [
        Finding(
            "other-in-makers-thread",
            PROBLEM,
            f"worker threads get other samples than the thread that made the dataset: {shown(loads, set(other))}",
            str(definition(loads.dataset)),
            f"{loads.unit} {key}: {how}. Something was set for that thread alone when the dataset was made, such as an "
            "attribute of a threading.local. Worker processes, which are forked from that thread, have it; worker "
            "threads do not.",
            "keep it in an attribute of the dataset, or set it where a sample is loaded",
            "twice in the thread that made the dataset, and in each serial pass of another one",
        )
    ]


def from_threads(
    loads: Loads,
    odds: list[Odd],
    again: list[Odd],
    bursts: list[Burst],
    bursts_again: list[Burst],
    suspects: list[Finding],
) -> Finding:
    """A failure that only came under threads, and came again."""
    first = odds[0]
    keys = sorted({odd.key for odd in odds}, key=repr)
    rounds = sum(burst.rounds for burst in bursts)
    seen = (
        f"{len(odds)} times in {rounds} rounds ({first.way}), and {len(again)} times in "
        f"{sum(burst.rounds for burst in bursts_again)} rounds of the second look; one thread alone gets it right "
        "before and after"
    )
    through = [finding.where for finding in suspects if finding.level != NOTE]
    limits = [finding for finding in suspects if finding.kind == "known-limit"]
    if isinstance(first.got, Raised):
        return Finding(
            "exception",
            PROBLEM,
            f"only under threads: {first.got.text}",
            first.got.line,
            f"{shown(loads, keys)}\n{first.got.traceback}",
            _through(through, limits),
            seen,
        )
    where = through[0] if len(through) == 1 else str(definition(loads.dataset))
    examples = "; ".join(f"{loads.unit} {odd.key!r}: {odd.how}" for odd in _one_each(odds)[:3])
    return Finding(
        "results-differ",
        PROBLEM,
        f"other results under threads: {shown(loads, keys)}",
        where,
        examples,
        _through(through, limits),
        seen,
    )


def _through(lines: list[str], limits: list[Finding]) -> str:
    if lines:
        return "see the finding of the likely cause, which has a remedy: " + "; ".join(
            line.partition("  ")[0] for line in lines[:3]
        )
    if limits:
        return "none of the dataset's own lines was seen to write what threads share, but " + "; ".join(
            f"{limit.title}: {limit.remedy}" for limit in limits
        )
    return (
        "none of the dataset's own lines was seen to write what threads share, so look at the objects that it calls: "
        "a decoder, reader or model that threads share needs a lock, or one per thread (threading.local)"
    )


def from_hang(loads: Loads, first: Stuck, second: Stuck) -> Finding:
    return Finding(
        "hang",
        PROBLEM,
        f"threads are stuck: {len(second.names)} of them",
        second.line or str(definition(loads.dataset)),
        f"{first}. The stacks:\n{second.stacks}",
        "take locks in the same order everywhere, release them by `with`, and wait for nothing while holding one",
        "the same threads were stuck when looked at again; one thread alone does not hang",
    )


def plural(unit: str) -> str:
    """Return the plural of "index" or "worker"."""
    return {"index": "indices"}.get(unit, unit + "s")


def shown(loads: Loads, keys: Any) -> str:
    ordered = sorted(keys, key=lambda key: (not isinstance(key, int), key if isinstance(key, int) else repr(key)))
    listed = ", ".join(map(repr, ordered[:8])) + (", ..." if len(ordered) > 8 else "")
    return f"{loads.unit if len(ordered) == 1 else plural(loads.unit)} {listed}"


def _one_each(odds: list[Odd]) -> list[Odd]:
    return list({repr(odd.key): odd for odd in odds}.values())
