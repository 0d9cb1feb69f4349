"""The functions that users call: one image, a batch of images, a Pillow image."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from ftloader.decode import nvimgcodec, pillow
from ftloader.decode.output import array_for, check_type
from ftloader.decode.source import Encoded, ImageSource, fetch

BACKENDS = ("auto", "pillow", "nvimgcodec")


def read_image(
    source: ImageSource,
    mode: str | None = "RGB",
    *,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    out: Any = None,
) -> Any:
    """Decodes one image: JPEG, PNG, WebP, TIFF, BMP, GIF and whatever else the backend knows.

    ``read_image(path)`` has the pixels of ``np.array(Image.open(path).convert("RGB"))``, bit for bit. Any number of
    threads may call it at once; nothing mutable is shared by them, and no setting of Pillow's is changed.

    Args:
        source: a path (``str`` or ``os.PathLike``), the encoded image (``bytes``, ``bytearray``, ``memoryview``) or a
            binary file, which is read to its end.
        mode: the mode to convert to, in Pillow's words: "RGB" by default, "L" for grayscale, "RGBA", ...; None for the
            image's own. nvImageCodec gives "RGB" and "L".
        backend: "pillow", "nvimgcodec", or "auto": Pillow on the CPU, nvImageCodec on a GPU.
        device: "cpu", or a GPU: "cuda:0". Name the GPU where there are several: a worker thread does not inherit
            ``torch.cuda.set_device``.
        out: write the pixels here (and return it): a NumPy array, on a GPU a tensor, of exactly the image's shape and
            type; or, on the CPU, a function that gives the array for a shape and a type, as ``numpy.empty`` does. In a
            dataset ``out=ftloader.empty_sample`` decodes straight into the batch that is being built.

    Returns:
        On the CPU a writable ``numpy.ndarray``, on a GPU a ``torch.Tensor`` that is ready on the stream current in the
        calling thread. uint8, 0 to 255, of shape (height, width, channels), or (height, width) for modes of one
        channel. With ``mode=None`` the type is the image's (uint16 for 16-bit grayscale, bool for mode "1", indices for
        palettes).

    What the conversion does is what Pillow's ``convert`` does:

    * grayscale becomes RGB by repetition; CMYK by Pillow's plain formula, without the colour profile; an alpha channel
      is dropped, not blended;
    * 16-bit grayscale is clipped to 255, not scaled: take ``mode=None`` and scale it yourself (nvImageCodec scales it);
    * of animations and multi-page files the first picture is taken;
    * the EXIF orientation is not applied. ``PIL.ImageOps.exif_transpose(read_pil(path, None))`` applies it.

    nvImageCodec's pixels on the CPU equal Pillow's for mode "RGB", 16-bit images excepted. For mode "L" a colour
    image's values differ (by up to 16 of 255 where colours are saturated), since a JPEG's own luma is taken instead of
    one computed from clipped RGB. On a GPU the inverse DCT and the chroma upsampling are NVIDIA's: small differences
    everywhere, larger ones at edges between colours.

    Raises:
        DecodeError: missing, unreadable, truncated, corrupt or unknown; it has the path. (Pillow's
            ``ImageFile.LOAD_TRUNCATED_IMAGES`` is honoured by the Pillow backend.)
        BackendUnavailable: no such GPU, or nvImageCodec is not installed.
        ValueError: an unknown mode, backend or device, an *out* that does not fit.
        TypeError: *source* is none of the above.
    """
    if backend != "nvimgcodec" and (device == "cpu" or torch.device(device).type == "cpu"):
        _check_backend(backend)  # the usual case: no list, no dispatch
        check_type(out)
        return pillow.read_array(fetch(source), mode, out)
    outs = None if out is None else [out]
    return read_images([source], mode, backend=backend, device=device, out=outs)[0]


def read_images(
    sources: Sequence[ImageSource],
    mode: str | None = "RGB",
    *,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    out: Any = None,
    cpu_threads: int = 1,
) -> list[Any]:
    """Decodes a batch of images; on a GPU all of them in one call. For ``__getitems__``.

    Like ``[read_image(source, ...) for source in sources]`` with the same arguments, results and errors, and in the
    same order. If images fail, the error names the first and counts the others in a note.

    Args:
        out: a sequence of arrays (tensors), or one array (tensor) of shape (len(sources), height, width, channels), to
            write to; the list returned then has its elements. Or a function, as in ``read_image``, called for each
            image.
        cpu_threads: how many threads nvImageCodec may use for what a GPU decoder does on the CPU (parsing, and Huffman
            decoding without a hardware decoder). More than 1 helps where few workers decode large batches.
    """
    _check_backend(backend)
    on = torch.device(device)
    if out is not None and not callable(out) and len(out) != len(sources):
        raise ValueError(f"out has room for {len(out)} images, and {len(sources)} were given")
    if on.type == "cpu":
        outs = [out] * len(sources) if out is None or callable(out) else list(out)
        for one in outs:
            check_type(one)
        if backend != "nvimgcodec":
            return [pillow.read_array(fetch(source), mode, one) for source, one in zip(sources, outs, strict=True)]
        return _read_with_nvimgcodec(sources, mode, outs)
    if on.type != "cuda":
        raise ValueError(f"device={str(on)!r} cannot decode images: 'cpu' or 'cuda:N'")
    if backend == "pillow":
        raise ValueError(
            f"backend='pillow' decodes on the CPU: pass device='cpu' and move the result to {on}, "
            "or backend='nvimgcodec'"
        )
    if cpu_threads < 1:
        raise ValueError(f"cpu_threads must be at least 1, not {cpu_threads}")
    if callable(out):
        raise TypeError("out must be tensors on a GPU, not a function")
    from ftloader.decode import cuda

    nvimgcodec.check_mode(mode)
    on = cuda.resolve(on)  # before any file is read
    if not sources:
        return []
    return cuda.read_tensors([fetch(source) for source in sources], mode, on, out, cpu_threads)


def read_pil(source: ImageSource, mode: str | None = "RGB") -> Image.Image:
    """Decodes one image to a Pillow image: for transforms that take one, as torchvision's do.

    As torchvision's default loader, ``Image.open(path).convert(mode)``, but an image that has the mode already is not
    copied, and errors are ``read_image``'s. With ``mode=None`` the image is left in its own mode. The file is closed
    and the pixels are decoded on return.
    """
    return pillow.load(fetch(source), mode)


def _read_with_nvimgcodec(sources: Sequence[ImageSource], mode: str | None, outs: list) -> list[np.ndarray]:
    nvimgcodec.check_mode(mode)
    if not sources:
        return []
    encoded: list[Encoded] = [fetch(source) for source in sources]
    arrays = nvimgcodec.read_arrays(encoded, mode)
    for number, (array, out) in enumerate(zip(arrays, outs, strict=True)):
        if out is not None:
            arrays[number] = array_for(out, array.shape)
            arrays[number][...] = array
    return arrays


def _check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
