"""Image decoding for many threads: files or bytes to arrays, on the CPU or on a GPU.

On the CPU, ``read_image`` decodes JPEGs without Pillow's arena of image memory, which all threads
share (see ``turbojpeg``). Programs that go on using ``Image.open`` in many threads can lessen the
contention with Pillow's environment variables ``PILLOW_BLOCKS_MAX`` and ``PILLOW_BLOCK_SIZE``. This
package does not set them, since they hold for the whole process.
"""

from ftloader.decode.read import ImageSource, read_image, read_images, read_pil
from ftloader.errors import BackendUnavailable, DecodeError

__all__ = [
    "BackendUnavailable",
    "DecodeError",
    "ImageSource",
    "read_image",
    "read_images",
    "read_pil",
]
