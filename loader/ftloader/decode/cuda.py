"""Backend that decodes batches of images to CUDA tensors with nvImageCodec on the GPU.

Each thread has its own decoder and CUDA stream for each GPU, so threads decode at the same time
without a lock. Both are freed when the thread ends.

**Order.** A decode runs on the thread's own stream. The calling thread's current stream then copies
the pixels into memory of torch's allocator, in some microseconds per image. So the tensors behave
like the result of a torch operation in the calling thread: using them on the same stream needs no
synchronisation, and freeing them is safe. Without the copy, freeing would not be safe: nvImageCodec
could free its buffer while kernels still read it.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ftloader.decode import nvimgcodec
from ftloader.decode.source import Encoded
from ftloader.errors import BackendUnavailable, describe

# decoded batches per thread whose copies may be unfinished. Bounds nvImageCodec's memory
_IN_FLIGHT = 4

check_mode = nvimgcodec.check_mode


def resolve(device: torch.device) -> torch.device:
    """Return *device* with the index of its GPU. Raise ``ValueError`` if ``"cuda"`` could mean any
    of several GPUs.
    """
    if not torch.cuda.is_available():
        raise BackendUnavailable(
            f"device={str(device)!r} needs an NVIDIA GPU with its driver, and torch "
            f"{torch.__version__} sees none: pass device='cpu', or run where there is one"
        )
    count = torch.cuda.device_count()
    if device.index is None:
        if count > 1 and threading.current_thread() is not threading.main_thread():
            # CUDA's current device belongs to the thread: a new one starts with GPU 0, whatever
            # torch.cuda.set_device said in the main thread.
            raise ValueError(
                f"device='cuda' in a worker thread could be any of {count} GPUs: name it, as in "
                "device=f'cuda:{local_rank}'"
            )
        return torch.device("cuda", torch.cuda.current_device())
    if device.index >= count:
        raise BackendUnavailable(
            f"device={str(device)!r} is not there: torch sees {count} GPUs, 'cuda:0' to "
            f"'cuda:{count - 1}'"
        )
    return device


class _ThreadDecoder:
    """Decoder and CUDA stream of one thread on one GPU.
    Keeps decoded images until they have been copied.
    """

    def __init__(self, device: torch.device, cpu_threads: int) -> None:
        self._device = device
        try:
            self._stream = torch.cuda.Stream(device)
        except RuntimeError as error:
            # torch's message about CUDA in a forked process recommends spawn.
            raise BackendUnavailable(
                f"device={str(device)!r} cannot be used in this process ({describe(error)}): use "
                "worker_method='thread', or device='cpu' in the workers"
            ) from error
        try:
            self._decoder = nvimgcodec.library().Decoder(
                device_id=device.index, max_num_cpu_threads=cpu_threads
            )
        except RuntimeError as error:
            raise BackendUnavailable(
                f"nvImageCodec cannot use {device} ({describe(error)}): its CUDA version must "
                "suit the driver; pass device='cpu' else"
            ) from error
        # (event after the copies, images and streams that must live until that event)
        self._in_flight: deque[tuple[torch.cuda.Event, list, list]] = deque()

    def decode(
        self, encoded: Sequence[Encoded], mode: str | None, out: Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        parameters = nvimgcodec.params(mode)
        self._free(_IN_FLIGHT - 1)
        with torch.cuda.device(self._device):
            streams = nvimgcodec.open_streams(encoded)
            images = self._decoder.decode(
                streams, params=parameters, cuda_stream=self._stream.cuda_stream
            )
            if None in images:
                self._stream.synchronize()  # the error drops the other images
            nvimgcodec.check_all(images, encoded, "GPU")
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            try:
                tensors = []
                for number, image in enumerate(images):
                    pixels = self._pixels(image, mode)
                    tensors.append(_copy(pixels, None if out is None else out[number]))
            finally:
                # Also if *out* did not fit: earlier copies are still under way.
                event = torch.cuda.Event()
                event.record(current)
                self._in_flight.append((event, images, streams))
        return tensors

    def _pixels(self, image: Any, mode: str | None) -> torch.Tensor:
        """Return the pixels of *image* as a CUDA tensor, HWC or HW, ready on the current stream."""
        codec = nvimgcodec.library()
        if image.buffer_kind == codec.ImageBufferKind.STRIDED_HOST:
            pixels = torch.from_numpy(np.asarray(image)).to(self._device)
        else:
            pixels = torch.from_dlpack(image)
        if mode == "L":
            return pixels[:, :, 0]
        return pixels

    def _free(self, at_most: int) -> None:
        """Free the decoded batches that have been copied. While more than *at_most* are left, wait
        for their copies.
        """
        while self._in_flight and (len(self._in_flight) > at_most or self._in_flight[0][0].query()):
            event, *_ = self._in_flight[0]
            event.synchronize()
            self._in_flight.popleft()

    def __del__(self) -> None:
        # At the end of the thread its copies still read the images that are about to be freed.
        if getattr(self, "_in_flight", None):
            with contextlib.suppress(RuntimeError):  # CUDA may be gone at interpreter exit
                self._free(0)


_local = threading.local()  # has the thread's decoders, by GPU and number of CPU threads


def read_tensors(
    encoded: Sequence[Encoded],
    mode: str | None,
    device: torch.device,
    out: Sequence[torch.Tensor] | None,
    cpu_threads: int,
) -> list[torch.Tensor]:
    """Decode images to uint8 tensors on *device*, which ``resolve``
    returned. See ``ftloader.decode.read_images``.
    """
    decoders: dict[Any, _ThreadDecoder] = vars(_local)
    key = device.index, cpu_threads
    if key not in decoders:
        decoders[key] = _ThreadDecoder(device, cpu_threads)
    return decoders[key].decode(encoded, mode, out)


def _copy(pixels: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return pixels.clone(memory_format=torch.contiguous_format)
    if out.shape != pixels.shape or out.dtype != pixels.dtype or out.device != pixels.device:
        raise ValueError(
            f"out has shape {tuple(out.shape)}, dtype {out.dtype} and is on {out.device}; the "
            f"image has shape {tuple(pixels.shape)}, dtype {pixels.dtype} and is on {pixels.device}"
        )
    return out.copy_(pixels)
