"""Files of several kinds, decoded by functions that a decorator put into a dict of the class."""

import base64
import json
import zlib

import numpy as np
from torch.utils.data import Dataset


class Registry:
    decoders = {}

    @classmethod
    def register(cls, suffix):
        def add(function):
            cls.decoders[suffix] = function
            return function

        return add

    @classmethod
    def decode(cls, name, data):
        return cls.decoders[name.rpartition(".")[2]](data)


@Registry.register("json")
def decode_json(data):
    return np.array(json.loads(data), dtype=np.int64)


@Registry.register("z")
def decode_zlib(data):
    return np.frombuffer(zlib.decompress(data), dtype=np.int64)


@Registry.register("b64")
def decode_base64(data):
    return np.frombuffer(base64.b64decode(data), dtype=np.int64)


class Files(Dataset):
    def __init__(self, files):
        self.files = sorted(files.items())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return Registry.decode(*self.files[index])


values = [np.arange(number, number + 16) for number in range(100)]
files = {f"{number}.json": json.dumps(row.tolist()).encode() for number, row in enumerate(values)}
files |= {f"{number}.z": zlib.compress(row.tobytes()) for number, row in enumerate(values)}
files |= {f"{number}.b64": base64.b64encode(row.tobytes()) for number, row in enumerate(values)}
dataset = Files(files)
