"""Datasets that share containers and use them by atomic calls,
well or badly, for the tests of the audit.

In a file that does not import pytest: the audit looks at all that a dataset's code can reach.
"""

import collections
import contextlib
import queue
import tempfile

import numpy as np
import torch


class Sized:
    def __len__(self):
        return 24


class Handles(Sized):
    """Records by file handles of a pool. *reads_after*:
    the handle is used after it was put back.
    """

    def __init__(self, reads_after=False):
        self.path, self.idle, self.reads_after = (
            tempfile.mkdtemp() + "/bytes",
            collections.deque(),
            reads_after,
        )
        with open(self.path, "wb") as file:
            file.write(bytes(range(24)))

    def __getitem__(self, index):
        try:
            number, file = self.idle.pop()
        except IndexError:
            number, file = index, open(self.path, "rb", buffering=0)
        if self.reads_after:
            self.idle.append((number, file))
        file.seek(index)
        value = file.read(1)
        if not self.reads_after:
            self.idle.append((number, file))
        return value


class Decoder:
    def __init__(self, shared):
        self.state, self.shared = 0, shared

    def decode(self, index):
        self.state = index
        self.state += 1
        return self.state


class Decoders(Sized):
    """Samples by decoders, which a queue lends to one thread at a time."""

    def __init__(self, made_before=0):
        self.counts = Counts()
        self.idle = queue.LifoQueue()
        for _ in range(made_before):
            self.idle.put(Decoder(self.counts))

    def __getitem__(self, index):
        try:
            decoder = self.idle.get_nowait()
        except queue.Empty:
            decoder = Decoder(self.counts)
        value = self.decoded(decoder, index)
        self.idle.put(decoder)
        return value

    def decoded(self, decoder, index):
        return decoder.decode(index)


class Counts:
    def __init__(self):
        self.decoded = 0


class CountingDecoders(Decoders):
    """Decoders that count in an object of all."""

    def decoded(self, decoder, index):
        decoder.shared.decoded += 1
        return decoder.decode(index)


class CountingByClass(CountingDecoders):
    """Decoders that count in an object that a class alone keeps,
    so that all of them refer to it.
    """

    counts = Counts()

    def __init__(self):
        self.idle = queue.LifoQueue()


class Log(Sized):
    def __init__(self):
        self.recent, self.order = collections.deque(maxlen=3), []

    def __getitem__(self, index):
        self.recent.append(index)
        self.order.append(index)
        return index


class ReadLog(Log):
    """A log of which samples depend."""

    def __getitem__(self, index):
        self.order.append(index)
        return index + (self.order[-1] != index)


class ReadByLambda(Log):
    """A log that no function with a name reads."""

    last = property(lambda self: self.order[-1])

    def __getitem__(self, index):
        self.order.append(index)
        return index + (self.last != index)


class ReadByAnotherName(Log):
    def __init__(self):
        self.order = self.history = []

    def __getitem__(self, index):
        self.order.append(index)
        return index + (self.history[-1] != index)


class Buffers(Log):
    """Samples made in buffers of a queue that cannot be looked into."""

    def __init__(self, make=np.zeros):
        self.free = queue.SimpleQueue()
        for _ in range(30):
            self.free.put(make(4))

    def __getitem__(self, index):
        buffer = self.taken()
        buffer[:] = index
        try:
            return buffer + 1
        finally:
            self.free.put(buffer)

    def taken(self):
        return self.free.get()


class BuffersPutBackEarly(Buffers):
    def __getitem__(self, index):
        buffer = self.free.get()
        self.free.put(buffer)
        buffer[:] = index
        return buffer + 1


class BuffersInSamples(Buffers):
    def __getitem__(self, index):
        buffer = self.free.get()
        buffer[:] = index
        self.free.put(buffer)
        return {"view": torch.from_numpy(buffer[2:])}


class DecodersOfAnotherQueue(Decoders):
    """Decoders of a queue that cannot be looked into."""

    def __init__(self, made_before=0):
        super().__init__()
        self.idle = queue.SimpleQueue()


class Ring(Log):
    """Samples in buffers that are used in turn, and used again too early by several threads."""

    def __init__(self, buffers=30):
        self.free = collections.deque(np.zeros(4) for _ in range(buffers))

    def __getitem__(self, index):
        buffer = self.free.popleft()
        np.copyto(buffer, index)
        self.free.append(buffer)
        return buffer


class Stack(Log):
    """Parts on a list, from which threads take what others put there."""

    def __getitem__(self, index):
        self.order.append(index)
        return self.order.pop()


class Refilled(Stack):
    def __getitem__(self, index):
        with contextlib.suppress(IndexError):
            self.order.pop()
        self.order.append(Counts())
        return self.order.pop().decoded


class Todo(Log):
    """Things to do, each for the thread that comes first."""

    def __init__(self):
        self.order = [Counts() for _ in range(100)]

    def __getitem__(self, index):
        return self.order.pop().decoded


class Parts(Todo):
    """Parts that one object puts on a list, and another one takes."""

    def __init__(self):
        self.order = []
        self.source = Source(self.order)

    def __getitem__(self, index):
        self.source[index]
        return self.order.pop().decoded


class Source:
    def __init__(self, order):
        self.order = order

    def __getitem__(self, index):
        self.order.append(Counts())


class Negatives(Log):
    """Samples with the number of another one, which depends on the order of the threads."""

    def __init__(self):
        self.bank = collections.deque((number, "other") for number in range(64))

    def __getitem__(self, index):
        other = self.bank.popleft()
        self.bank.append((index, "own"))
        return index, other


class FreeList(Log):
    """Objects of a list that is tested first:
    two threads see that one is left, and both take it.
    """

    def __getitem__(self, index):
        if self.order:
            self.order.pop()
        self.order.append(index)
        return index
