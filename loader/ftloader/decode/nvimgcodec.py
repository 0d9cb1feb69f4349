"""Backend that decodes images to arrays with nvImageCodec on the CPU, with one decoder per thread.

nvImageCodec is NVIDIA's library for decoding on GPUs (``ftloader.decode.cuda``). Its CPU codecs,
such as libjpeg-turbo, decode the same formats where there is no GPU. API (0.9):
https://docs.nvidia.com/cuda/nvimgcodec/py_api.html
"""

import functools
import threading
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ftloader.decode.source import Encoded, Out, put
from ftloader.errors import BackendUnavailable

# nvImageCodec's name for each of our modes.
_COLOR_SPECS: dict[str | None, str] = {"RGB": "SRGB", "L": "GRAY"}


@functools.cache  # a race computes the same module twice
def library() -> ModuleType:
    """Import and return the module ``nvidia.nvimgcodec``.
    Raise ``BackendUnavailable`` if the import fails.
    """
    try:
        from nvidia import nvimgcodec
    except ImportError as error:
        raise BackendUnavailable(
            f"backend='nvimgcodec' needs nvImageCodec, which cannot be imported ({error}): install "
            "nvidia-nvimgcodec-cu12[all] (-cu13 with a torch for CUDA 13), or pass backend='pillow'"
        ) from error
    return nvimgcodec


def check_mode(mode: str | None) -> None:
    """Raise ``ValueError`` if nvImageCodec cannot decode images to *mode*."""
    if mode not in _COLOR_SPECS:
        raise ValueError(
            f"backend='nvimgcodec' decodes to mode {' or '.join(map(repr, _COLOR_SPECS))}, not "
            f"to {mode!r}: pass backend='pillow' for others"
        )


def params(mode: str | None) -> Any:
    """Return the ``DecodeParams`` for a *mode* that ``check_mode`` accepts.
    The EXIF orientation is not applied.
    """
    codec = library()
    return codec.DecodeParams(
        apply_exif_orientation=False, color_spec=getattr(codec.ColorSpec, _COLOR_SPECS[mode])
    )


def open_streams(encoded: Sequence[Encoded]) -> list[Any]:
    """Return an nvImageCodec ``CodeStream`` for each image.
    Raise ``DecodeError`` for an empty or unknown image.
    """
    codec = library()
    streams = []
    for image in encoded:
        if not image.data:
            raise image.error_because("it is empty")
        try:
            streams.append(codec.CodeStream(image.data))
        except RuntimeError as error:
            raise image.error(error) from error
    return streams


def check_all(images: Sequence[Any], encoded: Sequence[Encoded], backend: str) -> None:
    """Raise ``DecodeError`` for the first None in *images*: an image that was not decoded. A note
    names the others.
    """
    failed = [source for image, source in zip(images, encoded, strict=True) if image is None]
    if not failed:
        return
    # The library writes the reason to stderr alone.
    error = failed[0].error_because(
        f"nvImageCodec ({backend}) cannot decode it; backend='pillow' tells why, or can"
    )
    if len(failed) > 1:
        names = ", ".join(source.name for source in failed[1:4])
        if len(failed) > 4:
            names += f" and {len(failed) - 4} more"
        error.add_note(f"{len(failed)} images of this batch failed, also: {names}")
    raise error


_local = threading.local()  # has the thread's decoder, which is freed with the thread


def _decoder() -> Any:
    """Return this thread's CPU decoder. A forked child may use its copy,
    since the decoder starts no threads.
    """
    if not hasattr(_local, "decoder"):
        codec = library()
        _local.decoder = codec.Decoder(
            device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,  # the loader's workers are the parallelism
            backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
        )
    return _local.decoder


def read_arrays(
    encoded: Iterable[Encoded], mode: str | None, outs: Sequence[Out]
) -> list[np.ndarray]:
    """Decode a batch of images to writable uint8 arrays
    of *mode*. See ``ftloader.decode.read_images``.
    """
    check_mode(mode)
    encoded = list(encoded)
    if not encoded:
        return []
    images = _decoder().decode(open_streams(encoded), params=params(mode))
    check_all(images, encoded, "CPU")
    # Each array keeps its image's memory alive, which nothing else uses.
    arrays = [np.asarray(image) for image in images]
    if mode == "L":
        arrays = [array[:, :, 0] for array in arrays]
    return [put(array, out) for array, out in zip(arrays, outs, strict=True)]
