"""The recipe of docs/libraries.md for torchvision's random transforms: the same images for all workers."""

import pytest
import torch

from ftloader import DataLoader
from tests.checkout import CHECKOUT
from tests.libraries.classifying import write_images
from tests.markdown_files import code_blocks

pytestmark = pytest.mark.slow


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    write_images(tmp_path / "train", 16, 2)
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks((CHECKOUT / "docs" / "libraries.md").read_text(), "python")
    names = {}
    exec(next(block for block in blocks if "sample_draws" in block), names)
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
