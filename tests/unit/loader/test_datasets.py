"""ImageFolder: torchvision's semantics over a compact table, also under this loader."""

import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ftloader import DataLoader, decode
from ftloader.datasets import (
    IMG_EXTENSIONS,
    DatasetFolder,
    ImageFolder,
    PathTable,
    Samples,
    Targets,
)


def save(path: Path, color=(10, 20, 30), size=(8, 6)) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return str(path)


@pytest.fixture
def root(tmp_path):
    """Return a folder of two classes, with nested folders and files of other kinds."""
    folder = tmp_path / "images"
    for name in (
        "dog/b.png",
        "dog/a.jpg",
        "dog/in/c.PNG",
        "dog/in-x/d.png",
        "dog/in/z/e.png",
        "cat/f.bmp",
    ):
        save(folder / name, color=(len(name), 0, 0))
    (folder / "cat" / "notes.txt").write_text("not an image")
    (folder / "readme.txt").write_text("not a class")
    return folder


def reference(directory, class_to_idx, valid):
    """Return what torchvision's make_dataset returns."""
    found = []
    for name in sorted(class_to_idx):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for file in sorted(files):
                if valid(os.path.join(folder, file)):
                    found.append((os.path.join(folder, file), class_to_idx[name]))
    return found


def test_classes_samples_and_targets(root):
    dataset = ImageFolder(root)
    assert dataset.classes == ["cat", "dog"]
    assert dataset.class_to_idx == {"cat": 0, "dog": 1}
    expected = reference(
        root, dataset.class_to_idx, lambda path: path.lower().endswith(IMG_EXTENSIONS)
    )
    assert len(expected) == 6
    assert dataset.samples == expected
    assert dataset.imgs is dataset.samples
    assert dataset.targets == [0, 1, 1, 1, 1, 1]
    assert len(dataset) == 6
    assert dataset.extensions == IMG_EXTENSIONS


def test_the_order_is_torchvisions_on_random_trees(tmp_path):
    choice = random.Random(3)
    for number in range(10):
        top = tmp_path / str(number)
        for _ in range(25):
            parts = [
                choice.choice(["a", "b", "a-b", "a b", "B", "ä", "a.d"])
                for _ in range(choice.randint(2, 5))
            ]
            path = top.joinpath(*parts[:-1], f"{parts[-1]}.x")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        dataset = DatasetFolder(top, str, ".x", allow_empty=True)
        assert dataset.classes == sorted(path.name for path in top.iterdir())
        assert dataset.samples == reference(
            top, dataset.class_to_idx, lambda path: path.endswith(".x")
        )


def test_a_sample_is_an_rgb_pillow_image_by_default(root):
    image, target = ImageFolder(root)[0]
    assert isinstance(image, Image.Image)
    assert (image.mode, image.size, target) == ("RGB", (8, 6), 0)
    assert type(target) is int


def test_transforms_are_applied(root):
    dataset = ImageFolder(
        root, transform=lambda image: image.resize((2, 2)).size, target_transform=lambda t: f"<{t}>"
    )
    assert dataset[1] == ((2, 2), "<1>")
    assert "transform" in repr(dataset)


def test_loader_gives_the_sample(root):
    dataset = ImageFolder(root, loader=decode.read_image)
    sample, _ = dataset[-1]
    assert sample.shape == (6, 8, 3)
    assert np.array_equal(sample, np.array(Image.open(dataset.imgs[-1][0]).convert("RGB")))


def test_files_can_be_chosen(root):
    dataset = ImageFolder(root, is_valid_file=lambda path: path.endswith(("f.bmp", "c.PNG")))
    assert [os.path.basename(path) for path, _ in dataset.samples] == ["f.bmp", "c.PNG"]
    assert dataset.extensions is None
    dataset = ImageFolder(root, extensions=(".bmp",), allow_empty=True)
    assert (dataset.targets, dataset.classes) == ([0], ["cat", "dog"])


def test_classes_without_files(root):
    (root / "bird").mkdir()
    (root / "ant").mkdir()
    with pytest.raises(
        FileNotFoundError, match=r"no valid file for the classes ant, bird\. Supported extensions"
    ):
        ImageFolder(root)
    assert ImageFolder(root, allow_empty=True).classes == ["ant", "bird", "cat", "dog"]


@pytest.mark.parametrize(
    ("name", "match"), [("", "Couldn't find any class folder"), ("missing", "missing")]
)
def test_no_class_folder(tmp_path, name, match):
    with pytest.raises(FileNotFoundError, match=match):
        ImageFolder(tmp_path / name)


@pytest.mark.parametrize(
    ("classes", "arguments", "match"),
    [
        ({"dog": 0}, {}, "at the same time"),
        ({"dog": 0}, {"extensions": ".png", "is_valid_file": bool}, "at the same time"),
        ({}, {"extensions": ".png"}, "at least one entry"),
        (None, {"extensions": ".png"}, "cannot be None"),
    ],
)
def test_extensions_or_is_valid_file(root, classes, arguments, match):
    with pytest.raises(ValueError, match=match):
        ImageFolder.make_dataset(root, classes, **arguments)


def test_find_classes_can_be_overridden(root):
    class OnlyDogs(ImageFolder):
        def find_classes(self, directory):
            classes, _ = DatasetFolder.find_classes(self, directory)
            return classes[1:], {"dog": 7}

    dataset = OnlyDogs(root)
    assert set(dataset.targets) == {7}
    assert len(dataset) == 5


def test_make_dataset_can_be_overridden_with_a_list(root):
    class Mine(DatasetFolder):
        @staticmethod
        def make_dataset(
            directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False
        ):
            return [("x", 1), ("y", 0)]

    dataset = Mine(root, loader=str.upper, extensions=(".png",))
    assert dataset.targets == [1, 0]
    assert dataset[0] == ("X", 1)


def test_samples_can_be_assigned(root):
    dataset = ImageFolder(root)
    dataset.samples = dataset.samples[:2]
    assert len(dataset) == 2
    assert isinstance(dataset.samples, list)


def test_links_are_followed_and_a_loop_ends(root):
    (root / "dog" / "in" / "loop").symlink_to(root / "dog", target_is_directory=True)
    (root / "dog" / "cats").symlink_to(root / "cat", target_is_directory=True)
    names = [os.path.relpath(path, root) for path, _ in ImageFolder(root).samples]
    assert "dog/cats/f.bmp" in names
    assert len(names) == 7


def test_a_folder_that_cannot_be_listed_is_an_error(root, monkeypatch):
    # Permissions would not do: the tests may run as root.
    list_folder = os.scandir

    def refuse(folder):
        if str(folder).endswith("dog/in"):
            raise PermissionError(13, "Permission denied", folder)
        return list_folder(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="dog/in"):
        ImageFolder(root)


def test_names_that_are_no_utf8(root):
    name = os.fsencode(root / "cat") + b"/\xff\xfe.png"
    os.rename(save(root / "cat" / "temporary.png"), name)
    dataset = ImageFolder(root)
    path = dataset.samples[1][0]
    assert os.fsencode(path) == name
    assert dataset[1][0].size == (8, 6)


def test_views_behave_as_lists(root):
    dataset = ImageFolder(root)
    samples, targets = list(dataset.samples), list(dataset.targets)
    assert isinstance(dataset.samples, Samples)
    assert isinstance(dataset.targets, Targets)
    assert dataset.samples[1:4] == samples[1:4]
    assert dataset.samples[::-2] == samples[::-2]
    assert dataset.targets[::-2] == targets[::-2]
    assert dataset.samples[-1] == dataset.samples[np.int64(5)] == samples[5]
    assert dataset.targets[torch.tensor(5)] == targets[5]
    assert dataset.targets.count(1) == 5
    assert samples[2] in dataset.samples
    assert dataset.samples.index(samples[3]) == 3
    assert dataset.samples != samples[:-1]
    assert dataset.targets != targets[::-1]
    assert dataset.samples == ImageFolder(root).samples
    assert dataset.targets == ImageFolder(root).targets
    assert list(reversed(dataset.targets)) == targets[::-1]
    for view in (dataset.samples, dataset.targets):
        for index in (6, -7):
            with pytest.raises(IndexError, match=f"index {index} is out of range for 6 samples"):
                view[index]


def test_targets_as_arrays(root):
    targets = ImageFolder(root).targets
    array = np.array(targets)
    assert array.dtype == np.int64
    array[0] = 5
    assert targets[0] == 0
    assert torch.tensor(targets).tolist() == list(targets)
    assert torch.bincount(torch.as_tensor(np.array(targets))).tolist() == [1, 5]


def test_iteration_over_more_than_one_piece():
    table = PathTable([f"d/{i}" for i in range(10_000)], range(10_000))
    assert list(Targets(table)) == list(range(10_000))
    assert list(Samples(table)) == [(f"d/{i}", i) for i in range(10_000)]


def test_pickles(root):
    dataset = pickle.loads(pickle.dumps(ImageFolder(root)))
    assert dataset.samples == ImageFolder(root).samples
    assert dataset[0][0].size == (8, 6)


@pytest.mark.parametrize("workers", [0, 2])
def test_under_the_loader(root, worker_method, workers):
    dataset = ImageFolder(root, loader=decode.read_image)
    extra = {"worker_method": worker_method} if workers else {}
    batches = list(DataLoader(dataset, batch_size=4, num_workers=workers, **extra))
    images = torch.cat([images for images, _ in batches])
    targets = torch.cat([targets for _, targets in batches])
    assert targets.tolist() == list(dataset.targets)
    for image, (path, _) in zip(images, dataset.samples, strict=True):
        assert np.array_equal(image.numpy(), np.array(Image.open(path).convert("RGB")))
