"""Members of a tar archive that __init__ read into a dict of bytes; each sample decodes its own."""

import io
import tarfile

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class Archive(Dataset):
    def __init__(self, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            self.members = {member.name: tar.extractfile(member).read() for member in tar}
        self.keys = sorted(
            name.removesuffix(".png") for name in self.members if name.endswith(".png")
        )

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        key = self.keys[index]
        with Image.open(io.BytesIO(self.members[key + ".png"])) as image:
            return np.asarray(image.convert("L")), int(self.members[key + ".cls"])


def add(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


rng, file = np.random.default_rng(0), io.BytesIO()
with tarfile.open(fileobj=file, mode="w") as tar:
    for number in range(100):
        png = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(png, "PNG")
        add(tar, f"{number:04}.png", png.getvalue())
        add(tar, f"{number:04}.cls", str(number % 10).encode())
dataset = Archive(file.getvalue())
