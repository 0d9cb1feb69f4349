"""Detection of samples that share memory with the dataset: writing to such a sample would change the dataset."""

import contextlib
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
import torch

from ftsafety.audit import kinds
from ftsafety.audit.comparison import parts_of
from ftsafety.audit.observer import definition
from ftsafety.audit.report import Finding
from ftsafety.audit.samples import Loads


def from_samples(loads: Loads, keys: list, load: Callable[[Any], Any]) -> list[Finding]:
    """Load each of *keys* up to three times; return [finding] if samples of one key share writable memory, else []."""
    found: dict[Any, str] = {}
    for key in keys:
        first, second = load(key), load(key)
        with contextlib.suppress(Exception):  # raised by a user-defined container
            part = shared_part(first, second)
            if part is not None and shared_part(second, load(key)) == part:
                found[key] = part
    if not found:
        return []
    name, part = next((f"{loads.unit} {key!r}", part) for key, part in found.items())
    where = definition(loads.dataset)
    return [kinds.make("shared-sample", where, key=name, part=part, number=len(found), of=len(keys))]


def shared_part(one: Any, other: Any, place: str = "") -> str | None:
    """Return the first part of the sample *one* that shares writable memory with the sample *other*, or None.

    The part is described in words: "sample[1], a Tensor". *place*: the path to *one*, if *one* is itself a part.
    """
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        strided = one.layout is other.layout is torch.strided
        same = one.numel() > 0 and (one is other or (strided and one.data_ptr() == other.data_ptr() != 0))
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = one.size > 0 and one.flags.writeable and one.ctypes.data == other.ctypes.data
    else:
        same = one is other and isinstance(one, (list, set, bytearray, MutableMapping))
    if same:
        return f"{f'sample{place}' if place else 'the sample'}, a {type(one).__qualname__}"
    theirs = parts_of(other) or {}
    for key, part in (parts_of(one) or {}).items():
        found = shared_part(part, theirs.get(key), f"{place}[{key!r}]")
        if found:
            return found
    return None
