"""Races planted on purpose, each with its corrected version.

Each is a scenario; the racy one must fail, the corrected one never.
"""

import io
import os
import tempfile
import threading

import numpy as np
from PIL import Image

from tests.stress.engine import THREADS, Scenario

MANY = 100
UPDATES = 3000


class Locked(Scenario):
    """The correction: a lock around ``get()``."""

    def __init__(self, rng):
        super().__init__(rng)
        self.lock = threading.Lock()

    def get(self, *arguments):
        with self.lock:
            return super().get(*arguments)


class LostUpdate(Scenario):
    """``+=`` on an attribute that threads share."""

    def __init__(self, rng):
        self.count = 0

    def get(self):
        self.count += 1

    def step(self, thread, rng):
        for _ in range(UPDATES):
            self.get()

    def check(self):
        assert self.count == THREADS * UPDATES


class LostUpdateCorrected(Locked, LostUpdate):
    pass


class CheckThenAct(Scenario):
    """A cache that makes room between the test for a key and its look-up."""

    pauses = True

    def __init__(self, rng):
        self.cache = {}

    def get(self, key):
        if key not in self.cache:
            if len(self.cache) >= 2:
                self.cache.clear()
            self.cache[key] = key * 2
        return self.cache[key]

    def step(self, thread, rng):
        for _ in range(MANY):
            key = rng.randrange(6)
            assert self.get(key) == key * 2


class CheckThenActCorrected(Locked, CheckThenAct):
    pass


class SharedOffset(Scenario):
    """seek() and read() on a file that threads share."""

    pauses = True

    @classmethod
    def set_up(cls):
        cls.file = tempfile.TemporaryFile(buffering=0)
        cls.file.write(b"".join(bytes([number]) * 512 for number in range(40)))

    def read(self, number):
        self.file.seek(number * 512)
        return self.file.read(512)

    def step(self, thread, rng):
        for _ in range(100):
            number = rng.randrange(40)
            assert self.read(number) == bytes([number]) * 512


class SharedOffsetCorrected(SharedOffset):
    def read(self, number):
        return os.pread(self.file.fileno(), 512, number * 512)


class LazyInitialisation(Scenario):
    """A value made at its first use, by any thread that finds it missing;
    it is announced too early.
    """

    pauses = True

    def __init__(self, rng):
        self.table = None

    def get(self):
        if self.table is None:
            self.table = {}
            for number in range(50):
                self.table[number] = number * number
        return self.table

    def step(self, thread, rng):
        assert self.get()[49] == 49 * 49


class LazyInitialisationCorrected(Locked, LazyInitialisation):
    pass


class SharedDecoder(Scenario):
    """One PNG that was opened but not yet decoded, used by all threads:
    decoding reads its one file.

    Pillow says so: https://pillow.readthedocs.io/en/latest/handbook/thread-safety.html
    """

    pauses = True

    @classmethod
    def set_up(cls):
        pixels = np.random.Generator(np.random.PCG64(1)).integers(
            0, 256, (200, 200, 3), dtype=np.uint8
        )
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        cls.data, cls.expected = file.getvalue(), pixels.tobytes()

    def __init__(self, rng):
        self.image = Image.open(io.BytesIO(self.data))

    def step(self, thread, rng):
        assert self.image.tobytes() == self.expected


class SharedDecoderCorrected(SharedDecoder):
    """Loaded before the threads share it."""

    def __init__(self, rng):
        super().__init__(rng)
        self.image.load()


class Crash(Scenario):
    """Ends its process by a signal."""

    def step(self, thread, rng):
        if thread == 1:
            os.abort()


class Deadlock(Scenario):
    """Two locks, taken in both orders."""

    def __init__(self, rng):
        self.locks = threading.Lock(), threading.Lock()
        self.both = threading.Barrier(2)

    def step(self, thread, rng):
        if thread < 2:
            with self.locks[thread]:
                self.both.wait()
                with self.locks[1 - thread]:
                    pass


RACES = (LostUpdate, CheckThenAct, SharedOffset, LazyInitialisation, SharedDecoder)
CORRECTED = (
    LostUpdateCorrected,
    CheckThenActCorrected,
    SharedOffsetCorrected,
    LazyInitialisationCorrected,
    SharedDecoderCorrected,
)
