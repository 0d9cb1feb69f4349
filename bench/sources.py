"""What scenarios read: generated once into a cache, or the user's own; for some, nothing.

The cache is shared by the controller and its trials, in another container too, so a source is made by
the controller and named to the trials by its paths.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench import arrays, images

# Begins a step with a title; returns its progress callback.
Step = Callable[[str], images.Progress]


class Sources:
    """The sources of a run, each made when the first scenario asks for it. Used by one thread."""

    def __init__(self, data: Path | None, step: Step, warn: Callable[[str], None]):
        self._data, self._step, self._warn = data, step, warn
        self._made: dict[str, tuple[list[str], dict]] = {}

    def get(self, name: str) -> tuple[list[str], dict]:
        """(paths, description as in results.json) of "images", "arrays" or "nothing".

        Raises ImageError if they cannot be read or made.
        """
        if name not in self._made:
            make = {"images": self._images, "arrays": self._arrays, "nothing": self._nothing}[name]
            self._made[name] = make()
        return self._made[name]

    def _images(self) -> tuple[list[str], dict]:
        data = self._data
        if data is None:
            paths = images.default_images(self._step("generating the images (once)"))
        else:
            paths, found = images.own_images(data.absolute())
            if found > len(paths):
                self._warn(f"only the first {len(paths)} of {found} images of {data} are used")
        resized = images.validate(paths, self._step("checking the images"))
        if resized:
            self._warn(f"{resized} of {len(paths)} images have another size: they are resized to 640x408 "
                       "after decoding, in every contestant alike")
        if data is None:
            return _described("generated", "images", paths, images.VERSION, resized)
        return _described("own", "images", paths, None, resized, data.absolute())

    def _arrays(self) -> tuple[list[str], dict]:
        paths = arrays.default_arrays(self._step("generating the arrays (once)"))
        return _described("generated", "arrays", paths, arrays.VERSION)

    @staticmethod
    def _nothing() -> tuple[list[str], dict]:
        return [], {"source": "none", "kind": "nothing", "directory": None, "files": 0, "resized": 0,
                    "mean_bytes": 0, "version": None}


def _described(source: str, kind: str, paths: list[Path], version: int | None, resized: int = 0,
               directory: Path | None = None) -> tuple[list[str], dict]:
    return [str(p) for p in paths], {
        "source": source, "kind": kind, "directory": str(directory or paths[0].parent), "files": len(paths),
        "resized": resized, "mean_bytes": round(sum(p.stat().st_size for p in paths) / len(paths)),
        "version": version}
