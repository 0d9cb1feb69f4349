"""Libraries that a data pipeline uses at once: images, arrays, tensors."""

import io
import threading

import numpy as np
import torch
from PIL import Image
from torch.utils.data import default_collate

from tests.stress.engine import THREADS, Scenario


def _pixels(seed, height=48, width=64):
    return np.random.Generator(np.random.PCG64(seed)).integers(
        0, 256, (height, width, 3), dtype=np.uint8
    )


def _encoded(seed, kind):
    file = io.BytesIO()
    Image.fromarray(_pixels(seed)).save(file, kind)
    return file.getvalue()


def _process(data):
    """Decode, resize and save; return the bytes."""
    with Image.open(io.BytesIO(data)) as image:
        small = image.convert("RGB").resize((20, 16), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    small.save(file, "PNG")
    return small.tobytes(), file.getvalue()


class PillowDecodeResizeSave(Scenario):
    """Each thread decodes, resizes and saves images of several formats;
    all bytes are as with one thread.
    """

    @classmethod
    def set_up(cls):
        cls.files = [
            _encoded(seed, kind)
            for seed in range(3)
            for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF")
        ]
        cls.expected = [_process(data) for data in cls.files]

    def step(self, thread, rng):
        for place in rng.sample(range(len(self.files)), len(self.files)):
            assert _process(self.files[place]) == self.expected[place]


class PillowSharedLoadedImage(Scenario):
    """Reading an image that was loaded before, which Pillow says is safe."""

    @classmethod
    def set_up(cls):
        cls.image = Image.fromarray(_pixels(7))
        cls.image.load()
        cls.expected = cls.read()

    @classmethod
    def read(cls):
        return (
            cls.image.resize((10, 10)).tobytes(),
            cls.image.crop((3, 3, 30, 30)).tobytes(),
            cls.image.convert("L").tobytes(),
            np.asarray(cls.image).tobytes(),
            cls.image.transpose(0).tobytes(),
        )

    def step(self, thread, rng):
        for _ in range(3):
            assert self.read() == self.expected


class NumpySharedReading(Scenario):
    """Many threads read one array; each writes into arrays of its own."""

    @classmethod
    def set_up(cls):
        cls.array = np.random.Generator(np.random.PCG64(1)).normal(size=(64, 64)).astype(np.float32)
        cls.expected = cls.read()

    @classmethod
    def read(cls):
        array = cls.array
        return (
            array.sum(),
            array.T.copy().tobytes(),
            np.sort(array, axis=None).tobytes(),
            array[::3, 5:].copy().tobytes(),
            np.stack([array, array * 2]).tobytes(),
            array.astype(np.float64).mean(axis=0).tobytes(),
            np.frombuffer(array.tobytes(), np.float32).reshape(64, 64).argmax(),
            np.pad(array, 2).tobytes(),
        )

    def step(self, thread, rng):
        for _ in range(3):
            assert self.read() == self.expected


class NumpyDisjointWriting(Scenario):
    """Threads write different rows of one array, as samples into a batch."""

    def __init__(self, rng):
        self.batch = np.zeros((64, 500), np.int64)

    def step(self, thread, rng):
        for row in range(thread, 64, THREADS):
            self.batch[row] = row
            np.copyto(self.batch[row, 100:], row + 1)

    def check(self):
        rows = np.arange(64)[:, None]
        assert (self.batch[:, :100] == rows).all()
        assert (self.batch[:, 100:] == rows + 1).all()


class NumpyGenerators(Scenario):
    """A seeded generator for each thread: the same numbers, whatever other threads draw."""

    @classmethod
    def set_up(cls):
        cls.expected = [cls.draw(seed) for seed in range(THREADS)]

    @staticmethod
    def draw(seed):
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(seed,)))
        return (
            rng.normal(size=50).tobytes(),
            rng.permutation(40).tobytes(),
            rng.integers(0, 9, 30).tobytes(),
        )

    def step(self, thread, rng):
        for _ in range(5):
            assert self.draw(thread) == self.expected[thread]


class TorchOperators(Scenario):
    """CPU operators on tensors that all threads read."""

    @classmethod
    def set_up(cls):
        torch.set_num_threads(1)
        cls.a = torch.arange(48 * 32, dtype=torch.float32).reshape(48, 32) / 7
        cls.image = torch.arange(3 * 20 * 20, dtype=torch.uint8).reshape(1, 3, 20, 20)
        cls.expected = cls.read()

    @classmethod
    def read(cls):
        a = cls.a
        return [
            a @ a.T,
            torch.stack([a, a + 1]),
            torch.cat([a, a], 1),
            a.index_select(0, torch.tensor([3, 1, 40])),
            a.sort(dim=1).values,
            torch.nn.functional.interpolate(cls.image.float(), size=(9, 11), mode="bilinear"),
            default_collate([{"x": row, "i": number} for number, row in enumerate(a[:4])])["x"],
            a.softmax(1),
            cls.image.permute(0, 2, 3, 1).contiguous().float(),
            a.flip(0).cumsum(1),
        ]

    def step(self, thread, rng):
        for _ in range(2):
            for mine, expected in zip(self.read(), self.expected, strict=True):
                assert torch.equal(mine, expected)


class TorchStorages(Scenario):
    """Views of one storage are made, handed over, pickled and dropped by all threads."""

    def __init__(self, rng):
        self.tensor = torch.arange(4096, dtype=torch.int64)
        self.array = self.tensor.numpy()
        self.views = [None] * (THREADS * 8)

    def step(self, thread, rng):
        for _ in range(20):
            start = rng.randrange(4000)
            view = self.tensor[start : start + 50]
            assert view.untyped_storage().data_ptr() == self.tensor.untyped_storage().data_ptr()
            assert view[0].item() == start
            own = torch.from_numpy(self.array[start:])
            assert own[3].item() == start + 3
            self.views[rng.randrange(len(self.views))] = (start, view.detach(), own)
            there = self.views[rng.randrange(len(self.views))]
            if there is not None:
                assert there[1][49].item() == there[0] + 49
                assert there[2].clone().resize_(2)[1].item() == there[0] + 1


class TorchDisjointWriting(Scenario):
    """Threads write different rows of one tensor, with out= and copy_."""

    def __init__(self, rng):
        self.batch = torch.zeros(64, 500)

    def step(self, thread, rng):
        for row in range(thread, 64, THREADS):
            self.batch[row].copy_(torch.full((500,), float(row)))
            torch.add(self.batch[row, :100], 1, out=self.batch[row, :100])

    def check(self):
        rows = torch.arange(64.0)[:, None]
        assert (self.batch[:, 100:] == rows).all()
        assert (self.batch[:, :100] == rows + 1).all()


class TorchGenerators(Scenario):
    """A torch.Generator a thread, seeded."""

    @classmethod
    def set_up(cls):
        cls.expected = [cls.draw(seed) for seed in range(THREADS)]

    @staticmethod
    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.cat(
            [torch.rand(20, generator=generator), torch.randperm(30, generator=generator).float()]
        )

    def step(self, thread, rng):
        for _ in range(5):
            assert torch.equal(self.draw(thread), self.expected[thread])


class _NvImageCodec(Scenario):
    """What both nvImageCodec scenarios decode, on the CPU."""

    @classmethod
    def set_up(cls):
        from ftloader.decode import nvimgcodec

        cls.module = nvimgcodec
        cls.files = [_encoded(seed, "JPEG") for seed in range(6)]
        cls.decoder = cls.make()
        cls.expected = [cls.decode(cls.decoder, data) for data in cls.files]

    @classmethod
    def make(cls):
        codec = cls.module.library()
        return codec.Decoder(
            device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
        )

    @classmethod
    def decode(cls, decoder, data):
        codec = cls.module.library()
        image = decoder.decode([codec.CodeStream(data)], params=cls.module.params("RGB"))[0]
        return np.asarray(image).tobytes()


class NvImageCodecPerThread(_NvImageCodec):
    """A decoder a thread, made and dropped while others decode."""

    def step(self, thread, rng):
        decoder = self.make()
        for place in rng.sample(range(6), 6):
            assert self.decode(decoder, self.files[place]) == self.expected[place]


class NvImageCodecShared(_NvImageCodec):
    """One decoder for all threads, under a lock."""

    # With or without a GIL: "Processing results for sample 0 was already set", "Broken promise",
    # None for an image.
    known = (
        "nvImageCodec 0.9.0: a decoder that threads share without a lock fails, in every "
        "configuration"
    )
    lock = threading.Lock()

    def step(self, thread, rng):
        for place in rng.sample(range(6), 6):
            with self.lock:
                decoded = self.decode(self.decoder, self.files[place])
            assert decoded == self.expected[place]
