# /// script
# dependencies = ["mosaicml-streaming==0.13.0", "torch==2.10.0"]
# ///
"""MosaicML streaming: shards on the local disk."""

import numpy as np
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader


def shards(folder):
    with MDSWriter(
        out=str(folder / "mds"), columns={"index": "int", "row": "ndarray"}, size_limit=2000
    ) as writer:
        for index in range(80):
            writer.write({"index": index, "row": np.full(20, index, np.float32)})
    return str(folder / "mds")


def indices(loader):
    return [batch["index"].tolist() for batch in loader]


def program_in_order(folder):
    dataset = StreamingDataset(local=shards(folder), shuffle=False, batch_size=4)
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    return [indices(loader), indices(loader)]


def program_shuffled(folder):
    dataset = StreamingDataset(local=shards(folder), shuffle=True, shuffle_seed=3, batch_size=4)
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    return [indices(loader) for _ in range(3)]
