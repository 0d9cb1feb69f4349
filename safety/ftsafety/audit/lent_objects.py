"""Record of the objects that the loading of a sample takes out of shared containers, so has alone
until it ends.
"""

import contextlib
import types
from collections.abc import Container
from typing import Any, NamedTuple

from ftloader.diagnosis.lookups import is_a
from ftsafety.audit.file_positions import has_position
from ftsafety.audit.pools import BUFFERS, assigned, is_value
from ftsafety.audit.reachable import variables_of, walk


class _Taking(NamedTuple):
    """Call that takes an object out of `container`;
    `frame` assigns it to the local variables `names`.
    """

    container: Any
    frame: types.FrameType
    before: dict[str, Any]
    """The local variables before the call."""
    names: list[str]

    def entries(self) -> list[Any]:
        """Return the objects that the call took; [] if it raised."""
        variables = self.frame.f_locals
        entries = []
        for name in self.names:
            value = variables.get(name)
            if value is not self.before.get(name):
                entries.append(value)
        return entries

    def is_unknown(self, entries: list[Any]) -> bool:
        """True if the *entries* cannot be followed: they are in no variable, or unrelated code may
        use them as well.
        """
        if not self.names:
            return True
        return bool(entries) and all(map(is_value, entries))


class PoolRecorder:
    """Recorder of the objects that one sample at a time takes out of shared containers."""

    def __init__(self, dataset: Any) -> None:
        self.lends_values = False
        """See `observer.Observed`."""
        self._dataset = dataset
        self._pools: set[int] = set()  # ids of containers from which samples take objects
        self._containers: dict[int, tuple[Any, Any]] = {}  # by id, (taken object, its container)
        # By id and descriptor, (object, container's id)
        self._lent: dict[int, tuple[Any, int]] = {}
        self._taking: _Taking | None = None
        self._others: set[int] = set()  # ids of what else threads share, as found for this sample
        self._classes: set[int] = set()  # ids of the classes whose variables are among these

    @property
    def lent(self) -> Container[int]:
        """Ids and descriptors of the objects that the thread has alone."""
        return self._lent

    def shared_as(self, value: Any) -> Any:
        """Return the container from which samples take *value*, else *value*.

        A SimpleQueue does not show its entries, so what samples take out of it is shared as it is.
        """
        _, container = self._containers.get(id(value), (None, value))
        return container

    def next_call(self, frame: types.FrameType, container: Any, method: str) -> None:
        """Take up the call of a *method* in POOL of a shared *container*, which *frame* makes."""
        if method.startswith(("pop", "get")) and not is_a(container, dict):
            self._pools.add(id(container))
            user, names = assigned(frame)
            self._taking = _Taking(container, user, dict(user.f_locals), names)
        else:
            self._take_back(container)

    def _take_back(self, container: Any) -> None:
        """Drop what was taken from *container*; or all that was taken,
        if none came from this pool.
        """
        kept = {}
        for number, (value, container_id) in self._lent.items():
            if container_id != id(container):
                kept[number] = value, container_id
        if len(kept) == len(self._lent) and id(container) in self._pools:
            kept = {}  # what is put back came from another container
        self._lent = kept

    def settle(self) -> None:
        """Record the objects that the thread's previous call took out
        of a shared container, if any.
        """
        if self._taking is None:
            return
        taking, self._taking = self._taking, None
        entries = taking.entries()
        values = _reachable_from(entries)
        if taking.is_unknown(entries) or any(is_a(value, BUFFERS) for value in values):
            self.lends_values = True
        self._find_others(values, taking.frame)
        for value in values:
            if id(value) not in self._others:
                self._lend(value, taking.container)

    def _find_others(self, values: list[Any], frame: types.FrameType) -> None:
        """Add what threads share through the dataset,
        through global variables and the classes of *values*.
        """
        roots: list[Any] = variables_of(self._new_classes(values))
        if not self._others:
            roots += [self._dataset, frame.f_globals]
        self._others.update(map(id, _reachable_from(roots)))

    def _new_classes(self, values: list[Any]) -> list[type]:
        """Return the classes of the dataset and of *values* that this sample had not used yet."""
        classes = []
        for cls in map(type, [self._dataset, *values]):
            if id(cls) not in self._classes:
                self._classes.add(id(cls))
                classes.append(cls)
        return classes

    def _lend(self, value: Any, container: Any) -> None:
        self._containers[id(value)] = value, container
        self._lent[id(value)] = value, id(container)
        with contextlib.suppress(Exception):  # no descriptor, or closed
            if has_position(value):
                self._lent[value.fileno()] = value, id(container)

    def end_sample(self) -> None:
        """Drop the objects that the sample still has: the next one starts with none."""
        self._taking = None
        self._lent.clear()
        self._others.clear()
        self._classes.clear()


def _reachable_from(roots: list[Any]) -> list[Any]:
    """Return *roots* and all objects that these refer to."""
    values: list[Any] = []
    for root in roots:
        values += [node.value for node in walk(root)]
    return values
