"""Samples in tar shards through webdataset: an iterable-style dataset, of which every worker has a copy.

./twins exec ft pip install --target packages --no-deps webdataset braceexpand pyyaml
PYTHONPATH=packages ./twins audit docs/audit/webdataset_shards.py:in_order
"""

import io
import tempfile
from pathlib import Path

import numpy as np
import webdataset as wds
from PIL import Image


def shards() -> list[str]:
    directory = Path(tempfile.mkdtemp(prefix="audit-"))
    for shard in range(8):
        with wds.TarWriter(str(directory / f"{shard}.tar")) as out:
            for i in range(16):
                encoded = io.BytesIO()
                Image.fromarray(np.full((16, 16, 3), shard * 16 + i, np.uint8)).save(encoded, "PNG")
                out.write({"__key__": f"{shard}-{i}", "png": encoded.getvalue(), "cls": i})
    return sorted(map(str, directory.glob("*.tar")))


def in_order():
    return wds.WebDataset(shards(), shardshuffle=False).decode("rgb").to_tuple("png", "cls")
