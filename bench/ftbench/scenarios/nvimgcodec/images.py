"""Images decoded by nvImageCodec: by its CPU codecs one at a time, or a batch at once on a GPU."""

from __future__ import annotations

from ftbench.plan.scenario import Task
from ftbench.scenarios.nvimgcodec import gpu
from ftbench.scenarios.pillow import HEIGHT, WIDTH, DecodedImages


class GpuImages:
    """nvImageCodec on a GPU: sample i is a (408, 640, 3) uint8 tensor there, and a batch is one decode.

    Immutable after construction. Every thread has a decoder and a CUDA stream of its own
    (ftloader.decode.cuda); they share the process's CUDA context, and processes have one each. Images of
    another size are resized on the GPU (bilinear, anti-aliased as Pillow's).
    """

    on_gpu = True

    def __init__(self, paths: list[str], device: str):
        from ftloader.decode import read_images

        self._paths, self._device, self._read = tuple(paths), device, read_images

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list:
        """The samples of these indices, decoded at once."""
        images = self._read([self._paths[index] for index in indices], device=self._device)
        return [image if image.shape == (HEIGHT, WIDTH, 3) else _resized(image) for image in images]


def _resized(image):
    from torch.nn.functional import interpolate

    planes = image.permute(2, 0, 1).unsqueeze(0).float()
    planes = interpolate(planes, (HEIGHT, WIDTH), mode="bilinear", antialias=True)
    return planes.round().clamp(0, 255).to(image.dtype)[0].permute(1, 2, 0)


def dataset(task: Task) -> DecodedImages | GpuImages:
    """The trial's dataset: on the GPU if there is one (gpu.backend_note says which)."""
    device = gpu.device()
    return DecodedImages(task.paths, "nvimgcodec") if device is None else GpuImages(task.paths, device)
