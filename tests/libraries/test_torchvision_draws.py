"""The recipe of docs/libraries.md for torchvision's random transforms: the same images for all workers."""

import numpy as np
import pytest
import torch
from PIL import Image

from ftloader import DataLoader
from tests.checkout import CHECKOUT
from tests.markdown_files import code_blocks

pytestmark = pytest.mark.slow


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    for number in range(16):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 30, 3), np.uint8)
        (tmp_path / "train" / f"{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "train" / f"{number % 2}" / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks((CHECKOUT / "docs" / "libraries.md").read_text(), "python")
    names = {}
    exec(next(block for block in blocks if "TorchFunctionMode" in block), names)
    return names["dataset"]


def test_the_recipe_gives_the_same_images_for_all_workers(dataset):
    found = []
    for workers in (
        {},
        {"num_workers": 1, "worker_method": "thread"},
        {"num_workers": 2, "worker_method": "thread"},
        {"num_workers": 2, "worker_method": "process"},
    ):
        generator = torch.Generator().manual_seed(1)
        loader = DataLoader(dataset, batch_size=4, generator=generator, **workers)
        found.append([torch.cat([images for images, _ in loader]) for _epoch in range(2)])
    for first, second in found:
        assert torch.equal(first, found[0][0]) and torch.equal(second, found[0][1])
    assert not torch.equal(*found[0]), "another epoch draws other numbers"
