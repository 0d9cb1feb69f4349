# /// script
# dependencies = ["datasets==5.2.0", "pyarrow==24.0.0"]
# ///
"""Hugging Face datasets: tables in memory and on disk, and streams."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import torch
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader

datasets.disable_progress_bars()


def table():
    return datasets.Dataset.from_dict(
        {
            "text": [f"sample {i}" for i in range(50)],
            "ids": [[i, i + 1, i + 2] for i in range(50)],
            "label": range(50),
        }
    )


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, DataLoader)) else value


def longer(row):
    return {"length": len(row["text"]), "ids": [*row["ids"], 0]}


def program_dataset(folder):
    dataset = table().with_format("torch")
    loader = DataLoader(
        dataset,
        batch_size=4,
        shuffle=True,
        num_workers=2,
        generator=torch.Generator().manual_seed(1),
    )
    return [plain(loader), plain(loader)]


def program_mapped_on_disk(folder):
    table().map(longer).save_to_disk(folder / "table")
    dataset = (
        datasets.load_from_disk(folder / "table")
        .filter(lambda row: row["label"] % 3)
        .shuffle(seed=2)
    )
    return plain(DataLoader(dataset.with_format("torch"), batch_size=4, num_workers=2))


def program_transform(folder):
    dataset = table().with_transform(
        lambda rows: {"square": [torch.tensor(each) ** 2 for each in rows["label"]]}
    )
    return plain(DataLoader(dataset, batch_size=4, num_workers=2))


def program_iterable(folder):
    dataset = table().to_iterable_dataset(num_shards=4).map(longer).with_format("torch")
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    return [plain(loader), plain(loader)]


def program_iterable_shuffled(folder):
    dataset = (
        table()
        .to_iterable_dataset(num_shards=4)
        .shuffle(seed=3, buffer_size=7)
        .with_format("torch")
    )
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    found = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        found.append(plain(loader))
    return found


def program_files_of_a_stream(folder):
    for number in range(4):
        lines = "".join(
            f'{{"text": "sample {10 * number + i}", "ids": [{i}]}}\n' for i in range(10)
        )
        (folder / f"{number}.jsonl").write_text(lines)
    files = [str(folder / f"{number}.jsonl") for number in range(4)]
    dataset = datasets.load_dataset(
        "json", data_files=files, split="train", streaming=True, cache_dir=folder
    )
    loader = DataLoader(dataset.map(longer), batch_size=5, num_workers=2)
    return [plain(loader), plain(loader)]


def program_ranks(folder):
    whole = table().to_iterable_dataset(num_shards=4)
    return [
        plain(DataLoader(split_dataset_by_node(whole, rank, 2), batch_size=4, num_workers=2))
        for rank in range(2)
    ]
