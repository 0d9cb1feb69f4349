"""The runs of a campaign, made by the workers of a Dask cluster and handed out in the order of the rounds.

A task of the cluster is a batch: some rounds, run one after the other by ``--batch`` on one worker. A batch ends at its
number of rounds or after BATCH_SECONDS. Rounds that were not made go to later batches. Results are used in the order of
the batches, not in the order of their arrival, which depends on how the runs ended. If a worker dies, Dask runs its
batch again; only one result of a batch is used.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from ftrun.environment import source_hash
from ftrun.errors import TwinError
from ftrun.escape import one_line
from ftrun.protocol import conforms, decode
from ftrun.twin import DESCRIPTION
from ftsafety.repro import outcome
from ftsafety.repro.campaign import Plan
from ftsafety.repro.link import Link
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.packages import Packages, differences
from ftsafety.repro.request import Limits, Request
from ftsafety.repro.script import Script

BATCH_SECONDS = 20.0
MOST_ROUNDS = 500
"""Largest number of rounds in a batch."""
FEWEST_AHEAD, AHEAD = 8, 2
"""Number of batches submitted before they are needed: at least 8, and 2 for each thread of the cluster."""
LONGEST_NAME = 100
HEAD = {"source": str, "twins": {str: DESCRIPTION}, "added": {str: {str: str}}, "missing": {str: str}, "remarks": [str]}
RUN = {"config": str, "outcome": outcome.FORM}
END = {"end": {str: str}}


@dataclass
class _Batch:
    """Batch that was submitted. At its end, `ended` (its last message) or `lost` (the reason) is set."""

    rounds: int
    forced: frozenset[str]
    lines: list[str] = field(default_factory=list)
    ended: dict | None = None
    lost: str | None = None


class Cluster:
    """Client of the twins on a cluster's workers. Owned by one thread, which must call `close`."""

    config = None

    def __init__(self, link: Link):
        self._link, self._source = link, source_hash()
        self.threads = link.threads
        self.nodes: dict[str, str] = {}
        """The processor of each node that has made batches, by the node's name."""
        self._twins: tuple[str, ...] = ()
        self._requires: tuple[str, ...] = ()
        self._head: dict | None = None
        """The description of the node of the first batch. All other nodes have to be equal."""
        self._first = ""
        self._plan: Plan | None = None
        self._left = self._submitted = self._next = 0
        self._batches: dict[int, _Batch] = {}
        self._ready: dict[str, deque[tuple[bool, Outcome]]] = {}
        self._failed: TwinError | None = None
        self._modules: dict[tuple[str, ...], tuple[str, ...]] = {}

    def close(self) -> None:
        """Cancel all batches and disconnect."""
        self._link.close()

    def describe(self, twins: Iterable[str], requirements: tuple[str, ...], until: float) -> dict[str, dict]:
        """Return the description of each of *twins* on the first node that answers.

        The packages *requirements* are installed for this, and again for each batch. Raises TwinError, Interrupted, or
        TimeoutError at time.monotonic() *until*.
        """
        self._twins, self._requires, self._head = tuple(twins), requirements, None
        plan = Plan(Script("nothing.py", b""), (), 1, 1, Limits(), set(), until)
        with self.ahead(plan):
            self._take_batch()
        assert self._head is not None
        return self._head["twins"]

    def packages(self) -> Packages:
        """Return the packages that the workers install for the script. Call `describe` first."""
        assert self._head is not None
        return Packages(self._head["added"], self._head["missing"], self._head["remarks"])

    @contextlib.contextmanager
    def ahead(self, plan: Plan) -> Iterator[None]:
        """Context manager: the workers make runs of *plan* ahead, in batches, and `reproduce` returns them one by one.

        At the end of the block, unused batches are cancelled.
        """
        self._plan, self._left = plan, plan.repeat
        self._ready = {config: deque() for config in plan.configs}
        self._failed = None
        try:
            yield
        finally:
            if self._batches:
                with contextlib.suppress(TwinError):
                    self._link.send({"cancel": True})
            self._plan, self._next = None, self._submitted
            self._batches.clear()

    def reproduce(self, request: Request) -> Outcome:
        """Return the next outcome in the request's configuration. Raises TwinError, Interrupted or TimeoutError."""
        ready = self._ready[request.config]
        while True:
            while not ready:
                self._take_batch()
            again, found = ready.popleft()
            # Batches that were submitted before the campaign knew that the GIL must be held off find it out again.
            if not (again and request.force_off):
                return found

    def _fill(self) -> None:
        """Submit batches until enough of them are under way."""
        plan = self._plan
        assert plan is not None
        most = max(FEWEST_AHEAD, AHEAD * self.threads)
        # Small enough that all threads get some, also at the end.
        rounds = min(MOST_ROUNDS, math.ceil(plan.repeat / (4 * max(2, self.threads))))
        while self._left and self._submitted - self._next < most:
            batch = _Batch(min(rounds, self._left), frozenset(plan.forced))
            self._batches[self._submitted] = batch
            request = {
                "source": self._source,
                "twins": self._twins,
                "packages": self._requires,
                "script": plan.script.as_json(),
                "limits": asdict(plan.limits),
                "configs": plan.configs,
                "rounds": batch.rounds if plan.configs else 0,
                "threads": plan.threads,
                "forced": sorted(batch.forced),
                "seconds": BATCH_SECONDS,
            }
            self._link.send({"run": self._submitted, "request": request})
            self._submitted += 1
            self._left -= batch.rounds

    def _take_batch(self) -> None:
        """Wait for the next batch and add its outcomes to `_ready`. Raises as `reproduce` does."""
        if self._failed:
            raise self._failed
        assert self._plan is not None
        if not self._batches:
            self._left = max(1, self._left)
        self._fill()
        batch = self._batches[self._next]
        try:
            while batch.ended is None and batch.lost is None:
                self._note(self._link.receive(self._plan.deadline))
            self._use(batch)
        except TwinError as error:
            self._failed = error
            raise
        del self._batches[self._next]
        self._next += 1

    def _note(self, message: dict) -> None:
        """Record what *message* says about a batch. Messages about batches that were cancelled are skipped."""
        self.threads = message.get("threads") or self.threads
        number = next((message[name] for name in ("of", "ended", "lost") if name in message), None)
        batch = self._batches.get(number) if isinstance(number, int) else None
        if batch is None:
            return
        if "of" in message:
            batch.lines.append(message["line"])
        elif "ended" in message:
            batch.ended = message
        else:
            batch.lost = one_line(message["why"])

    def _use(self, batch: _Batch) -> None:
        """Check the result of a batch and add its outcomes to `_ready`; raises TwinError."""
        if batch.ended is None:
            raise TwinError(batch.lost)
        node, error = _name(batch.ended["node"]), one_line(batch.ended["error"])
        lines = [_decoded(line) for line in batch.lines]
        self._check(node, lines[0] if lines else {}, error)
        if len(lines) < 2 or not conforms(lines[-1], END):
            raise TwinError(f"{node}: a batch ended too early: {error or 'without an error'}")
        self.nodes[node] = one_line(next(iter(lines[0]["twins"].values()))["cpu"]["model"])
        made = self._hand_out(node, batch, lines[1:-1])
        self._left += batch.rounds - made
        if lost := lines[-1]["end"]:
            self._failed = TwinError(f"{node}: {'; '.join(map(one_line, lost.values()))}")
        elif not made:
            raise TwinError(f"{node}: a batch made no runs")

    def _check(self, node: str, head: dict, error: str) -> None:
        """Raise TwinError if *node* cannot run batches or differs from the first node.

        *head*: the description of *node* that its batch printed, {} if none; then *error* is the reason.
        """
        if "source" not in head:
            raise TwinError(f"{node}: {error or 'a batch wrote nothing'}")
        if head["source"] != self._source:
            where = self._link.where.folder
            raise TwinError(f"{node} has other sources of this project than this program: update {where} on that node")
        if not conforms(head, HEAD) or set(head["twins"]) != set(self._twins):
            raise TwinError(f"{node}: its description has another form")
        if self._head is None:
            self._head, self._first = head, node
        for name in self._twins:
            here, first = _versions(head, name), _versions(self._head, name)
            if here != first:
                which = differences({self._first: first, node: here}) or "other packages"
                raise TwinError(f"{node} is not equal to {self._first}, in the twin {name}: {one_line(which)}")

    def _hand_out(self, node: str, batch: _Batch, lines: list[dict]) -> int:
        """Add the outcomes in *lines* to `_ready`; return the number of complete rounds. Raises TwinError."""
        made: Counter[str] = Counter()
        forced = set(batch.forced)
        for line in lines:
            try:
                if not conforms(line, RUN) or line["config"] not in self._ready:
                    raise ValueError("not a run")
                found = outcome.from_json(line["outcome"])
            except ValueError as error:
                raise TwinError(f"{node}: {error}") from error
            config, found.node = line["config"], node
            # One tuple for all runs that import the same modules.
            found.modules = self._modules.setdefault(found.modules, found.modules)
            again = found.kind is Kind.GIL and config not in forced
            if again:
                forced.add(config)
            self._ready[config].append((again, found))
            made[config] += not again
        return min((made[config] for config in self._ready), default=batch.rounds)


def _name(node: object) -> str:
    return one_line(str(node))[:LONGEST_NAME]


def _decoded(line: object) -> dict:
    """Return the JSON object in a line that a batch printed; {} if there is none."""
    with contextlib.suppress(ValueError):
        if isinstance(line, str) and isinstance(found := decode(line), dict):
            return found
    return {}


def _versions(head: Mapping, twin: str) -> dict[str, str]:
    """Return all that has to be equal on all nodes: the interpreter and packages of a twin."""
    python = head["twins"][twin]["interpreter"]
    about = {name: str(python[name]) for name in ("version", "build", "compiler", "config_args", "upstream_fixes")}
    return {**head["twins"][twin]["packages"], **head["added"].get(twin, {}), **about}
