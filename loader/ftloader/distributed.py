"""``DistributedSampler``: torch's class, whose state may be loaded by another number of ranks.

An epoch is a sequence of ``len(dataset)`` indices, the same on all ranks. Assume that *given* items
of this sequence were given out before a state was loaded, and that W ranks loaded it. Then sample n
of rank r (both from 0) is item ``given + n * W + r``. Once each rank has yielded n samples, exactly
the items before ``given + n * W`` are given out. So the state is this one number, however often W
changes within an epoch. Ranks that need items after the end of the sequence get those from its
start again: the padding.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
import torch.utils.data

from ftloader.diagnosis.call_site import warn_user

FORMAT: Final = "ftloader.DistributedSampler"
VERSION: Final = 1
_KEYS: Final = ("format", "version", "epoch", "given", "length", "seed", "shuffle", "num_replicas")
_SAME: Final = {"length": "a dataset of {} samples", "seed": "seed={}", "shuffle": "shuffle={}"}
"""Parts of a state that must equal those of the sampler that loads it.
The values name them in messages.
"""


class DistributedSampler(torch.utils.data.DistributedSampler):
    """``torch.utils.data.DistributedSampler`` that continues an epoch with another number of ranks.

    Takes the arguments of torch's class, and yields samples in the order of that class until the
    number of ranks changes.
    ``state_dict()`` is the position in the epoch over all ranks. After ``load_state_dict()``, the
    next iteration shares out the rest of the epoch: each sample once, to any number of ranks and of
    workers, in batches of any size.

    - All ranks yield equally many samples. If the number of ranks does not divide the rest, a few
      samples from the start of the epoch, fewer than there are ranks, are given a second time. With
      ``drop_last``, the last samples are dropped instead. Both happen only at the end of an epoch,
      not where the number of ranks changes.
    - ``len()`` is the number of samples that one rank yields in a whole epoch, also after a state
      was loaded.
    - The state of one rank stands for all, so all ranks must have yielded equally many samples when
      it is taken, as at the same step of synchronous training. Give all ranks the same state, for
      instance that of rank 0.
    - Call ``set_epoch()`` before each epoch, as with torch's class. If that is not the epoch of the
      loaded state, the sampler yields the epoch from its beginning.

    A loader draws samples ahead of the training loop. So save the loader's state instead of the
    sampler's. It contains the sampler's position at the batch that the loop was given last. Use
    ``ftloader.DataLoader``, or torchdata's ``StatefulDataLoader`` with its default
    ``snapshot_every_n_steps=1``. For JAX, see grain's ``ElasticIterator``.

    Raises:
        RuntimeError, ValueError: as torch's class does without a process group, or for an
            impossible rank.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle, seed, drop_last)
        self.epoch: int  # set by torch's class
        self._length = len(dataset)
        # (epoch, number of items given), replaced as a whole,
        # since state_dict() may be called in any thread.
        self._position = self.epoch, 0
        # a position that no iteration has started from yet
        self._loaded: tuple[int, int] | None = None
        self._epoch_set = False  # True if the program has called set_epoch()

    def __iter__(self) -> Iterator[int]:
        """Return an iterator over this rank's samples of the epoch or, after ``load_state_dict()``,
        of its rest.
        """
        if len(self.dataset) != self._length:
            raise ValueError(
                f"the dataset had {self._length} samples when the sampler was made, and has "
                f"{len(self.dataset)} now: make a new DistributedSampler for the new length"
            )
        epoch, loaded = self.epoch, self._loaded
        start = self._start(epoch)
        if loaded is not None and (loaded[0] != epoch or not self._share(start)):
            # An empty rest is used up here: torchdata's loader makes a second iterator for the
            # epoch after it.
            self._loaded = None
            if loaded[0] != epoch and loaded[1] and self._share(loaded[1]):
                warn_user(
                    f"the rest of epoch {loaded[0]}, of which a state was loaded, is left out: the "
                    f"sampler iterates epoch {epoch}. Call set_epoch({loaded[0]}) after "
                    "load_state_dict() to train the rest first"
                )
        self._position = epoch, start
        return self._iterate(epoch, start)

    def _iterate(self, epoch: int, start: int) -> Iterator[int]:
        self._loaded = None
        share = self._share(start)
        items = start + self.rank + self.num_replicas * torch.arange(share)
        if share:
            items %= self._length
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + epoch)  # as torch's class does
            items = torch.randperm(self._length, generator=generator)[items]
        for number, index in enumerate(items.tolist(), 1):
            given = start + number * self.num_replicas
            if number == share:
                # What these ranks pad or drop at the end is no rest that others should give.
                given = self._length
            self._position = epoch, given
            yield index

    def _share(self, given: int) -> int:
        """Return the number of samples that each rank still yields when *given* items of the epoch
        are given out.
        """
        left = self._length - given
        if self.drop_last:
            return left // self.num_replicas
        return -(-left // self.num_replicas)

    def samples_left(self, state: Mapping[str, Any]) -> int:
        """Return the number of samples that each rank yields after *state*,
        which ``state_dict()`` has returned.

        Raises:
            ValueError: as ``load_state_dict()`` does.
        """
        return self._share(_checked(state, self._state(0, 0))[1])

    def _start(self, epoch: int) -> int:
        """Return the number of items of *epoch* that the next iteration skips: 0 if no state of
        *epoch* was loaded.
        """
        if self._loaded is None or self._loaded[0] != epoch:
            return 0
        return self._loaded[1]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iteration yields,
        from its start unless a state of this epoch was loaded.
        """
        super().set_epoch(epoch)
        self._epoch_set = True
        if self._position[0] != epoch:
            self._position = epoch, self._start(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position over all ranks, as plain values: the same on ranks that yielded
        equally many samples.
        """
        return self._state(*self._position)

    def next_pass_state(self) -> dict[str, Any]:
        """Return the state that the next ``iter()`` starts from: a loaded state of the epoch, or
        the epoch's start.
        """
        return self._state(self.epoch, self._start(self.epoch))

    def _state(self, epoch: int, given: int) -> dict[str, Any]:
        # Plain values, also if the program gave NumPy's.
        numbers = (
            int(epoch),
            given,
            self._length,
            int(self.seed),
            bool(self.shuffle),
            int(self.num_replicas),
        )
        return dict(zip(_KEYS, (FORMAT, VERSION, *numbers)))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Make the next iteration continue from *state_dict*, which a sampler of any number of
        ranks has returned.

        Set ``epoch`` to the state's epoch. But if the program has called ``set_epoch()``, a state
        from the start or the end of an epoch leaves ``epoch`` as it is. An empty dictionary means
        no state.

        Raises:
            ValueError: if this is no such state, or one for another dataset, seed or order. Nothing
                has changed then.
        """
        if state_dict == {}:
            self._loaded, self._position = None, (self.epoch, 0)
            return
        epoch, given = _checked(state_dict, self._state(0, 0))
        self._loaded = epoch, given
        if not self._epoch_set or (given and self._share(given)):
            self.epoch = epoch
        self._position = self.epoch, self._start(self.epoch)


def _checked(state: Any, own: Mapping[str, Any]) -> tuple[int, int]:
    """Return the epoch and the number of items given out.
    Raise ``ValueError`` unless *state* fits *own*.

    *own*: a state of the sampler that loads *state*,
    with its dataset length, ``seed`` and ``shuffle``.
    """
    _check_format(state)
    for name, words in _SAME.items():
        if state[name] != own[name]:
            raise ValueError(
                f"the state is that of a sampler with {words.format(state[name])}, and this one "
                f"has {words.format(own[name])}. The rest of the epoch is only defined for the "
                "same: use the dataset and the arguments of the saved sampler, or begin the epoch "
                "again without the state"
            )
    epoch, given = state["epoch"], state["given"]
    if type(epoch) is not int or type(given) is not int or not 0 <= given <= own["length"]:
        raise ValueError(
            f"the state is damaged or was changed: epoch {epoch!r}, {given!r} of {own['length']} "
            "samples given. Load an earlier checkpoint, or begin the epoch again without the state"
        )
    return epoch, given


def _check_format(state: Any) -> None:
    """Raise ``ValueError`` if *state* is not in this version's format."""
    if not isinstance(state, Mapping):
        raise ValueError(f"the state must be a dictionary from state_dict(), not {type(state)}")
    if "yielded" in state:
        raise ValueError(
            "this is a state of torchdata's StatefulDistributedSampler, which counts the samples "
            "of one rank: finish that epoch with it and the same number of ranks, and save "
            "ftloader.distributed's from then on"
        )
    if state.get("format") != FORMAT:
        first = ", ".join(map(repr, list(state)[:5]))
        raise ValueError(
            f"this is not a state of ftloader.distributed.DistributedSampler (it has the keys "
            f"{first or 'of no state'})"
        )
    if state.get("version") != VERSION:
        raise ValueError(
            f"the state has version {state.get('version')!r}, and this sampler reads version "
            f"{VERSION}: load it with the release of ftloader that saved it"
        )
    if set(state) != set(_KEYS):
        raise ValueError(
            f"the state is damaged or was changed: its keys are {sorted(map(str, state))}, not "
            f"{_KEYS}"
        )
