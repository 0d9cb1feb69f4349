"""A batch in the making, where other workers change what it reads, at the worst moment."""

class Huge:
    """Samples that take no memory, and batches for which there are no addresses."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.zeros(1).expand(2**44)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_that_there_is_no_memory_for_is_no_samples_fault(on_error):
    with pytest.raises(RuntimeError) as torchs:
        next(iter(TorchDataLoader(Huge(), batch_size=8)))
    loader = DataLoader(Huge(), batch_size=8, num_workers=2, worker_method="thread", on_error=on_error)
    with pytest.raises(RuntimeError) as ours:
        next(iter(loader))
    asked_for = f"you tried to allocate {8 * 2**46} bytes"
    assert asked_for in str(torchs.value) and asked_for in str(ours.value)
    allocation, batch = ours.value.__notes__
    assert allocation == f"raised in allocating {2**46} bytes for each of 8 samples"
    assert "building batch 0" in batch
    assert loader.skipped.count == 0


def test_no_sample_is_loaded_for_a_batch_that_there_is_no_memory_for():
    loaded = []

    class Counting(Huge):
        def __getitem__(self, index):
            loaded.append(index)
            return super().__getitem__(index)

    builder = Builder(Counting(), default_collate, ErrorPolicy("raise"), 2, BufferPool(2), None)
    builder.expected = Layout.of(Huge()[0])
    outcome = Assembly(builder, Epoch(), [*range(8)]).build()
    assert isinstance(outcome, Failure) and "can't allocate memory" in str(outcome.exception)
    assert loaded == []
