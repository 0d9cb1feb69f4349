"""A sample's random numbers, which depend on base seed,
epoch and key alone, and where sample_rng() answers.
"""

import collections
import gc
import random
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ftloader.current import enter_sample, sample_scope, this_thread
from ftloader.rng.sample import SampleRNG, sample_rng

patient = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

Epoch = collections.namedtuple("Epoch", ["base_seed", "number"])
FIRST = Epoch(base_seed=2**62 + 1, number=0)

seeds = st.integers(0, 2**63 - 1)
epochs = st.builds(Epoch, seeds, st.integers(0, 1000))
sample_keys = st.integers() | st.text() | st.tuples(st.integers(), st.integers())


@pytest.fixture(autouse=True)
def in_no_sample():
    this_thread.sample.leave()
    yield
    this_thread.sample.leave()


def draw():
    """Draw some numbers from each of the current sample's generators."""
    rng = sample_rng()
    return (
        rng.numpy.random(3).tolist(),
        torch.rand(3, generator=rng.torch).tolist(),
        [rng.python.random() for _ in range(3)],
        rng.seed,
    )


def draw_for(epoch, key):
    with sample_scope():
        enter_sample(epoch, key)
        return draw()


# What the numbers depend on


@patient
@given(epochs, st.lists(sample_keys, max_size=6), st.randoms(use_true_random=False))
def test_the_same_sample_has_the_same_numbers_in_any_thread_and_order(epoch, keys, shuffler):
    expected = {key: draw_for(epoch, key) for key in keys}
    shuffled = keys * 2
    shuffler.shuffle(shuffled)
    with ThreadPoolExecutor(3) as threads:
        for key, drawn in zip(
            shuffled, threads.map(lambda key: draw_for(epoch, key), shuffled), strict=True
        ):
            assert drawn == expected[key]


@patient
@given(st.tuples(epochs, sample_keys), st.tuples(epochs, sample_keys))
def test_different_samples_have_different_numbers(one, other):
    assume(one != other)
    for a, b in zip(draw_for(*one), draw_for(*other), strict=True):
        assert a != b


def test_neighbours_have_different_numbers():
    drawn = [
        draw_for(Epoch(seed, number), key)
        for seed in range(3)
        for number in range(3)
        for key in range(40)
    ]
    for stream in zip(*drawn, strict=True):
        assert len(set(map(str, stream))) == len(drawn)


def test_the_numbers_are_the_same_in_every_version():
    # Users rely on repeating a run: a change here is a breaking change.
    with sample_scope():
        enter_sample(Epoch(1234, 5), 678)
        rng = sample_rng()
        assert rng.seed == SEED
        assert rng.numpy.integers(2**32, size=3).tolist() == NUMPY
        assert torch.randint(2**16, (3,), generator=rng.torch).tolist() == TORCH
        assert [rng.python.getrandbits(32) for _ in range(3)] == PYTHON


SEED = 1242450042018555567
NUMPY = [3696447830, 737105155, 3147607081]
TORCH = [33926, 8769, 30818]
PYTHON = [2578669288, 3566655403, 2550720221]


@patient
@given(epochs, sample_keys, st.permutations(["numpy", "torch", "python"]))
def test_the_three_streams_are_independent_of_each_other(epoch, key, order):
    expected = draw_for(epoch, key)
    with sample_scope():
        enter_sample(epoch, key)
        for name in order:  # the order in which they are asked for
            getattr(sample_rng(), name)
        sample_rng().numpy.random(10)  # and how much the others have drawn
        assert torch.rand(3, generator=sample_rng().torch).tolist() == expected[1]
        assert [sample_rng().python.random() for _ in range(3)] == expected[2]


def test_children_of_the_numpy_generator_are_repeatable():
    def children():
        with sample_scope():
            enter_sample(FIRST, 1)
            return [child.random() for child in sample_rng().numpy.spawn(2)]

    first = children()
    assert first == children()
    assert first[0] != first[1]


def test_all_of_torchs_state_is_seeded():
    # manual_seed() takes 32 bits; NumPy's Mersenne Twister is the same algorithm.
    with sample_scope():
        enter_sample(FIRST, 1)
        generator = sample_rng().torch
    words = generator.get_state().numpy()[24 : 24 + 624 * 8].view(np.uint64)
    reference = np.random.MT19937()
    reference.state = {
        "bit_generator": "MT19937",
        "state": {"key": words.astype(np.uint32), "pos": 624},
    }
    expected = (reference.random_raw(2000) % 2**16).tolist()
    assert torch.randint(2**16, (2000,), generator=generator).tolist() == expected
    narrow = torch.Generator().manual_seed(generator.initial_seed() % 2**32)
    assert torch.randint(2**16, (2000,), generator=narrow).tolist() != expected


@pytest.mark.slow
def test_uniform_numbers_over_samples_are_uniform():
    # One number per sample, as augmentations draw: the seeds must not show in them.
    for stream in range(3):
        values = np.array([draw_for(FIRST, key)[stream][0] for key in range(2000)])
        counts, _ = np.histogram(values, bins=20, range=(0, 1))
        chi_squared = ((counts - 100) ** 2 / 100).sum()
        assert chi_squared < 60  # 19 degrees of freedom: p < 4e-6
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.12  # 5 standard deviations


# One sample, one set of generators


def test_within_a_sample_every_call_goes_on_with_the_same_generators():
    enter_sample(FIRST, 1)
    rng = sample_rng()
    assert isinstance(rng, SampleRNG)
    assert sample_rng() is rng
    assert sample_rng().numpy is rng.numpy
    assert sample_rng().torch is rng.torch
    assert sample_rng().python is rng.python
    assert isinstance(rng.numpy, np.random.Generator)
    assert isinstance(rng.torch, torch.Generator) and rng.torch.device.type == "cpu"
    assert isinstance(rng.python, random.Random)
    assert 0 <= rng.seed < 2**63


def test_a_sample_that_comes_twice_in_a_row_starts_over():
    # Sampling with replacement: which worker loads the second must make no difference.
    drawn = []
    for _ in range(2):
        enter_sample(FIRST, 5)
        drawn.append(draw())
    assert drawn[0] == drawn[1]


def test_the_global_generators_are_not_touched():
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    draw_for(FIRST, 1)
    assert random.getstate() == before[0]
    np.testing.assert_equal(np.random.get_state(), before[1])
    assert torch.equal(torch.get_rng_state(), before[2])


class Key:
    def __index__(self):
        return 1


def test_nothing_of_the_user_is_held_after_leaving():
    key = Key()
    enter_sample(FIRST, key)
    sample_rng().numpy.random()
    dead = weakref.ref(key)
    del key
    gc.collect()
    assert dead() is not None
    this_thread.sample.leave()
    gc.collect()
    assert dead() is None


# Where it answers


def test_outside_a_sample_the_error_says_what_to_do():
    with pytest.raises(RuntimeError, match="not loading a sample.*ftloader.DataLoader"):
        sample_rng()
    enter_sample(FIRST, 1)
    this_thread.sample.leave()
    with pytest.raises(RuntimeError, match="not loading a sample"):
        sample_rng()


def test_a_thread_of_the_dataset_is_in_no_sample_but_may_use_its_generators():
    enter_sample(FIRST, 1)
    rng = sample_rng()
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(RuntimeError, match="a thread that the dataset started itself"):
            threads.submit(sample_rng).result()
        number = threads.submit(lambda: rng.numpy.random()).result()
    enter_sample(FIRST, 1)
    assert number == sample_rng().numpy.random()


def test_threads_do_not_see_each_others_samples():
    both_in = threading.Barrier(2, timeout=60)

    def load(key):
        enter_sample(FIRST, key)
        both_in.wait()
        drawn = draw()
        both_in.wait()
        return drawn

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(load, [1, 2])) == [draw_for(FIRST, 1), draw_for(FIRST, 2)]


def test_a_key_without_stable_form_only_matters_where_numbers_are_drawn():
    enter_sample(FIRST, object())
    with pytest.raises(TypeError, match="no stable form"):
        sample_rng()
    enter_sample(FIRST, 1)
    sample_rng()


def test_loading_other_samples_inside_a_sample_leads_back_to_it():
    # A dataset that iterates a loader: the inner fetcher enters samples in the same thread.
    enter_sample(FIRST, "outer")
    outer = sample_rng()
    inner = Epoch(base_seed=9, number=3)
    with sample_scope():
        with pytest.raises(RuntimeError, match="not loading a sample"):
            sample_rng()  # between the samples, as in a collate function
        inside = []
        for key in (1, 2):
            enter_sample(inner, key)
            inside.append(draw())
        this_thread.sample.leave()
        with pytest.raises(RuntimeError, match="not loading a sample"):
            sample_rng()
    assert sample_rng() is outer
    assert inside == [draw_for(inner, 1), draw_for(inner, 2)]
    this_thread.sample.leave()
    enter_sample(FIRST, "outer")
    sample_rng().numpy.random()
    with sample_scope():
        enter_sample(inner, 1)
    later = sample_rng().numpy.random()
    enter_sample(FIRST, "outer")
    assert sample_rng().numpy.random(2)[1] == later


def test_an_exception_inside_leads_back_to_the_outer_sample():
    enter_sample(FIRST, "outer")
    outer = sample_rng()

    def fail(key):
        raise ValueError(key)

    with pytest.raises(ValueError, match="3"), sample_scope():
        enter_sample(FIRST, 3)
        fail(3)
    assert sample_rng() is outer


@pytest.mark.slow
def test_a_fork_inside_a_sample_does_not_repeat_its_numbers(run_program):
    status, out, err = run_program(
        """
        import os
        from types import SimpleNamespace
        from ftloader.current import enter_sample
        from ftloader.rng.sample import sample_rng
        enter_sample(SimpleNamespace(base_seed=1, number=0), 1)
        sample_rng()
        if os.fork():
            print(os.waitstatus_to_exitcode(os.wait()[1]), "parent", sample_rng().seed > 0)
        else:
            try:
                sample_rng()
            except RuntimeError as error:
                os._exit(7)
            os._exit(8)
        """
    )
    assert (status, out, err) == (0, "7 parent True\n", "")


# Cost


def test_entering_a_sample_allocates_nothing():
    keys = [object() for _ in range(1000)]

    def enter_all():
        for key in keys:
            enter_sample(FIRST, key)
        this_thread.sample.leave()

    enter_all()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        enter_all()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - before < 1000  # less than a byte per sample


def test_nothing_is_made_before_it_is_asked_for():
    enter_sample(FIRST, 1)
    references = sys.getrefcount(FIRST)
    rng = sample_rng()
    assert not vars(rng).keys() & {"numpy", "torch", "python"}
    assert sys.getrefcount(FIRST) == references  # seeded already: holds no epoch
