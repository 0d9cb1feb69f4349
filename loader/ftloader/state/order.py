"""The order of one epoch: drawn from the sampler, or found again and drawn from its midst.

See ``ftloader.state.samplers`` for what an order comes from.
"""

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler

from ftloader.state import generators, samplers
from ftloader.state.format import Resume, is_stateful
from ftloader.state.generators import State
from ftloader.state.progress import Progress


class Order:
    """The batches' indices of one epoch, reported to a ``Progress`` as they are drawn.

    Used by the thread that is inside the iterator's ``__next__`` or ``_reset``, like the
    sampler itself; what other threads may read is in the ``Progress``.

    Args:
        every: states of samplers are taken at every so many batches; None: only at the
            epoch's begin.
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
        self._every = every or 0
        self._resume = resume if resume is not None and resume.midst else None
        self._progress: Progress  # from report_to() on
        self._batches: Iterator | None = None  # None before the first draw
        self._samples: Iterator = iter(())
        self._waiting: deque[tuple[int, Any]] = deque()  # drawn again, to be given out
        self._failure: Exception | None = None  # of the sampler, after them
        self._at_iter: dict[str, State] | None = None
        self._states: dict[str, Any] | None = None  # of samplers, at the epoch's begin
        self._drawn = 0
        # The process's generators that the epoch begins with, where they are not its own.
        self._begin_at: list[tuple[Any, State]] = []
        self._undo_draws = False
        if resume is not None and not resume.midst:
            if resume.sampler is not None:
                self._load_samplers(resume)
            elsewhere = samplers.of_process(resume.generators)
            if not samplers.stand_at(elsewhere):
                self._begin_at = samplers.find(index_sampler, loader_generator, elsewhere)
            # Persistent workers would not have drawn a base seed, as torch's __init__ does.
            self._undo_draws = resume.base_seed is not None

    def _load_samplers(self, resume: Resume) -> None:
        """For a state from before or after an epoch. After one the samplers go through its end,
        since what their state means there is theirs to know."""
        snapshot: Mapping[str, Any] = resume.sampler  # type: ignore[assignment]  # there is one
        with self._standing_at({}, *generators.GLOBALS):
            samplers.load(self._index_sampler, snapshot["states"])
            if resume.phase == "end":
                self._open(iter(self._index_sampler))
                self._load_iterator(snapshot)
                for _ in self._batches:  # type: ignore[union-attr]  # made by _open()
                    pass
        self._batches, self._drawn = None, 0

    def _standing_at(self, saved: Mapping[str, State], *process: str) -> AbstractContextManager:
        """A block in which the generators are in the states *saved*. After it these, those of the
        loader and its samplers, and the *process*'s of these names are as before."""
        own = samplers.of_objects(samplers.capture(self._index_sampler, self._generator))
        own |= {samplers.GLOBAL + name: generators.save(generators.GLOBALS[name]) for name in process}
        return generators.standing_at(samplers.find(self._index_sampler, self._generator, own | dict(saved)))

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """Around what draws for an epoch from its begin. The next block goes on where this one
        ended."""
        states, self._begin_at = self._begin_at, []
        if not states:
            yield
            return
        with generators.standing_at(states):
            yield
            self._begin_at = [(generator, generators.save(generator)) for generator, _ in states]

    @contextmanager
    def iterating(self) -> Iterator[None]:
        """Around torch's ``iter(sampler)``, which may draw already, and its base seed."""
        base_seed_from = ("torch",) if self._generator in (None, torch.default_generator) else ()
        if self._resume is not None:
            order = self._resume.order
            samplers.set_epochs(self._index_sampler, order["epochs"], distributed=True)
            with self._standing_at(order.get("generators_at_iter", order["generators"]), *base_seed_from):
                yield
            return
        undo, self._undo_draws = self._undo_draws, False
        with self._beginning():
            if type(self._index_sampler) not in samplers.TORCHS:
                self._at_iter = samplers.capture(self._index_sampler, self._generator)
            with self._standing_at({}, *base_seed_from) if undo else nullcontext():
                yield

    def report_to(self, progress: Progress) -> None:
        """After ``iterating()``: from now on there is a state to be asked for."""
        self._progress = progress
        if self._resume is not None:
            return  # it is in the state that was loaded
        with self._beginning():
            if self._states is None:  # torch's iterator of processes starts its first epoch twice
                self._states = samplers.states_of(samplers.stateful_samplers(self._index_sampler))
            progress.began(self._origin(), self._snapshot(self._states))

    def _origin(self) -> dict[str, Any]:
        """Where the order comes from, as long as nothing has been drawn."""
        generators_ = samplers.capture(self._index_sampler, self._generator)
        order: dict[str, Any] = {"generators": generators_, "epochs": samplers.epochs(self._index_sampler)}
        if self._at_iter is not None and self._at_iter != generators_:
            order["generators_at_iter"] = self._at_iter
        return order

    def next(self, torchs: Iterator) -> Any:
        """The next batch's index. *torchs* is torch's ``iter(sampler)`` for the epoch.

        Raises ``StopIteration`` at the end, ``ValueError`` if the order cannot be found
        again, and what the sampler raises.
        """
        if self._batches is None:
            self._batches = iter(())  # if what follows fails, the sampler has ended
            if self._resume is None:
                with self._beginning():
                    self._begin(torchs)
                    return self._draw()
            self._find_again(torchs, self._resume)
        if self._waiting:
            return self._waiting.popleft()[1]
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._draw()

    def _begin(self, torchs: Iterator) -> None:
        sampler = samplers.innermost(self._index_sampler)
        if type(sampler) is RandomSampler and sampler.generator is None:
            # Drawn as it would draw it in its first step. So it is known for certain, though
            # the default generator may be used by other threads.
            seed = int(torch.empty((), dtype=torch.int64).random_().item())
            own = samplers.of_objects(samplers.capture(self._index_sampler, self._generator))
            order: dict[str, Any] = {"seed": seed, "generators": own, "epochs": {}}
        else:
            seed, order = None, self._origin()
        self._open(torchs, seed)
        states = self._states or {}
        if is_stateful(self._samples):
            states = states | samplers.states_of({samplers.ITERATOR: self._samples})
        self._states = None
        self._progress.began(order, self._snapshot(states))

    def _open(self, torchs: Iterator, seed: int | None = None) -> None:
        """Makes the iterators. torch's ``BatchSampler`` asks the sampler inside for its
        iterator in the first step, so here that is done for it: the result is the same, and
        the inner iterator is within reach."""
        sampler = samplers.innermost(self._index_sampler)
        if seed is not None:
            if type(sampler) is not RandomSampler:
                raise samplers.not_shuffled(self._index_sampler)
            sampler = copy.copy(sampler)
            sampler.generator = torch.Generator()
            sampler.generator.manual_seed(seed)
        outer = self._index_sampler
        if type(outer) is BatchSampler:
            self._samples = iter(sampler)
            self._batches = iter(BatchSampler(self._samples, outer.batch_size, outer.drop_last))
        else:
            self._samples = self._batches = torchs if seed is None else iter(sampler)

    # Samplers with a state of their own

    def _snapshot(self, states: Mapping[str, Any]) -> dict[str, Any] | None:
        return {"drawn": self._drawn, "states": states} if states else None

    def _take_snapshot(self) -> None:
        parts = samplers.stateful_samplers(self._index_sampler)
        if is_stateful(self._samples):
            parts[samplers.ITERATOR] = self._samples
        if parts:
            self._progress.sampler_snapshot(self._snapshot(samplers.states_of(parts)))

    def _load_iterator(self, snapshot: Mapping[str, Any]) -> None:
        self._drawn = snapshot["drawn"]
        if samplers.ITERATOR in snapshot["states"]:
            if not is_stateful(self._samples):
                raise samplers.lacking(samplers.ITERATOR)
            self._samples.load_state_dict(copy.deepcopy(snapshot["states"][samplers.ITERATOR]))  # type: ignore[attr-defined]

    # The midst of an epoch

    def _find_again(self, torchs: Iterator, resume: Resume) -> None:
        """Draws again what had been drawn when the state was made, and one batch at least."""
        samplers.set_epochs(self._index_sampler, resume.order["epochs"], distributed=True)
        self._progress.drawing()
        ended, left = False, {}
        try:
            with self._standing_at(resume.order["generators"]):
                if resume.sampler is not None:
                    # The samplers first, since what they know is where their iterators begin.
                    if samplers.load(self._index_sampler, resume.sampler["states"]):
                        torchs = iter(self._index_sampler)
                self._open(torchs, resume.order.get("seed"))
                if resume.sampler is not None:
                    self._load_iterator(resume.sampler)
                ended = self._draw_again(resume, resume.drawn)
                reached = samplers.capture(self._index_sampler, self._generator)
                if resume.generators is None:  # not known from when the state was made
                    left = samplers.of_objects(reached)
            generators.load(samplers.find(self._index_sampler, self._generator, left))
            if not self._drawn and not ended:
                # In its first step a sampler may take what its order comes from.
                with generators.standing_at(samplers.find((), None, samplers.of_process(reached))):
                    ended = self._draw_again(resume, 1)
        finally:
            self._progress.drew(self._drawn, ended, dict(self._waiting))

    def _draw_again(self, resume: Resume, batches: int) -> bool:
        """Draws until it has drawn so many *batches*. True if the sampler has ended."""
        while resume.ended or self._drawn < batches:
            try:
                number, index = self._step()
            except StopIteration:
                checked = -1 if resume.last is None else resume.last["batch"]
                if self._drawn < resume.handed_over or self._drawn <= checked:
                    raise ValueError(
                        f"the sampler ended after {self._drawn} batches, but had given more when the "
                        "state was made: was it saved with another dataset or sampler?"
                    ) from None
                self._batches = iter(())
                return True
            except Exception as error:
                if self._drawn <= resume.handed_over:
                    continue  # the loop was given this exception, and went on
                self._failure = error
                return False
            if resume.last is not None and number == resume.last["batch"]:
                _check_order(index, resume.last)
            if number >= resume.handed_over and number not in resume.ahead:
                self._waiting.append((number, index))
        return False

    # Batches

    def _step(self) -> tuple[int, Any]:
        number = self._drawn
        try:
            index = next(self._batches)  # type: ignore[arg-type]  # made by _open()
        except StopIteration:
            raise
        except Exception:
            self._drawn += 1  # iterators go on after it, counting it as a batch
            raise
        self._drawn += 1
        if self._every and self._drawn % self._every == 0:
            self._take_snapshot()
        # The sampler may reuse its list for the next batch, while this one is on its way: to a
        # worker thread, or through a queue that pickles it later.
        return number, index.copy() if type(index) is list else index

    def _draw(self) -> Any:
        ended, batch = False, {}
        self._progress.drawing()
        try:
            number, index = self._step()
            batch[number] = index
            return index
        except StopIteration:
            ended = True
            raise
        finally:
            self._progress.drew(self._drawn, ended, batch)


def _check_order(index: Any, last: Mapping[str, Any]) -> None:
    if last["digest"] is not None and samplers.digest(index) != last["digest"]:
        raise ValueError(
            f"the sampler does not give the order again that the state is from: batch "
            f"{last['batch']} consists of other samples. Was the state saved with another dataset, "
            "sampler or seed? If the sampler draws random numbers as it yields, give it "
            "state_dict() and load_state_dict(); if its state changes during the epoch, also give "
            "the DataLoader snapshot_every_n_steps=1"
        )
