"""A batch in the making, where other workers change what it reads, at the worst moment."""

import torch
from torch.utils.data import default_collate

from ftloader.assembly import Assembly, Builder, Mode
from ftloader.buffers import BufferPool
from ftloader.fetch import Epoch, Fetched
from ftloader.layout import Layout
from ftloader.on_error import ErrorPolicy

SAMPLES = [torch.full((100, 130), float(value)) for value in range(2)]


class AnotherFinishesABatch(Builder):
    """After every second look at ``expected`` another worker ends a batch that looks otherwise,
    and after the third one more."""

    looks = 0

    @property
    def expected(self):
        self.looks += 1
        return Layout.of(SAMPLES[0]) if self.looks % 3 else Mode.WHOLE

    @expected.setter
    def expected(self, value):
        pass


def test_what_batches_look_like_may_change_between_two_looks():
    for earlier_looks in range(3):
        builder = AnotherFinishesABatch(SAMPLES, default_collate, ErrorPolicy("raise"), 2, BufferPool(2), None)
        builder.looks = earlier_looks
        fetched = Assembly(builder, Epoch(), [0, 1]).build()
        assert isinstance(fetched, Fetched), fetched
        data = fetched.data
        batch = data if isinstance(data, torch.Tensor) else data.batch()
        assert torch.equal(batch, torch.stack(SAMPLES))
