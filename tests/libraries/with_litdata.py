# /// script
# dependencies = ["litdata==0.2.76", "torch==2.10.0"]
# ///
"""litdata: chunks on the local disk, with torch's class. (litdata's own StreamingDataLoader makes
its worker processes itself, whatever class it is a subclass of.)"""

import os

os.environ["LITDATA_DISABLE_VERSION_CHECK"] = "1"

import torch
from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter
from torch.utils.data import DataLoader


def chunks(folder):
    writer = BinaryWriter(str(folder / "chunks"), chunk_size=10)
    for index in range(80):
        writer[index] = {"index": index, "row": torch.full((20,), float(index))}
    writer.done()
    writer.merge()
    return str(folder / "chunks")


def indices(loader):
    return [batch["index"].tolist() for batch in loader]


def program_dataset(folder):
    loader = DataLoader(
        StreamingDataset(chunks(folder), shuffle=False), batch_size=4, num_workers=2
    )
    return [indices(loader), indices(loader)]


def program_shuffled(folder):
    dataset = StreamingDataset(chunks(folder), shuffle=True, seed=3)
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    return [indices(loader) for _ in range(3)]
