"""Images to arrays with nvImageCodec's CPU backend, one decoder a thread.

nvImageCodec is NVIDIA's library behind GPU decoding (``ftloader.decode.cuda``); its CPU codecs (libjpeg-turbo and
others) serve the same formats where there is no GPU.

API: https://docs.nvidia.com/cuda/nvimgcodec/py_api.html (0.9).
"""

import functools
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ftloader.decode.errors import BackendUnavailable
from ftloader.decode.source import Encoded

# nvImageCodec's name for each of our modes.
_COLOR_SPECS: dict[str | None, str] = {"RGB": "SRGB", "L": "GRAY"}


@functools.cache  # a race computes the same module twice
def library() -> ModuleType:
    """``nvidia.nvimgcodec``. Raises ``BackendUnavailable`` if it cannot be imported."""
    try:
        from nvidia import nvimgcodec
    except ImportError as error:
        raise BackendUnavailable(
            f"backend='nvimgcodec' needs nvImageCodec, which cannot be imported ({error}): "
            "install nvidia-nvimgcodec-cu12[all] (-cu13 with a torch for CUDA 13), or pass "
            "backend='pillow'"
        ) from error
    return nvimgcodec


def check_mode(mode: str | None) -> None:
    """Raises ``ValueError`` for a mode that nvImageCodec does not give."""
    if mode not in _COLOR_SPECS:
        raise ValueError(
            f"backend='nvimgcodec' decodes to mode {' or '.join(map(repr, _COLOR_SPECS))}, not "
            f"to {mode!r}: pass backend='pillow' for others"
        )


def params(mode: str | None) -> Any:
    """``DecodeParams`` for a *mode* that has been checked; the pixels as they are stored: not turned by EXIF."""
    codec = library()
    return codec.DecodeParams(apply_exif_orientation=False, color_spec=getattr(codec.ColorSpec, _COLOR_SPECS[mode]))


def open_streams(encoded: Sequence[Encoded]) -> list[Any]:
    """nvImageCodec's view of each encoded image. Raises ``DecodeError`` for an empty one."""
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
    """Raises ``DecodeError`` for the first image that could not be decoded (None in *images*)."""
    failed = [source for image, source in zip(images, encoded, strict=True) if image is None]
    if not failed:
        return
    # The library tells the reason on stderr alone.
    reason = f"nvImageCodec ({backend}) cannot decode it; backend='pillow' tells why, or can"
    error = failed[0].error_because(reason)
    if len(failed) > 1:
        others = ", ".join(source.name for source in failed[1:4])
        more = f" and {len(failed) - 4} more" if len(failed) > 4 else ""
        error.add_note(f"{len(failed)} images of this batch failed, also: {others}{more}")
    raise error


class _Decoders(threading.local):
    """A thread's CPU decoder, made at its first use and freed with the thread.

    A forked child goes on with the copy of the thread that forked: a CPU decoder with one thread runs in its caller and
    has no thread of its own that the child would miss.
    """

    decoder: Any = None

    def get(self) -> Any:
        if self.decoder is None:
            codec = library()
            self.decoder = codec.Decoder(
                device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
                max_num_cpu_threads=1,  # the loader's workers are the parallelism
                backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
            )
        return self.decoder


_decoders = _Decoders()


def read_arrays(encoded: Sequence[Encoded], mode: str | None) -> list[np.ndarray]:
    """*encoded* as writable uint8 arrays of *mode*. See ``ftloader.decode.read_images``."""
    parameters = params(mode)
    streams = open_streams(encoded)
    images = _decoders.get().decode(streams, params=parameters)
    check_all(images, encoded, "CPU")
    # Views that keep nvImageCodec's memory alive, which belongs to nobody else.
    arrays = [np.asarray(image) for image in images]
    return [array[:, :, 0] for array in arrays] if mode == "L" else arrays
