"""The package's public functions: decode an image or a batch of images to arrays,
or an image to a Pillow image.
"""

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from ftloader.decode import pillow
from ftloader.decode.backends import find_backend
from ftloader.decode.source import ImageSource, Size, check_size, check_type, fetch


def read_image(
    source: ImageSource,
    mode: str | None = "RGB",
    *,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    out: Any = None,
    at_least: Size = None,
) -> Any:
    """Decode one image: JPEG, PNG, WebP, TIFF, BMP, GIF and whatever else the backend knows.

    ``read_image(path)`` has the pixels of ``np.array(Image.open(path).convert("RGB"))``, bit for
    bit. Any number of threads may call it at the same time: calls share nothing mutable, and change
    no setting of Pillow.

    Args:
        source: a path (``str`` or ``os.PathLike``), the encoded image (``bytes``, ``bytearray``,
            ``memoryview``) or a binary file, which is read to its end.
        mode: Pillow's name of the mode to convert to: "RGB" by default, "L" for grayscale, "RGBA",
            ...; None for the image's own mode. nvImageCodec decodes only to "RGB" and "L".
        backend: "pillow", "nvimgcodec", or "auto": Pillow on the CPU, nvImageCodec on a GPU.
        device: "cpu", or a GPU: "cuda:0". Name the GPU where there are several: a worker thread
            does not inherit ``torch.cuda.set_device``.
        out: the array to write the pixels to and to return: a NumPy array (on a GPU a tensor) of
            exactly the image's shape and type. Or, on the CPU, a function like ``numpy.empty`` that
            returns the array for a shape and a type. In a dataset ``out=ftloader.empty_sample``
            decodes straight into the batch that is being built.
        at_least: the (height, width) that suffices, for example for a crop. A JPEG that is at least
            N times as high and as wide is decoded at 1/N of its size, for the largest such N of 2,
            4 and 8; the sides are rounded up. That takes less time than decoding all pixels. Other
            images are decoded whole, and nvImageCodec refuses this argument. The pixels are those
            of Pillow's ``image.draft(None, (width, height))`` before ``convert``. With files of
            some encoders, the pixels at the right or lower edge are then off (libjpeg-turbo #297).

    Returns:
        On the CPU a writable ``numpy.ndarray``. On a GPU a ``torch.Tensor`` that is ready on the
        calling thread's current stream. The values are uint8, 0 to 255. The shape is (height,
        width, channels), or (height, width) for modes of one channel. With ``mode=None`` the type
        is the image's: uint16 for 16-bit grayscale, bool for mode "1", indices for palettes.

    Images are converted as by Pillow's ``convert``. An animation gives its first picture. A CMYK
    image's colour profile is ignored. An alpha channel is dropped, not blended. 16-bit grayscale is
    clipped to 255, not scaled (nvImageCodec scales it). The EXIF orientation is not applied:
    ``PIL.ImageOps.exif_transpose(read_pil(path, None))`` does that.

    On the CPU, nvImageCodec's pixels equal Pillow's for mode "RGB", except for 16-bit images. For
    mode "L", the luma of a colour JPEG differs from Pillow's by up to 16 of 255. On a GPU, pixels
    differ a little, and more at edges.

    Raises:
        DecodeError: the image is missing, unreadable, truncated, corrupt or unknown. The error has
            the path. (The Pillow backend honours ``ImageFile.LOAD_TRUNCATED_IMAGES``.)
        BackendUnavailable: no such GPU, or nvImageCodec is not installed.
        ValueError: an unknown mode, backend or device, an *out* that does not fit, an *at_least*
            that is no size.
        TypeError: *source* or *out* has none of the types above.
    """
    if backend in ("auto", "pillow") and (device == "cpu" or torch.device(device).type == "cpu"):
        check_type(out)  # the usual case: no list, no look-up
        return pillow.read_array(fetch(source), mode, out, check_size(at_least))
    outs = None if out is None else [out]
    return read_images([source], mode, backend=backend, device=device, out=outs, at_least=at_least)[
        0
    ]


def read_images(
    sources: Sequence[ImageSource],
    mode: str | None = "RGB",
    *,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    out: Any = None,
    at_least: Size = None,
    cpu_threads: int = 1,
) -> list[Any]:
    """Decode a batch of images, on a GPU all of them in one call.
    Meant for a dataset's ``__getitems__``.

    Arguments, results, errors and order are those of ``[read_image(source, ...) for source in
    sources]``. If several images fail, the error names the first and counts the others in a note.

    Args:
        out: a sequence of arrays (tensors), or one array (tensor) of shape (len(sources), height,
            width, channels), to write to; the returned list then has the elements of *out*. Or a
            function, as in ``read_image``, which is called for each image.
        cpu_threads: number of threads that nvImageCodec may use for the CPU's part of decoding on a
            GPU: parsing and, if no hardware decodes JPEGs, Huffman decoding. More than 1 helps if
                few workers decode large batches.
    """
    target = torch.device(device)
    decoder = find_backend(backend, target)
    if out is not None and not callable(out) and len(out) != len(sources):
        raise ValueError(f"out has room for {len(out)} images, and {len(sources)} were given")
    if at_least is not None and decoder is not pillow:
        raise ValueError(
            "only backend='pillow' on device='cpu' takes at_least: the others decode whole images"
        )
    if target.type == "cpu":
        return _read_arrays(decoder, sources, mode, out, at_least)
    if cpu_threads < 1:
        raise ValueError(f"cpu_threads must be at least 1, not {cpu_threads}")
    if callable(out):
        raise TypeError("out must be tensors on a GPU, not a function")
    decoder.check_mode(mode)
    gpu = decoder.resolve(target)  # before any file is read
    if not sources:
        return []
    return decoder.read_tensors([fetch(source) for source in sources], mode, gpu, out, cpu_threads)


def _read_arrays(
    decoder: Any, sources: Sequence[ImageSource], mode: str | None, out: Any, at_least: Size
) -> list[Any]:
    if out is None or callable(out):
        outs = [out] * len(sources)
    else:
        outs = list(out)
    for array in outs:
        check_type(array)
    encoded = map(fetch, sources)
    if at_least is None:
        return decoder.read_arrays(encoded, mode, outs)
    return pillow.read_arrays(encoded, mode, outs, check_size(at_least))


def read_pil(
    source: ImageSource, mode: str | None = "RGB", *, at_least: Size = None
) -> Image.Image:
    """Decode one image to a Pillow image, for transforms of Pillow images,
    for example torchvision's.

    The result is that of torchvision's default loader, ``Image.open(path).convert(mode)``, with the
    pixels decoded and the file closed. An image that has the mode already (or ``mode=None``) is not
    copied. *at_least* and errors: see ``read_image``.
    """
    return pillow.load(fetch(source), mode, check_size(at_least))
