"""PathTable: gives back what it was given, takes little memory and can be shared."""

import copy
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftloader.datasets import PathTable
from tests.in_threads import in_threads

# Every str, lone surrogates included: what os.fsdecode makes of names that are no valid UTF-8.
ANY_PATH = st.text(st.characters(codec=None), max_size=30) | st.text(
    "/ab.\udc80\udcff", max_size=12
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(ANY_PATH, st.integers(-(2**63), 2**63 - 1)), max_size=20))
@pytest.mark.slow
def test_gives_back_any_paths_and_class_numbers(pairs):
    table = PathTable([path for path, _ in pairs], [number for _, number in pairs])
    assert len(table) == len(pairs)
    assert [(table.path(i), int(table.class_ids[i])) for i in range(len(table))] == pairs
    for other in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table)):
        assert [(other.path(i), int(other.class_ids[i])) for i in range(len(other))] == pairs
        assert not other.class_ids.flags.writeable


@pytest.mark.parametrize("index", [-1, 2, 10**12])
def test_index_out_of_range(index):
    with pytest.raises(IndexError, match="of 2"):
        PathTable(["a", "b"], [0, 0]).path(index)


def test_as_many_classes_as_paths():
    with pytest.raises(ValueError, match="1 class numbers were given for 2 paths"):
        PathTable(["a", "b"], [1])


def test_content_cannot_be_changed():
    table = PathTable(["a", "b"], [3, 4])
    with pytest.raises(ValueError, match="read-only"):
        table.class_ids[0] = 1
    with pytest.raises(AttributeError):
        table.something = 1


@pytest.mark.slow
def test_many_names_take_little_memory():
    # Names as ImageNet's: 1,000 folders; a list of such pairs takes some 200 bytes for each.
    names = (
        f"/data/imagenet/train/n{i // 1000:08d}/n{i // 1000:08d}_{i % 1000}.JPEG"
        for i in range(200_000)
    )
    table = PathTable(names, (i // 1000 for i in range(200_000)))
    assert table.path(199_999) == "/data/imagenet/train/n00000199/n00000199_999.JPEG"
    assert len(pickle.dumps(table)) < 45 * len(table)


def test_many_threads_read_one_table():
    paths = [f"/d{i % 7}/f{i}" for i in range(500)]
    table = PathTable(paths, range(500))

    def read(shift):
        for i in ((k + shift) % 500 for k in range(2000)):
            assert table.path(i) == paths[i] and table.class_ids[i] == i

    in_threads(read, [shift * 31 for shift in range(8)])


@pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps_rollup"), reason="counts pages in /proc/self/smaps_rollup"
)
@pytest.mark.slow
def test_forked_processes_share_the_memory(run_program):
    """A child that reads every path dirties hardly any of the table's pages."""
    status, output, errors = run_program(
        """
        import gc, os, pickle
        from ftloader.datasets import PathTable

        def private_dirty():
            with open("/proc/self/smaps_rollup") as rollup:
                return next(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty")) * 1024

        count = 200_000
        paths = (f"/data/{i // 1000}/a-rather-long-name-of-an-image-file-{i}.jpeg" for i in range(count))
        table = PathTable(paths, range(count))
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            before = private_dirty()
            for i in range(count):
                table.path(i)
            print(private_dirty() - before, flush=True)
            print(len(pickle.dumps(table)), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        """
    )
    assert status == 0, errors
    grown, size = map(int, output.split())
    assert size > 10_000_000
    assert grown < size / 4


def test_class_numbers_are_an_int64_array():
    numbers = PathTable(["a"], [np.int32(5)]).class_ids
    assert numbers.dtype == np.int64
    assert numbers.shape == (1,)
