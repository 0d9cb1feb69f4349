# /// script
# dependencies = ["webdataset==1.0.2"]
# ///
"""webdataset: pipelines over local shards, with WebLoader."""

import io

import numpy as np
import webdataset as wds
from PIL import Image


def shards(folder):
    for number in range(4):
        with wds.TarWriter(str(folder / f"{number}.tar")) as tar:
            for key in range(number * 10, number * 10 + 10):
                tar.write(
                    {
                        "__key__": f"{key:03}",
                        "png": picture(key),
                        "cls": key,
                        "json": {"name": f"sample {key}"},
                    }
                )
    return str(folder / "{0..3}.tar")


def picture(seed):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 6, 3), np.uint8)).save(
        file, "png"
    )
    return file.getvalue()


def pixels(sample):
    image, label, information = sample
    return image.sum(dtype="float64"), label, information["name"]


def plain(batches):
    return [[np.asarray(part).tolist() for part in batch] for batch in batches]


def program_batched_in_workers(folder):
    dataset = wds.WebDataset(shards(folder), shardshuffle=False)
    dataset = dataset.decode("rgb").to_tuple("png", "cls", "json").map(pixels).batched(4)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=2)
    return [plain(loader), plain(loader)]


def program_shuffled(folder):
    dataset = wds.WebDataset(shards(folder), shardshuffle=4, detshuffle=True, seed=5)
    dataset = dataset.shuffle(8, seed=6).decode("rgb").to_tuple("png", "cls", "json").map(pixels)
    loader = wds.WebLoader(dataset, batch_size=4, num_workers=2)
    # The shuffling of samples draws from the time and the process: all of them, once an epoch.
    return [sorted(label for batch in loader for label in batch[1].tolist()) for _ in range(3)]


def program_shuffled_shards_in_order(folder):
    dataset = wds.WebDataset(shards(folder), shardshuffle=4, detshuffle=True, seed=5)
    loader = wds.WebLoader(
        dataset.decode().to_tuple("cls"), batch_size=4, num_workers=2, persistent_workers=True
    )
    return [plain(loader) for _ in range(3)]


def program_fluid_loader(folder):
    dataset = (
        wds.WebDataset(shards(folder), shardshuffle=False)
        .decode("rgb")
        .to_tuple("png", "cls", "json")
    )
    loader = wds.WebLoader(dataset.map(pixels).batched(5), batch_size=None, num_workers=2)
    loader = loader.unbatched().batched(7).with_epoch(3)
    return [plain(loader), plain(loader)]


def program_resampled(folder):
    dataset = wds.WebDataset(shards(folder), resampled=True, shardshuffle=False, seed=3)
    dataset = dataset.decode().to_tuple("cls").with_epoch(12)
    loader = wds.WebLoader(dataset, batch_size=4, num_workers=2)
    return [len(batch) for _ in range(2) for (batch,) in loader]


def program_pipeline(folder):
    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards(folder)),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.decode("rgb"),
        wds.to_tuple("png", "cls", "json"),
        wds.map(pixels),
    )
    return plain(wds.WebLoader(dataset, batch_size=4, num_workers=2))


def program_cached_shards(folder):
    (folder / "cache").mkdir()
    dataset = wds.WebDataset(shards(folder), shardshuffle=False, cache_dir=str(folder / "cache"))
    loader = wds.WebLoader(dataset.decode().to_tuple("cls"), batch_size=4, num_workers=2)
    return [plain(loader), plain(loader)]
