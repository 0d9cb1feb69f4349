"""Image folders as datasets, with torchvision's semantics and a compact table of the files.

``ImageFolder`` and ``DatasetFolder`` have the arguments, attributes, methods and errors of
torchvision's classes of these names (torchvision/datasets/folder.py), with these differences:

* ``samples``, ``imgs`` and ``targets`` are sequences over a ``PathTable`` instead of lists. They
  can be indexed, sliced, iterated and compared like lists. Lists may also be assigned to these
  attributes.
* A file that cannot be decoded raises ``ftloader.decode.DecodeError`` with its path.
* A folder that cannot be listed raises ``OSError`` instead of being left out silently.
* ``ImageFolder`` has the keyword argument *extensions*.
"""

import itertools
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ftloader import decode

__all__ = [
    "IMG_EXTENSIONS",
    "DatasetFolder",
    "ImageFolder",
    "PathTable",
    "Samples",
    "Targets",
    "default_loader",
]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

default_loader = decode.read_pil
"""Returns the image at a path as an RGB ``PIL.Image.Image``,
which torchvision's transforms accept.
"""

# Encodes every str and restores it, also file names that are not valid UTF-8:
# os.fsdecode gives lone surrogates.
_ENCODING = "utf-8", "surrogatepass"

type _Strings = tuple[bytes, np.ndarray]  # strings back to back, and the end of each


def _packed(strings: Iterable[str]) -> _Strings:
    content, ends = bytearray(), array("q")
    for string in strings:
        content += string.encode(*_ENCODING)
        ends.append(len(content))
    return bytes(content), np.array(ends, np.int64)


def _string(strings: _Strings, index: int) -> str:
    content, ends = strings
    start = 0
    if index:
        start = ends[index - 1]
    return content[start : ends[index]].decode(*_ENCODING)


class PathTable:
    """Immutable table of file paths, each with a class number. Any thread may read the table.

    A list of 1,000,000 ``(path, class)`` pairs is about 200 MB of small objects. Using an object
    changes its reference count. So forked workers soon copy the list's memory, and threads contend
    for the counts. This table is a few objects, and stores each directory once.
    *class_ids*, one number per path, is read after *paths*. Raises ``ValueError`` if their lengths
    differ.
    """

    __slots__ = ("_directories", "_directory_ids", "_names", "class_ids")

    class_ids: np.ndarray
    """The class number of each path: int64, read-only, shape (len(self),)."""

    def __init__(self, paths: Iterable[str], class_ids: Iterable[int]) -> None:
        directories: dict[str, int] = {}
        directory_ids = array("i")

        def names() -> Iterator[str]:
            for path in paths:
                # Cut after the last separator: joining is then adding,
                # which restores any path exactly.
                cut = path.rfind(os.sep) + 1
                directory_ids.append(directories.setdefault(path[:cut], len(directories)))
                yield path[cut:]

        packed = _packed(names())
        class_numbers = np.fromiter(class_ids, np.int64)
        if len(class_numbers) != len(directory_ids):
            raise ValueError(
                f"{len(class_numbers)} class numbers were given for {len(directory_ids)} paths"
            )
        self.__setstate__(
            (packed, _packed(directories), np.array(directory_ids, np.int32), class_numbers)
        )

    def __len__(self) -> int:
        return len(self.class_ids)

    def path(self, index: int) -> str:
        """Return the path at *index*, 0 <= index < len(self).
        Raise ``IndexError`` for another index.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"path {index} of {len(self)}")
        return _string(self._directories, self._directory_ids[index]) + _string(self._names, index)

    def __getstate__(self) -> tuple:
        return self._names, self._directories, self._directory_ids, self.class_ids

    def __setstate__(self, state: tuple) -> None:
        self._names, self._directories, self._directory_ids, self.class_ids = state
        for part in (self._names[1], self._directories[1], self._directory_ids, self.class_ids):
            part.flags.writeable = False  # a pickle of NumPy does not keep this


class _Column[T](Sequence[T]):
    """Immutable sequence of the entries of a ``PathTable``. Entries are made when read. Any thread
    may read them.
    """

    _at: Callable[[int], T]  # returns the item of a number, at least 0

    def __init__(self, table: PathTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: Any) -> Any:
        numbers = range(len(self))
        if isinstance(index, slice):
            return [self._at(number) for number in numbers[index]]
        try:
            return self._at(numbers[index])
        except IndexError:
            raise IndexError(f"index {index} is out of range for {len(self)} samples") from None

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (list, tuple, type(self))):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} files>"


class Samples(_Column[tuple[str, int]]):
    """Sequence of a ``(path, class index)`` pair for each file of a ``PathTable``."""

    def _at(self, number: int) -> tuple[str, int]:
        return self.table.path(number), int(self.table.class_ids[number])


class Targets(_Column[int]):
    """Sequence of the class index of each sample, as ``int``.

    ``numpy.asarray(targets)`` and ``torch.as_tensor(numpy.array(targets))`` convert it without
    making ``int`` objects.
    """

    def _at(self, number: int) -> int:
        return int(self.table.class_ids[number])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.table.class_ids, dtype=dtype, copy=copy)


class DatasetFolder(torch.utils.data.Dataset):
    """Dataset of files in one folder per class: ``root/dog/x.ext``, ``root/cat/y.ext``,
    ``root/cat/z/w.ext``.

    Any number of threads may read the dataset at the same time
    if *loader* and the transforms allow that.

    Args:
        root: the folder that contains the class folders.
        loader: function that loads the file at a path. *transform* takes samples,
            *target_transform* class indices.
        extensions: endings of the names of files to use, in lower case. ".jpg" also matches
            "X.JPG".
        is_valid_file: instead of *extensions*, a function that returns True for the path of a file
            to use.
        allow_empty: True if a class may have no file. Else such a class raises
            ``FileNotFoundError``.

    Attributes:
        classes, class_to_idx: the class names, sorted, and the index of each.
        samples: ``(path, class index)`` of each sample.
        targets: the class index of each sample.

    As in torchvision, subclasses may override ``find_classes`` and ``make_dataset`` (which may
    return a list).
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
        self.targets: Sequence[int]
        if isinstance(samples, Samples):
            self.targets = Targets(samples.table)
        else:
            self.targets = [sample[1] for sample in samples]

    @staticmethod
    def make_dataset(
        directory: str | os.PathLike[str],
        class_to_idx: dict[str, int],
        extensions: str | tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> Sequence[tuple[str, int]]:
        """Return (path, class index) of each file in the folders
        of *class_to_idx* and their subfolders.

        The order is torchvision's: by class name, then by path of the folder, then by file name.
        Links to folders are followed. Raise ``ValueError`` unless exactly one of *extensions* and
        *is_valid_file* is given.
        """
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        if not class_to_idx:
            raise ValueError("'class_to_idx' must have at least one entry to collect any samples.")
        if (extensions is None) == (is_valid_file is None):
            raise ValueError(
                "Both extensions and is_valid_file cannot be None or not None at the same time"
            )
        if isinstance(extensions, str):
            extensions = (extensions,)
        endings = tuple(extensions or ())
        is_used = _has_ending(endings) if is_valid_file is None else is_valid_file
        counts = dict.fromkeys(sorted(class_to_idx), 0)

        def paths() -> Iterator[str]:
            for name in counts:
                for path in filter(
                    is_used, _files(os.path.join(os.path.expanduser(directory), name))
                ):
                    counts[name] += 1
                    yield path

        def class_ids() -> Iterator[int]:
            for name, count in counts.items():
                yield from itertools.repeat(class_to_idx[name], count)

        table = PathTable(paths(), class_ids())
        empty = [name for name, count in counts.items() if not count]
        if empty and not allow_empty:
            message = f"Found no valid file for the classes {', '.join(empty)}. "
            if extensions is not None:
                message += f"Supported extensions are: {', '.join(endings)}"
            raise FileNotFoundError(message)
        return Samples(table)

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """Return (sorted names of folders in *directory*, {name: index}). Raise
        ``FileNotFoundError`` if none.
        """
        with os.scandir(directory) as entries:
            classes = sorted(entry.name for entry in entries if entry.is_dir())
        if not classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
        return classes, {name: index for index, name in enumerate(classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}", f"Root location: {self.root}"]
        names = [
            name for name in ("transform", "target_transform") if getattr(self, name) is not None
        ]
        lines += [f"{name}: {getattr(self, name)!r}" for name in names]
        return "\n    ".join([f"Dataset {type(self).__name__}", *lines])


class ImageFolder(DatasetFolder):
    """Dataset of images in one folder per class: ``root/dog/x.png``, ``root/cat/y.jpg``,
    ``root/cat/z/w.webp``.

    Args:
        root, transform, target_transform, is_valid_file, allow_empty: see ``DatasetFolder``.
        loader: function that loads the file at a path. By default, samples are RGB
            ``PIL.Image.Image`` objects, which torchvision's transforms take. ``decode.read_image``
            makes uint8 arrays (height, width, 3), in less time.
        extensions: endings of the names of files to use, unless *is_valid_file* is given.

    The attribute ``imgs`` is the same as ``samples``.
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
    ) -> None:
        endings = extensions if is_valid_file is None else None
        super().__init__(
            root, loader, endings, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples


def _has_ending(endings: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda path: path.lower().endswith(endings)


def _files(top: str) -> Iterator[str]:
    """Yield the paths of all files below *top*, sorted by folder, then by name. Yield none if *top*
    is not a folder.
    """
    # Like ``sorted(os.walk(top, followlinks=True))``, but enter a folder that is linked from inside
    # itself once, and raise errors.
    folders: list[tuple[str, list[str]]] = []
    # Each folder with the identities of the folders around it.
    pending: list[tuple[str, frozenset]] = [(top, frozenset())] if os.path.isdir(top) else []
    while pending:
        folder, outer = pending.pop()
        status = os.stat(folder)
        identity = status.st_dev, status.st_ino
        if identity in outer:
            continue
        with os.scandir(folder) as entries:
            is_folder = {entry.name: entry.is_dir() for entry in entries}
        files = []
        for name in sorted(is_folder):
            if is_folder[name]:
                pending.append((os.path.join(folder, name), outer | {identity}))
            else:
                files.append(name)
        folders.append((folder, files))
    for folder, names in sorted(folders):
        yield from (os.path.join(folder, name) for name in names)
