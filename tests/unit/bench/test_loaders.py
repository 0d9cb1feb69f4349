"""Every variant gives the same samples in the same order, epoch after epoch."""

import importlib.util
import pickle
import threading

import numpy
import pytest
import torch
from torch.utils.data import default_collate

from ftbench.measure import checksums
from ftbench.measure.loaders import OPEN, BareLoop, open_loader
from ftbench.plan.candidates import VARIANTS
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.peers import Made
from ftbench.scenarios.pillow import PillowDataset
from tests.unit.bench.turns import task_of

MODULES = {"torchdata": "torchdata.nodes", "spdl-core": "spdl.pipeline"}
# Its worker processes are children of the test's process, and some peers end their threads late.


def available(variant: str) -> None:
    for package in VARIANTS[variant].packages:
        module = MODULES[package]
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"{package} is not installed here; it is in docker/requirements.lock")


# Processes that are not forked import what they unpickle,
# and no test's module can be imported there.
LOADING = [name for name in VARIANTS if not name.startswith("bare")]
# spdl-io takes only a dataset that decodes with it (test_spdl_io.py).
FROM_HERE = [
    name for name in LOADING if name not in ("loader-spawn", "loader-forkserver", "spdl-io")
]


class Numbers:
    """Sample i is an array of two i; one of them can be such that it cannot be loaded."""

    def __init__(self, bad: int = -1):
        self.bad = bad

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int):
        if index == self.bad:
            raise LookupError(f"no sample {index}")
        return numpy.full(2, index)


def test_every_variant_has_a_loader():
    assert set(OPEN) == set(LOADING)


@pytest.mark.parametrize("variant", [name for name in FROM_HERE if name != "loop"])
def test_batches_are_those_of_a_plain_loop(variant):
    available(variant)
    dataset = Made("overhead-tensor")
    with open_loader(task_of("peers-pillow-128", [], variant), dataset, persistent=True) as loader:
        for samples in (6, 21):
            # the second epoch is longer, with the same workers where they persist
            found = list(loader.epoch(samples))
            assert len(found) == samples // 3
            for number, batch in enumerate(found):
                expected = default_collate([dataset[i] for i in range(number * 3, number * 3 + 3)])
                assert batch.dtype == expected.dtype and torch.equal(batch, expected)
        (batch,) = loader.epoch(3, 6)
        assert torch.equal(batch, default_collate([dataset[i] for i in (6, 7, 8)]))


@pytest.mark.parametrize("variant", FROM_HERE)
@pytest.mark.slow(cases=1)
def test_pixels_are_the_same(variant, paths):
    available(variant)
    task = task_of("peers-pillow-128", paths, variant, batch_size=4)
    plain = PillowDataset(task.paths)
    batches = [numpy.stack([plain[i % 6] for i in range(start, start + 4)]) for start in (0, 4)]
    with open_loader(task, task.dataset(), persistent=False) as loader:
        first = next(epoch := loader.epoch(8))
        assert checksums.whole(first) == checksums.whole(torch.from_numpy(batches[0]))
        assert len(list(epoch)) == 1
        found = [checksums.part(batch) for batch in loader.epoch(8)]
    assert found == [checksums.part(torch.from_numpy(batch)) for batch in batches]
    assert found[0] != found[1]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("variant", FROM_HERE)
def test_an_epoch_can_be_left_at_its_first_batch(variant):
    """As the measurement of starting does; what was begun is ended
    by the time the loader is closed.
    """
    available(variant)
    with open_loader(
        task_of("peers-pillow-128", [], variant), Numbers(), persistent=False
    ) as loader:
        epoch = loader.epoch(30)
        assert len(next(epoch)) == 3
        del epoch
    with open_loader(
        task_of("peers-pillow-128", [], variant), Numbers(), persistent=False
    ) as loader:
        assert len(list(loader.epoch(30))) == 10


@pytest.mark.parametrize("variant", FROM_HERE)
def test_a_failing_sample_is_an_error_and_no_shorter_epoch(variant):
    available(variant)
    with open_loader(
        task_of("peers-pillow-128", [], variant), Numbers(bad=5), persistent=False
    ) as loader:
        epoch = loader.epoch(30)
        with pytest.raises(Exception):  # noqa: B017 (each loader wraps it in its own way)
            list(epoch)


def test_the_loop_keeps_the_first_batch_whole_and_rows_of_the_others():
    data = numpy.arange(300 * 2).reshape(1, 300, 2)
    loop = BareLoop(numpy.repeat(data, 5, axis=0), 2, 2)
    first, second = loop.epoch(4)
    assert [kept.shape for kept in first] == [(300, 2)] * 2
    assert [kept.shape for kept in second] == [(3, 2)] * 2
    (again,) = loop.epoch(2)
    assert [kept.shape for kept in again] == [(3, 2)] * 2
    loop.close()


def test_the_loops_threads_work_at_once_and_hand_over_in_order():
    both = threading.Barrier(2)

    class Meeting:
        """Two samples at a time, or none: they wait for each other."""

        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int):
            both.wait()
            return numpy.full(1, index)

    loop = BareLoop(Meeting(), 2, 2)
    assert [[int(kept[0]) for kept in batch] for batch in loop.epoch(10)] == [
        [i, i + 1] for i in range(0, 10, 2)
    ]
    loop.close()


def test_checksums_of_samples_are_those_of_their_batch():
    samples = [
        numpy.random.default_rng(i).integers(0, 255, (204, 3, 2), dtype=numpy.uint8)
        for i in range(3)
    ]
    batch = torch.from_numpy(numpy.stack(samples))
    assert checksums.whole(samples) == checksums.whole(batch)
    assert checksums.part(samples) == checksums.part(batch)
    assert checksums.part(checksums.CheckedRows(map(checksums.rows, samples))) == checksums.part(
        batch
    )
    assert checksums.part(torch.arange(9)) == checksums.whole(torch.arange(9))
    nested = {"image": batch, "others": [torch.arange(3), torch.arange(3)]}
    assert checksums.whole(nested) == checksums.whole(
        [batch.numpy(), numpy.arange(3), numpy.arange(3)]
    )
    assert checksums.part(nested) != checksums.part(
        {**nested, "others": [torch.arange(3), torch.ones(3)]}
    )
    assert [checksums.length(b) for b in (batch, samples, nested, list(nested.values())[1])] == [
        3
    ] * 4
    # A pixel in a row that is looked at changes it.
    samples[1][102, 0, 0] ^= 1
    assert checksums.part(torch.from_numpy(numpy.stack(samples))) != checksums.part(batch)


# Of those with cases, the tests of the scenarios themselves; a million names take long.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, s in SCENARIOS.items()
        if len(s.plan.cases) == 1
        and s.source in ("images", "nothing")
        and s.group == "peers"
        and name != "peers-memory"
    ]
    + ["pillow"],
)
def test_datasets_can_be_pickled(name, paths):
    """For start methods of processes other than fork."""
    dataset = task_of(name, paths, "torch-process").dataset()
    assert len(pickle.loads(pickle.dumps(dataset))) == len(dataset)
