"""The kinds of findings, with level, text and remedy. All findings are made by `make`."""

from typing import Any, NamedTuple

from ftsafety.audit.libraries import IO_SOURCE, LIMITS, NUMPY_SOURCE
from ftsafety.audit.report import Finding, Level


class _FindingKind(NamedTuple):
    """Kind of finding: its level and texts. `make` puts values in place of {names} in the texts."""

    level: Level
    title: str
    explanation: str
    remedy: str
    evidence: str


_TWICE = "in both of two observations, each with two threads taking turns"
_WRITTEN = f"written to the same object, with no lock held, {_TWICE}"
_PER_THREAD = (
    "keep it per thread (threading.local); or, if threads may share what is written (a "
    "connection, or a file with a "
    "position, they may not), make it in __init__, or put a lock around the test and the write"
)
MIXTURE = f"Threads that write the same array at once leave a mixture ({NUMPY_SOURCE})."

POSITIONS = {
    "memory map": (
        "Between a seek() and its read() another thread may move it: the wrong bytes are read.",
        "read slices of the map (map[begin:end]), which have no position; or map the file once per "
        "thread (threading.local); or hold one lock from every seek to the end of its read",
    ),
    "file": (
        "Between a seek() and its read() another thread may move it, and the wrong bytes are read, "
        f"mostly without an error ({IO_SOURCE}).",
        "read with os.pread(file.fileno(), size, offset), which has no position; or open the file "
        "once per thread (threading.local); or hold one lock from every seek to the end of its "
        "read",
    ),
}
"""By kind of handle: the harm that a shared position may do, and the remedy."""
OWN = "; where the line is a library's, put a transform of your own in its place"


def remedy_of_draw(name: str, generator: str, where: str) -> str:
    """Return the remedy in words: the code to write
    at *where* ("file:line") instead of calling *name*.
    """
    function = name.rpartition(".")[2]
    if "seed" in function:
        return (
            f"at {where} leave {function}() out; draw from ftloader.sample_rng(), which is "
            f"seeded for each sample"
        )
    if generator.startswith("NumPy"):
        calls = "random(), integers(), standard_normal(), shuffle(), choice()"
        return f"at {where} use ftloader.sample_rng().numpy instead: {calls} and others{OWN}"
    if generator.startswith("torch"):
        return (
            f"at {where} give {function}() the argument generator=ftloader.sample_rng().torch; "
            "where the line is a library's, call that in a block `with ftloader.sample_draws():`"
        )
    return f"at {where} write ftloader.sample_rng().python.{function}(...){OWN}"


_WRITES = {
    "checked": (
        "{target} is looked at and then written, by several threads without a lock",
        "Between the test and the write another thread may do the same: two values are made, and "
        "one is lost or both are used.",
        _PER_THREAD,
    ),
    "global": (
        "the global variable {target} is written by several threads without a lock",
        "Which value remains, and which value a thread reads back, depends on the order of the "
        "threads.",
        "pass the value on as an argument or return it; else threading.local, or a lock from the "
        "write to the last read",
    ),
    "attribute": (
        "{target} is written by several threads without a lock",
        "All threads share the dataset: what one writes there, another may read in the middle "
        "of its sample.",
        "use a local variable for what belongs to one sample; else threading.local, or a lock from "
        "the write to the last read",
    ),
    "item": (
        "{target} is written by several threads without a lock",
        "All threads share the container: one may overwrite what another is about to read.",
        "use a local variable for what belongs to one sample; a cache needs a lock around all "
        "lines that use it, or dict.setdefault if no entry is ever changed or removed",
    ),
    "array": (
        "several threads change {target} without a lock",
        MIXTURE,
        "use a local variable for what belongs to one sample; else a lock around all lines "
        "that belong together",
    ),
    "cycle": (
        "several threads take the next element of {target} without a lock",
        "The cycle hands an element out again, also while another thread still uses it. A buffer "
        "then holds parts of two samples.",
        "allocate the buffer in each call; or keep one per thread (threading.local), and return a "
        "copy; or keep free buffers in a queue.SimpleQueue: get() one at first, put() it back once "
        "the sample is copied",
    ),
    "call": (
        "several threads change {target} without a lock",
        "The call itself is atomic, but not together with what the line does before and after it.",
        "use a local variable for what belongs to one sample; else a lock around all lines "
        "that belong together",
    ),
}

_KINDS = {
    **{
        f"unguarded-write {way}": _FindingKind(Level.RISK, *words, _WRITTEN)
        for way, words in _WRITES.items()
    },
    "lost-update": _FindingKind(
        Level.PROBLEM,
        "lost updates: several threads read, compute and write {target} without a lock",
        "Two threads that read the same value write the same result, and one update is gone.",
        "put one lock around each line that writes it, or count per thread (threading.local) "
        "and add up at the end",
        _WRITTEN,
    ),
    "same-value": _FindingKind(
        Level.NOTE,
        "{target} is written by several threads without a lock, but always with the same value",
        "Two threads may both make the value, and either is right. The value holds no file "
        "position.",
        "none needed; a lock around the test and the write saves making the value twice",
        "in two passes in opposite orders; and no thread got a wrong sample",
    ),
    "atomic-calls": _FindingKind(
        Level.NOTE,
        "several threads change {target} without a lock, but safely",
        "The call is atomic, and the dataset's functions use the container in no other way than "
        "this: they add entries that no sample reads; or they take an entry, use it alone and put "
        "it back. The entries' order differs.",
        "none needed",
        f"{_TWICE}; and no thread got a wrong sample",
    ),
    "late-thread-local": _FindingKind(
        Level.NOTE,
        "each thread makes its own {target} when it loads its first sample",
        "This is safe. But it exists once per worker thread: it takes that many times the memory "
        "or file handles, delays each worker's first sample, and ends with the thread: with "
        "persistent_workers=False in every epoch.",
        "none needed; keep workers (persistent_workers=True) where making it is expensive",
        f"made {_TWICE}",
    ),
    "file-position": _FindingKind(
        Level.PROBLEM,
        "the position of a {handle} that threads share is moved",
        "{file}{others}: all threads share the position. {what}",
        "{remedy}",
        f"the position moved, with no lock of the dataset's held, {_TWICE}",
    ),
    "global-random": _FindingKind(
        Level.PROBLEM,
        "{name}() uses {generator}",
        "All threads share this generator: which sample gets which number depends on the order of "
        "the threads, so a fixed seed does not repeat the results.",
        "{remedy}",
        f"called {_TWICE}",
    ),
    "known-limit": _FindingKind(
        Level.NOTE,
        "{name}, which is in use, has limits under threads",
        "{limit.says} ({limit.source})",
        "{limit.remedy}",
        "the dataset calls it, or refers to an object of it",
    ),
    "not-repeatable": _FindingKind(
        Level.NOTE,
        "samples differ from call to call, with one thread alone: {keys}",
        "They are random, or depend on earlier calls. This is no race; under threads only their "
        "types and shapes are compared.",
        "draw random numbers from ftloader.sample_rng(), which repeats them, or let the dataset "
        "switch its randomness off for an audit",
        "three serial passes, in two orders",
    ),
    "overwritten-sample": _FindingKind(
        Level.PROBLEM,
        "loading a sample overwrites the previous one: {keys}",
        "The dataset returns memory that it uses again for the next sample. But even a single "
        "worker collects all samples of a batch before it copies them.",
        "allocate a new result in every call; or keep one per thread (threading.local), and "
        "return a copy of it",
        "{number} samples changed after they had been returned, with one thread",
    ),
    "raises": _FindingKind(
        Level.NOTE,
        "{keys}: loading raises with one thread too: {error.text}",
        "This is no race, but such a sample says nothing about threads.\n{error.traceback}",
        "repair or leave out what cannot be loaded, or audit other samples (--indices)",
        "in each load",
    ),
    "decoded-late": _FindingKind(
        Level.RISK,
        "{path}, an image that threads share, is decoded by the first sample that uses it",
        "{number} images were opened when the dataset was made, and not loaded. "
        f"{LIMITS['PIL'].says} ({LIMITS['PIL'].source}). Two threads that use such an image at "
        "once both read its file.",
        LIMITS["PIL"].remedy,
        "not decoded before the first pass, and decoded after it",
    ),
    "shared-array": _FindingKind(
        Level.RISK,
        "the values of {path}, an array that threads share, are overwritten for every sample",
        f"{MIXTURE}{{lock}}",
        "allocate the array in each call; or keep one per thread (threading.local), and return a "
        "copy; else a lock from the first write to the last read, which is that of a copy if the "
        "array is returned",
        "other values after each of two serial passes",
    ),
    "shared-view": _FindingKind(
        Level.RISK,
        "threads share {path}, a memoryview",
        "Its count of slices and arrays made from it is changed without a lock where the GIL "
        "is off: a thread may find "
        'it released ("operation forbidden on released memoryview object"), or the interpreter '
        "crashes "
        "(https://github.com/python/cpython/issues/155606). {number} in all.",
        "keep what is behind it (bytes, an array, a memory map), and make a memoryview of that "
        "in each call",
        "the dataset refers to it; slices are not watched",
    ),
    "files-written": _FindingKind(
        Level.NOTE,
        "loading writes files, such as {path}",
        "Two threads or processes that load the same sample may write one file at once, or one may "
        "read what the other has not written to its end. Where the file is there from an earlier "
        "run, nothing of that is seen.",
        "none needed where a file is written under a name of its own (tempfile.mkstemp() in the "
        "same folder) and then renamed by os.replace(); else write it so",
        "{number} written by one thread in three passes",
    ),
    "bound-to-thread": _FindingKind(
        Level.PROBLEM,
        "no thread but the one that made the dataset can use it: {error.text}",
        "Worker threads load samples, and another thread makes the dataset.\n{error.traceback}",
        "make it once per thread, in __getitem__, when it is first needed: `if not "
        "hasattr(self.local, 'connection'): "
        "self.local.connection = connect(...)`, where self.local is a threading.local()",
        "it failed twice in another thread, and worked twice in the thread that made the dataset",
    ),
    "other-in-makers-thread": _FindingKind(
        Level.PROBLEM,
        "worker threads get other samples than the thread that made the dataset: {keys}",
        "{how}. Something was set for that thread alone when the dataset was made, such as an "
        "attribute of a threading.local. Worker processes, which are forked from that thread, have "
        "it; worker threads do not.",
        "keep it in an attribute of the dataset, or set it where a sample is loaded",
        "at least twice in the thread that made the dataset, and in each serial pass of "
        "another one",
    ),
    "exception": _FindingKind(
        Level.PROBLEM,
        "only under threads: {error.text}",
        "{keys}\n{error.traceback}",
        "{remedy}",
        "{seen}",
    ),
    "ignored-exception": _FindingKind(
        Level.PROBLEM,
        "only under threads, where Python ignores it: {error.text}",
        "It came while an object was destroyed, or ended a thread, so Python could only print "
        "it.\n{error.traceback}",
        "{remedy}",
        "{seen}",
    ),
    "results-differ": _FindingKind(
        Level.PROBLEM, "other results under threads: {keys}", "{examples}", "{remedy}", "{seen}"
    ),
    "hang": _FindingKind(
        Level.PROBLEM,
        "threads are stuck: {number} of them",
        "{first}. The stacks:\n{second.stacks}",
        "take locks in the same order everywhere, release them by `with`, and wait for nothing "
        "while holding one",
        "the same threads were stuck when looked at again; one thread alone does not hang",
    ),
    "crash": _FindingKind(
        Level.PROBLEM,
        "the interpreter crashes under threads: {crash.signal}",
        "while {crash.step}. The stacks:\n{crash.stacks}",
        "put one lock around every use of the extension module's object that threads share, or "
        "make one per thread (threading.local); report the crash to the module's authors",
        "in {number} of 2 processes ({signals})",
    ),
    "gil-enabled": _FindingKind(
        Level.PROBLEM,
        "importing {module} turns the GIL back on",
        "The extension module does not declare that it can run without the GIL, so the whole "
        "process has it from then on: this hides some races, and makes threads slow.",
        "use a release of it that supports free threading (py-free-threading.github.io/tracking), "
        "leave it out, or set PYTHON_GIL=0 at your own risk and audit again",
        "CPython said so at this import",
    ),
}


def make(kind: str, where: Any, level: Level | None = None, **values: Any) -> Finding:
    """Return a finding of *kind* at *where*. *level* replaces the kind's level, *values* the
    {names} in its texts.
    """
    finding_kind = _KINDS[kind]
    return Finding(
        kind=kind.partition(" ")[0],
        level=level or finding_kind.level,
        title=finding_kind.title.format(**values),
        where=str(where),
        what=finding_kind.explanation.format(**values),
        remedy=finding_kind.remedy.format(**values),
        seen=finding_kind.evidence.format(**values),
    )
