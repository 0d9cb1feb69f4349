"""What scenarios read: generated once into a cache, or the user's own; for some, nothing.

The cache is shared by the controller and its trials, in another container too, so a source is made by
the controller and named to the trials by its paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ftbench.data import images, raw_samples

# Begins a step with a title; returns its progress callback.
Step = Callable[[str], images.Progress]


@dataclass(frozen=True)
class Generated:
    """Files that are made once and then kept in the cache."""

    kind: str
    """What they are, in the plural: "arrays"."""
    version: int
    """Raised whenever their bytes would change; part of their name in the cache, as their size is."""
    make: Callable[[images.Progress], list[Path]]
    """Gives their paths, made now if the cache has none (images.cached); raises ImageError."""


# The files that scenarios generate, by the name of their source.
GENERATED: dict[str, Generated] = {
    "arrays": Generated("arrays", raw_samples.VERSION, raw_samples.default_arrays),
    "shards": Generated("shards", raw_samples.VERSION, raw_samples.default_shards),
    "records": Generated("records", raw_samples.VERSION, raw_samples.default_records),
}


class Sources:
    """The sources of a run, each made when the first scenario asks for it. Used by one thread."""

    def __init__(self, data: Path | None, step: Step, warn: Callable[[str], None]):
        self._data, self._step, self._warn = data, step, warn
        self._made: dict[str, tuple[list[str], dict]] = {}

    def get(self, name: str) -> tuple[list[str], dict]:
        """(paths, description as in results.json) of "images", "nothing" or one of GENERATED.

        Raises ImageError if they cannot be read or made.
        """
        if name not in self._made:
            if name in GENERATED:
                self._made[name] = self._generated(GENERATED[name])
            else:
                self._made[name] = {"images": self._images, "nothing": self._nothing}[name]()
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
            self._warn(
                f"{resized} of {len(paths)} images have another size: they are resized to 640x408 "
                "after decoding, in every contestant alike"
            )
        if data is None:
            return _described("generated", "images", paths, images.VERSION, resized)
        return _described("own", "images", paths, None, resized, data.absolute())

    def _generated(self, source: Generated) -> tuple[list[str], dict]:
        paths = source.make(self._step(f"generating the {source.kind} (once)"))
        return _described("generated", source.kind, paths, source.version)

    @staticmethod
    def _nothing() -> tuple[list[str], dict]:
        return [], {
            "source": "none",
            "kind": "nothing",
            "directory": None,
            "files": 0,
            "resized": 0,
            "mean_bytes": 0,
            "version": None,
        }


def _described(
    source: str, kind: str, paths: list[Path], version: int | None, resized: int = 0, directory: Path | None = None
) -> tuple[list[str], dict]:
    return [str(p) for p in paths], {
        "source": source,
        "kind": kind,
        "directory": str(directory or paths[0].parent),
        "files": len(paths),
        "resized": resized,
        "mean_bytes": round(sum(p.stat().st_size for p in paths) / len(paths)),
        "version": version,
    }
