"""Image folders as data sets, with torchvision's semantics and a compact table of the files.

``ImageFolder`` and ``DatasetFolder`` take the arguments of ``torchvision.datasets``' classes of these names, have their
attributes and methods and raise their errors, so transforms, subclasses and code around them go on working. Source of
the semantics: torchvision/datasets/folder.py.

What differs:

* ``samples``, ``imgs`` and ``targets`` are sequences over a ``PathTable`` instead of lists. They index, slice, iterate
  and compare like these; assigning lists of one's own works too.
* A file that cannot be decoded raises ``ftloader.decode.DecodeError`` with its path.
* A folder that cannot be listed raises ``OSError`` instead of being left out in silence.
* ``ImageFolder`` takes *extensions* and *batch_loader* (keywords only).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ftloader import decode
from ftloader.path_table import PathTable

__all__ = [
    "IMG_EXTENSIONS",
    "DatasetFolder",
    "ImageFolder",
    "Samples",
    "Targets",
    "default_loader",
    "find_classes",
    "make_dataset",
]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def default_loader(path: str) -> Any:
    """An RGB ``PIL.Image.Image``, what transforms written for torchvision take."""
    return decode.read_pil(path)


class _Column[T](Sequence[T]):
    """What a ``PathTable`` says of each sample, made when asked for. Immutable; safe in any thread."""

    __slots__ = ("table",)

    def __init__(self, table: PathTable) -> None:
        self.table = table

    def _at(self, number: int) -> T:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(number) for number in range(*index.indices(len(self)))]
        number = index.__index__()
        if not -len(self) <= number < len(self):
            raise IndexError(f"index {number} is out of range for {len(self)} samples")
        return self._at(number % len(self))

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (list, tuple, type(self))):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))


class Samples(_Column[tuple[str, int]]):
    """``(path, class index)`` pairs."""

    __slots__ = ()

    def _at(self, number: int) -> tuple[str, int]:
        return self.table.path(number), int(self.table.class_ids[number])

    def __repr__(self) -> str:
        return f"<{len(self)} (path, class index) pairs>"


class Targets(_Column[int]):
    """The class index of each sample, as ``int``.

    ``numpy.asarray(targets)`` and ``torch.as_tensor(numpy.array(targets))`` copy no objects.
    """

    __slots__ = ()

    def _at(self, number: int) -> int:
        return int(self.table.class_ids[number])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.table.class_ids, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<{len(self)} class indices>"


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """The class folders of *directory*, sorted, and the index of each.

    Raises ``FileNotFoundError`` if there is none.
    """
    with os.scandir(directory) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: index for index, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike[str],
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> Samples:
    """The files of each class folder and the folders in it, links followed, in torchvision's order.

    The order is that of the class names, then of the folders' paths, then of the files' names: the same on every
    machine and file system.

    Args:
        directory: the folder of the class folders.
        class_to_idx: the class folders to take, with their indices; all of them by default.
        extensions: the file names' endings to take, in lower case (names of any case match).
        is_valid_file: or a function that says of a path whether to take it.
        allow_empty: whether a class may have no file.

    Raises ``ValueError`` for an empty *class_to_idx* and unless exactly one of *extensions* and *is_valid_file* is
    given, ``FileNotFoundError`` for classes without a file.
    """
    directory = os.path.expanduser(os.fspath(directory))
    if class_to_idx is None:
        _, class_to_idx = find_classes(directory)
    elif not class_to_idx:
        raise ValueError("'class_to_idx' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    endings = extensions if isinstance(extensions, str) else tuple(extensions or ())
    found: dict[str, int] = {}

    def paths() -> Iterator[str]:
        for name in sorted(class_to_idx):
            found[name] = 0
            for path in _files(os.path.join(directory, name)):
                if path.lower().endswith(endings) if is_valid_file is None else is_valid_file(path):
                    found[name] += 1
                    yield path

    table = PathTable(paths(), (class_to_idx[name] for name in sorted(class_to_idx) for _ in range(found[name])))
    empty = [name for name, count in found.items() if not count]
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            listed = extensions if isinstance(extensions, str) else ", ".join(extensions)
            message += f"Supported extensions are: {listed}"
        raise FileNotFoundError(message)
    return Samples(table)


class DatasetFolder(torch.utils.data.Dataset):
    """Files in a folder a class: ``root/dog/x.ext``, ``root/cat/y.ext``, ``root/cat/z/w.ext``.

    Safe to read from any number of threads if *loader* and the transforms are.

    Args:
        root: the folder of the class folders.
        loader: gives the sample for a path.
        extensions, is_valid_file, allow_empty: see ``make_dataset``.
        transform: applied to the sample.
        target_transform: applied to the class index.

    Attributes:
        classes: the class names, sorted.
        class_to_idx: the index of each class.
        samples: ``(path, class index)`` of each sample.
        targets: the class index of each sample.

    ``find_classes`` and ``make_dataset`` may be overridden, as in torchvision; a list of ``(path, class index)`` pairs
    from ``make_dataset`` is taken too.
    """

    def __init__(
        self,
        root: str | Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader
        self.extensions = extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        samples = self.make_dataset(
            self.root,
            class_to_idx=self.class_to_idx,
            extensions=extensions,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.samples: Sequence[tuple[str, int]] = samples
        self.targets: Sequence[int] = (
            Targets(samples.table) if isinstance(samples, Samples) else [s[1] for s in samples]
        )

    @staticmethod
    def make_dataset(
        directory: str | Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> Sequence[tuple[str, int]]:
        """The samples of *directory*; see the function of this name."""
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The classes in *directory*; see the function of this name."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """``(sample, class index)``, both transformed."""
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)

    def _transformed(self, sample: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __repr__(self) -> str:
        lines = [
            f"Dataset {type(self).__name__}",
            f"    Number of datapoints: {len(self)}",
            f"    Root location: {self.root}",
        ]
        for name in ("transform", "target_transform"):
            if getattr(self, name) is not None:
                lines.append(f"    {name}: {getattr(self, name)!r}")
        return "\n".join(lines)


class ImageFolder(DatasetFolder):
    """Images in a folder a class: ``root/dog/x.png``, ``root/cat/y.jpg``, ``root/cat/z/w.webp``.

    Args:
        root, transform, target_transform, is_valid_file, allow_empty: see ``DatasetFolder``.
        loader: gives the sample for a path. By default an RGB ``PIL.Image.Image``, as in torchvision, so that its
            transforms work. ``loader=decode.read_image`` gives uint8 arrays (height, width, 3) in less time.
        extensions: the file names' endings to take, unless *is_valid_file* is given.
        batch_loader: gives the samples for a list of paths, such as ``functools.partial(decode.read_images,
            device="cuda:0")``. If given, DataLoaders load a batch through it at once (``__getitems__``); transforms are
            applied to each sample. *loader* still serves ``dataset[i]``.

    Attributes:
        imgs: the same as ``samples``.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        extensions: tuple[str, ...] = IMG_EXTENSIONS,
        batch_loader: Callable[[list[str]], Sequence[Any]] | None = None,
    ) -> None:
        super().__init__(
            root,
            loader,
            extensions if is_valid_file is None else None,
            transform=transform,
            target_transform=target_transform,
            is_valid_file=is_valid_file,
            allow_empty=allow_empty,
        )
        self.batch_loader = batch_loader
        self.imgs = self.samples

    @property
    def __getitems__(self) -> Callable[[Sequence[int]], list[tuple[Any, Any]]] | None:
        # None is how a dataset tells torch's loaders that it has no batched way.
        return None if self.batch_loader is None else self._load_batch

    def _load_batch(self, indices: Sequence[int]) -> list[tuple[Any, Any]]:
        pairs = [self.samples[index] for index in indices]
        samples = self.batch_loader([path for path, _ in pairs])  # type: ignore[misc]  # see __getitems__
        if len(samples) != len(pairs):
            raise ValueError(f"batch_loader gave {len(samples)} samples for {len(pairs)} paths")
        return [self._transformed(sample, target) for sample, (_, target) in zip(samples, pairs, strict=True)]


def _files(top: str) -> Iterator[str]:
    """All files below *top*, by folder's path, then name. Nothing if *top* is no folder.

    As ``sorted(os.walk(top, followlinks=True))``, but a folder that is linked from inside itself is entered once, and
    errors are raised.
    """
    if not os.path.isdir(top):
        return
    found: list[tuple[str, list[str]]] = []
    # Each folder with the identities of the folders it lies in.
    pending: list[tuple[str, frozenset]] = [(top, frozenset())]
    while pending:
        folder, outer = pending.pop()
        status = os.stat(folder)
        identity = status.st_dev, status.st_ino
        if identity in outer:
            continue
        inside = outer | {identity}
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append((os.path.join(folder, entry.name), inside))
                else:
                    names.append(entry.name)
        found.append((folder, sorted(names)))
    for folder, names in sorted(found):
        for name in names:
            yield os.path.join(folder, name)
