"""The order of one epoch: drawn from the sampler, or found again and drawn from its midst.

See ``ftloader.state.samplers`` for what an order comes from.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler

from ftloader.state import generators
from ftloader.state.format import Resume, is_stateful
from ftloader.state.generators import Elsewhere
from ftloader.state.progress import Progress
from ftloader.state.samplers import (
    ITERATOR,
    LOADER,
    TORCHS,
    capture,
    digest,
    epochs,
    innermost,
    lacking,
    not_shuffled,
    restore,
    set_epochs,
    snapshot_of,
    stateful_samplers,
)


class Order:
    """The batches' indices of one epoch, reported to a ``Progress`` as they are drawn.

    Used by the thread that is inside the iterator's ``__next__`` or ``_reset``, like the
    sampler itself; what other threads may read is in the ``Progress``.

    Args:
        every: snapshots of a sampler that has a state are taken at every so many batches;
            None: only at the epoch's begin.
        resume: what to go on from; None for an epoch from its begin.
    """

    def __init__(
        self,
        index_sampler: Any,
        loader_generator: torch.Generator | None,
        every: int | None,
        resume: Resume | None = None,
    ) -> None:
        self._index_sampler = index_sampler
        self._generator = loader_generator
        self._every = every
        self._resume = resume if resume is not None and resume.midst else None
        self._progress: Progress  # from report_to() on
        self._batches: Iterator | None = None  # None before the first draw
        self._samples: Iterator = iter(())
        self._elsewhere: Elsewhere | None = None
        self._undo_draws: AbstractContextManager = nullcontext()
        self._at_iter: dict | None = None
        self._snapshot_every = 0  # 0: never
        self._drawn = 0
        if resume is not None and not resume.midst:
            self._prepare_new_epoch(resume)

    def _prepare_new_epoch(self, resume: Resume) -> None:
        """For a state from before or after an epoch: what the next one draws from."""
        if resume.sampler is not None:
            if resume.phase == "begin":
                self._load_samplers(resume.sampler)
            else:
                self._drain(resume.sampler)
        globals_ = restore(self._index_sampler, self._generator, resume.order["generators"])
        own = {name: generators.save(generators.GLOBALS[name]) for name in globals_}
        if globals_ != own:  # else the epoch draws from them as any other
            self._elsewhere = Elsewhere(globals_)
        if resume.base_seed is not None:
            self._undo_draws = self._undoing(resume)

    @contextmanager
    def _undoing(self, resume: Resume) -> Iterator[None]:
        """Around torch's ``__init__``, which draws a base seed, for an epoch of persistent
        workers, which would not have drawn one."""
        with generators.unchanged(["torch"]):
            yield
        restore(self._index_sampler, self._generator, resume.order["generators"])

    @contextmanager
    def iterating(self) -> Iterator[None]:
        """Around torch's ``iter(sampler)``, which may draw already."""
        resume = self._resume
        if resume is None:
            undone, self._undo_draws = self._undo_draws, nullcontext()
            with undone, self._elsewhere or nullcontext():
                if type(self._index_sampler) not in TORCHS:
                    self._at_iter = capture(self._index_sampler, self._generator)
                yield
            return
        set_epochs(self._index_sampler, resume.order["epochs"], distributed=True)
        saved = resume.order.get("generators_at_iter", resume.order["generators"])
        # torch's iterator draws a base seed, though the epoch goes on with the saved one.
        own = {"torch": generators.save(torch.default_generator)}
        with Elsewhere(own | restore(self._index_sampler, self._generator, saved)):
            yield

    def report_to(self, progress: Progress) -> None:
        """After ``iterating()``: from now on there is a state to be asked for."""
        self._progress = progress
        if self._resume is not None:
            progress.began(self._resume.order, None)
            return
        with self._elsewhere or nullcontext():
            progress.began(self._origin(), self._take_snapshot())

    def _origin(self) -> dict[str, Any]:
        """Where the order comes from, as long as nothing has been drawn."""
        order = {"generators": capture(self._index_sampler, self._generator), "epochs": epochs(self._index_sampler)}
        if self._at_iter is not None and self._at_iter != order["generators"]:
            order["generators_at_iter"] = self._at_iter
        return order

    def next(self, torchs: Iterator) -> Any:
        """The next batch's index. *torchs* is torch's ``iter(sampler)`` for the epoch.

        Raises ``StopIteration`` at the end, ``ValueError`` if the order cannot be found
        again, and what the sampler raises.
        """
        if self._batches is not None:
            return self._draw()
        self._batches = iter(())  # if what follows fails, the sampler has ended
        if self._resume is None:
            with self._elsewhere or nullcontext():
                self._begin(torchs)
                return self._draw()
        set_epochs(self._index_sampler, self._resume.order["epochs"], distributed=True)
        saved = self._resume.order["generators"]
        with Elsewhere(restore(self._index_sampler, self._generator, saved)):
            self._begin_midst(torchs, self._resume)
            return self._draw()

    def _begin(self, torchs: Iterator) -> None:
        sampler = innermost(self._index_sampler)
        if type(sampler) is RandomSampler and sampler.generator is None:
            # Drawn as it would draw it in its first step. So it is known for certain, though
            # the default generator may be used by other threads.
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
            order: dict[str, Any] = {"seed": seed, "generators": {}, "epochs": {}}
            if self._generator is not None and self._generator is not torch.default_generator:
                order["generators"] = {LOADER: generators.save(self._generator)}
        else:
            seed, order = None, self._origin()
        self._open(torchs, seed)
        self._progress.began(order, self._take_snapshot())

    def _begin_midst(self, torchs: Iterator, resume: Resume) -> None:
        if resume.sampler is not None:
            # The samplers first, since what they know is where their iterators begin.
            if self._load_samplers(resume.sampler):
                torchs = iter(self._index_sampler)
        self._open(torchs, resume.order.get("seed"))
        if resume.sampler is not None:
            self._load_iterator(resume.sampler)
        self._skip(resume)

    def _open(self, torchs: Iterator, seed: int | None = None) -> None:
        """Makes the iterators. torch's ``BatchSampler`` asks the sampler inside for its
        iterator in the first step, so here that is done for it: the result is the same, and
        the inner iterator is within reach."""
        sampler = innermost(self._index_sampler)
        if seed is not None:
            if type(sampler) is not RandomSampler:
                raise not_shuffled(self._index_sampler)
            sampler = copy.copy(sampler)
            sampler.generator = torch.Generator()
            sampler.generator.manual_seed(seed)
        outer = self._index_sampler
        if type(outer) is BatchSampler:
            self._samples = iter(sampler)
            self._batches = iter(BatchSampler(self._samples, outer.batch_size, outer.drop_last))
        else:
            self._samples = self._batches = torchs if seed is None else iter(sampler)
        self._snapshot_every = self._every if self._every is not None and self._parts() else 0

    # Samplers with a state of their own

    def _parts(self) -> dict[str, Any]:
        parts = stateful_samplers(self._index_sampler)
        if is_stateful(self._samples):
            parts[ITERATOR] = self._samples
        return parts

    def _take_snapshot(self) -> dict | None:
        return snapshot_of(self._parts(), self._drawn)

    def _load_samplers(self, snapshot: Mapping[str, Any]) -> bool:
        """False if there was nothing to load but an iterator's state."""
        parts = stateful_samplers(self._index_sampler)
        states = {k: v for k, v in snapshot["states"].items() if k != ITERATOR}
        for name, state in states.items():
            if name not in parts:
                raise lacking(name)
            parts[name].load_state_dict(copy.deepcopy(state))
        return bool(states)

    def _load_iterator(self, snapshot: Mapping[str, Any]) -> None:
        self._drawn = snapshot["drawn"]
        if ITERATOR in snapshot["states"]:
            if not is_stateful(self._samples):
                raise lacking(ITERATOR)
            self._samples.load_state_dict(copy.deepcopy(snapshot["states"][ITERATOR]))  # type: ignore[attr-defined]

    def _drain(self, snapshot: Mapping[str, Any]) -> None:
        """Lets the sampler go through the end of the epoch that the state is from."""
        with generators.unchanged(generators.GLOBALS):
            self._load_samplers(snapshot)
            self._open(iter(self._index_sampler))
            self._load_iterator(snapshot)
            for _ in self._batches:  # type: ignore[union-attr]  # made by _open()
                pass
        self._batches, self._samples = None, iter(())
        self._drawn = 0

    # Batches

    def _draw(self) -> Any:
        resume = self._resume
        while True:
            try:
                index = next(self._batches)  # type: ignore[arg-type]  # made by next()
            except StopIteration:
                if resume is not None and self._drawn < resume.handed_over:
                    raise ValueError(
                        f"the sampler ended after {self._drawn} batches, but the state says that "
                        f"{resume.handed_over} were handed over: was it saved with another "
                        "dataset or sampler?"
                    ) from None
                raise
            except Exception:
                self._drawn += 1  # iterators go on after it, counting it as a batch
                raise
            own = index
            if type(index) is list:
                # The sampler may reuse its list for the next batch, while this one is on its
                # way: to a worker thread, or through a queue that pickles it later. And the
                # dataset may change what it is given (``indices.sort()`` in ``__getitems__``),
                # whenever a state is made of ours.
                index, own = index.copy(), index.copy()
            number = self._drawn
            self._drawn += 1
            if self._snapshot_every and self._drawn % self._snapshot_every == 0:
                self._progress.sampler_snapshot(self._take_snapshot())
            if resume is not None:
                if resume.last is not None and number == resume.last["batch"]:
                    _check_order(index, resume.last)
                if number < resume.handed_over or number in resume.ahead:
                    continue
            self._progress.drew(number, own)
            return index

    def _skip(self, resume: Resume) -> None:
        """Most of what was handed over, in large steps; ``_draw`` does the rest."""
        batches = resume.handed_over - 1 - self._drawn
        if batches <= 0 or resume.sampler is not None:
            return  # a sampler with a state has few to skip
        outer = self._index_sampler
        if type(outer) is BatchSampler:
            samples = sum(1 for _ in islice(self._samples, batches * outer.batch_size))
            self._drawn = samples // outer.batch_size
            if self._drawn < batches:
                self._batches = iter(())  # ended early: _draw says so
        else:
            self._drawn += sum(1 for _ in islice(self._samples, batches))


def _check_order(index: Any, last: Mapping[str, Any]) -> None:
    if last["digest"] is not None and digest(index) != last["digest"]:
        raise ValueError(
            f"the sampler does not give the order again that the state is from: batch "
            f"{last['batch']} consists of other samples. Was the state saved with another dataset, "
            "sampler or seed? If the sampler draws random numbers as it yields, give it "
            "state_dict() and load_state_dict()"
        )
