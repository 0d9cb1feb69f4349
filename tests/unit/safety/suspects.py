"""Datasets with and without races, for the tests of the audit."""

import contextvars
import os
import random
import tempfile
import threading
import time

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

SIZE = 64
RECORD = 4096


def write_records() -> str:
    handle, path = tempfile.mkstemp(suffix=".bin")
    with os.fdopen(handle, "wb") as file:
        for number in range(SIZE):
            file.write(bytes([number]) * RECORD)
    return path


class Sized(Dataset):
    def __len__(self):
        return SIZE


class Clean(Sized):
    def __getitem__(self, index):
        return {"x": torch.full((4,), float(index)), "name": f"sample {index}"}


class SharedFile(Sized):
    def __init__(self):
        self.file = open(write_records(), "rb", buffering=0)

    def __getitem__(self, index):
        self.file.seek(index * RECORD)
        return np.frombuffer(self.file.read(RECORD), np.uint8)


class ReadAt(SharedFile):
    def __getitem__(self, index):
        return np.frombuffer(os.pread(self.file.fileno(), RECORD, index * RECORD), np.uint8)


class LazyFile(Sized):
    def __init__(self):
        self.path, self.file = write_records(), None

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb")
        return os.pread(self.file.fileno(), RECORD, index * RECORD)


class FilePerSample(Sized):
    def __init__(self):
        self.path = write_records()

    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            file.seek(index * RECORD)
            return file.read(RECORD)


class FilePerThread(Sized):
    def __init__(self):
        self.path, self.own = write_records(), threading.local()

    def __getitem__(self, index):
        if not hasattr(self.own, "file"):
            self.own.file = open(self.path, "rb")
        self.own.file.seek(index * RECORD)
        return self.own.file.read(RECORD)


class Decoder(threading.local):
    """Each thread that uses it gets its own buffer, made by the constructor."""

    def __init__(self):
        self.buffer = np.zeros(1000)


class DecoderPerThread(Sized):
    def __init__(self):
        self.decoder = Decoder()

    def __getitem__(self, index):
        buffer = self.decoder.buffer
        buffer[:] = index
        buffer += 1
        return torch.from_numpy(buffer.copy())


class LanguageOfTheMaker(Sized):
    """The labels' language is set for the thread that makes the dataset."""

    def __init__(self):
        self.chosen = threading.local()
        self.chosen.language = "de"

    def __getitem__(self, index):
        return f"{getattr(self.chosen, 'language', 'en')}-{index}"


MARGIN = contextvars.ContextVar("MARGIN", default=0)


class MarginOfTheProgram(Sized):
    """Worker threads have the context variables and modes
    of the thread that iterates the loader.
    """

    def __init__(self):
        MARGIN.set(3)

    def __getitem__(self, index):
        assert not torch.is_grad_enabled()  # as in the program
        return index + MARGIN.get()


class Counter(Sized):
    def __init__(self):
        self.served = 0

    def __getitem__(self, index):
        self.served += 1
        return index


class CountedUnderLock(Counter):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def __getitem__(self, index):
        with self.lock:
            self.served += 1
        return index


class OneBuffer(Sized):
    def __init__(self):
        self.buffer = torch.zeros(10)

    def __getitem__(self, index):
        self.buffer.fill_(index)
        return self.buffer


class Evicting(Sized):
    """A cache of four whose entries vanish between the test and the look-up."""

    def __init__(self):
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            if len(self.cache) >= 4:
                self.cache.pop(next(iter(self.cache)))
            self.cache[index] = index * 2
        return self.cache[index]


class GlobalDraw(Sized):
    def __getitem__(self, index):
        return torch.rand(3) + random.random()


class DifferentEachTime(Sized):
    def __getitem__(self, index):
        return time.perf_counter_ns()


class Deadlock(Sized):
    def __init__(self):
        self.locks = threading.Lock(), threading.Lock()

    def __getitem__(self, index):
        first, second = self.locks if index % 2 else self.locks[::-1]
        with first:
            time.sleep(0.002)
            with second:
                return index


class Crash(Sized):
    """Ends the process by a signal, but only when many threads are in it.

    One of them does: faulthandler's dump ends where a second thread aborts.
    """

    def __init__(self):
        self.inside = set()
        self.aborting = threading.Lock()

    def __getitem__(self, index):
        self.inside.add(threading.get_ident())
        time.sleep(0.001)
        if len(self.inside) > 4:
            if self.aborting.acquire(blocking=False):
                os.abort()
            threading.Event().wait()
        return index


class CrashAlone(Sized):
    def __getitem__(self, index):
        os.abort()


class Interrupts(Sized):
    def __init__(self):
        raise KeyboardInterrupt


class Failing(Sized):
    def __getitem__(self, index):
        raise OSError("no such disk")


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        step, start = (info.num_workers, info.id) if info else (1, 0)
        return (torch.tensor([i]) for i in range(start, 10 * SIZE, step))


class SharedStream(IterableDataset):
    """All workers' copies count in the class's list."""

    position = [0]

    def __iter__(self):
        for _ in range(SIZE):
            self.position[0] += 1
            yield self.position[0]


class CountingStream(SharedStream):
    def __init__(self):
        self.position = [0]


def tensors():
    return TensorDataset(torch.arange(SIZE), torch.arange(SIZE) * 2.0)


clean = Clean()
not_a_dataset = 17


class NeverEnds(Sized):
    def __getitem__(self, index):
        time.sleep(3600)
