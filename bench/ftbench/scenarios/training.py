"""The end of the line: a small convolutional network trained on JPEGs through each loader.

What is copied from here is `Quadrants`, a dataset whose augmentation is the same in every loader, and
`train`, the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from ftbench import training
from ftbench.chosen import Chosen, Comparison, Entry
from ftbench.scenario import Amount, Scenario, Task

SIDE = 64


class Quadrants:
    """Random crops of photographs, and which quadrant of each is the brightest.

    Sample k is (uint8 tensor (3, 64, 64), int 0 to 3). Epoch e has the samples e * `per_epoch` and following: a
    shuffle of the images of its own, and crops of their own, both drawn from the seed and k alone. So a sample
    is the same whoever loads it and when. Immutable after construction, so threads may share it.
    """

    def __init__(self, paths: list[str], per_epoch: int, epochs: int, seed: int):
        import numpy
        import torch
        from PIL import Image

        # No modules: a start method other than fork pickles the dataset.
        self._open, self._bilinear = Image.open, Image.Resampling.BILINEAR
        self._generator, self._array, self._tensor = numpy.random.default_rng, numpy.array, torch.from_numpy
        self._paths, self._seed = tuple(paths), seed
        self._order = tuple(
            int(image)
            for epoch in range(epochs)
            for image in numpy.random.default_rng([seed, epoch]).permutation(per_epoch) % len(paths)
        )

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int):
        random = self._generator([self._seed, 1, index])
        with self._open(self._paths[self._order[index]]) as file:
            image = file.convert("RGB")
        side = int(min(image.size) * random.uniform(0.6, 1.0))
        left, top = random.integers(image.width - side + 1), random.integers(image.height - side + 1)
        image = image.resize((SIDE, SIDE), self._bilinear, (left, top, left + side, top + side))
        pixels = self._array(image)
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        half = SIDE // 2
        quadrants = pixels.reshape(2, half, 2, half, 3).mean(axis=(1, 3, 4))
        return self._tensor(pixels.transpose(2, 0, 1).copy()), int(quadrants.argmax())


def network():
    """Three convolutions and a linear layer: (n, 3, 64, 64) to (n, 4)."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (SIDE // 8) ** 2, 4),
    )


def train(network, optimiser, batches: Iterable, device):
    """One epoch of training on `device`; yields each step's loss, a tensor there, after its step."""
    from torch.nn import functional

    for images, labels in batches:
        images = images.to(device, non_blocking=True).float() / 127.5 - 1
        loss = functional.cross_entropy(network(images), labels.to(device, non_blocking=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.detach()


def dataset(task: Task) -> Quadrants:
    """The images of the task's source, in epochs of as many batches as a worker has in others."""
    return Quadrants(task.paths, training.steps_per_epoch(task) * task.batch_size, training.EPOCHS, training.SEED)


def measure(task: Task) -> dict:
    """ftbench.training with this network and this loop."""
    return training.measure(task, network, train)


OURS, TORCH = Entry("ft", "loader-thread"), Entry("gil", "torch-process")

SCENARIO = Scenario(
    name="training",
    group="",
    question="the end of the line: what is left of it in a training?",
    description="a small convolutional network trained on augmented JPEG crops for some epochs",
    sample="one 640x408 JPEG decoded, cropped, resized to 64x64, with its label",
    sample_bytes=3 * SIDE * SIDE + 8,
    source="images",
    dataset=dataset,
    measure=measure,
    metrics=("epoch_seconds", "utilisation"),
    contest=Chosen(
        (
            Comparison(OURS, TORCH, None, "what removing the GIL makes of what people use today"),
            Comparison(OURS, Entry("gil", "loader-process"), None, "the same loader with processes"),
            Comparison(OURS, Entry("ft-gil", "loader-thread"), None, "effect of the GIL"),
            Comparison(
                Entry("ft-gil", "loader-thread"), Entry("gil", "loader-thread"), None, "cost of the free-threaded build"
            ),
            Comparison(Entry("gil", "loader-thread"), Entry("gil", "loader-process"), None, "where the GIL is"),
            Comparison(OURS, Entry("ft", "nodes-thread")),
            Comparison(OURS, Entry("ft", "spdl")),
            Comparison(OURS, Entry("ft", "serial", one_worker=True), None, "what the workers bring"),
        ),
        others=(Entry("gil", "serial", one_worker=True),),
    ),
    full=Amount(batch_size=32, batches_per_worker=32),
    quick=Amount(batch_size=32, batches_per_worker=8),
    seconds=300,
    quick_seconds=190,
)
