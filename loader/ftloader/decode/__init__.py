"""Image decoding for many threads: files or bytes to arrays, on the CPU or on a GPU.

::

    from ftloader import decode

    decode.read_image("cat.jpg")                        # uint8 array (height, width, 3)
    decode.read_images(paths, device="cuda:0")          # CUDA tensors, one batched decode
    decode.read_pil("cat.jpg")                          # a Pillow image, for transforms

``read_image`` with Pillow gives the pixels of ``np.array(Image.open(p).convert("RGB"))`` in less time;
``ftloader.decode.jpeg_fast`` says how. Pillow's arena of image memory, which all threads share, is not used by it.
Programs that go on using ``Image.open`` in many threads can lessen the contention with Pillow's environment variables
``PILLOW_BLOCKS_MAX`` and ``PILLOW_BLOCK_SIZE``; they are process-wide, so nothing here sets them.
"""

from ftloader.decode.errors import BackendUnavailable, DecodeError
from ftloader.decode.read import ImageSource, read_image, read_images, read_pil

__all__ = ["BackendUnavailable", "DecodeError", "ImageSource", "read_image", "read_images", "read_pil"]
