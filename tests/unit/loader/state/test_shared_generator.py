"""Several loaders that draw from one generator: resumed together,
they go on as if never interrupted.
"""

import copy
import itertools

import pytest
import torch
from torch.utils.data import RandomSampler, Sampler

from ftloader import DataLoader
from tests.datasets import seeded
from tests.unit.loader.state.resuming import NOISY, WAYS, contents, plain

EACH_WAY = ["serial", "threads", "processes"]


class Drawing(Sampler):
    """Sampler that draws as it yields."""

    def __init__(self, generator):
        self.generator = generator

    def __iter__(self):
        for _ in range(70):
            yield int(torch.randint(23, (), generator=self.generator))


class Job:
    """A training and a validation loader, and a log of the batches that they gave."""

    def __init__(self, way, generator, train_sampler=None, val_sampler=None):
        self.generator = generator

        def make(sampler, **arguments):
            arguments |= {} if sampler is None else {"sampler": sampler(generator), "shuffle": None}
            return DataLoader(NOISY, 4, generator=generator, **arguments, **WAYS[way])

        self.loaders = {
            "train": make(train_sampler, shuffle=True),
            "val": make(val_sampler, shuffle=False),
        }
        self.iterators = dict.fromkeys(self.loaders)
        self.log = []

    def run(self, events):
        """Read batches; each event is a loader's name and a number of batches,
        None for the rest of the epoch.
        """
        for name, batches in events:
            if self.iterators[name] is None:
                self.iterators[name] = iter(self.loaders[name])
            given = contents(itertools.islice(self.iterators[name], batches))
            if batches is None:
                self.iterators[name] = None
            self.log.append((name, given))

    def save(self):
        return {name: copy.deepcopy(loader.state_dict()) for name, loader in self.loaders.items()}

    def load(self, states, order):
        for name in order:
            self.loaders[name].load_state_dict(states[name])


EPOCH = [("train", None), ("val", None)]
CASES = {
    "train stopped": ([*EPOCH, ("train", 2)], [*EPOCH, *EPOCH]),
    "train stopped, after a validation": (
        [("train", 1), ("val", None), ("train", 1), ("val", None)],
        [("val", None), ("train", 1), ("val", None), *EPOCH, *EPOCH],
    ),
    "validation stopped": ([*EPOCH, ("train", None), ("val", 3)], [("val", None), *EPOCH, *EPOCH]),
    "both stopped": ([*EPOCH, ("val", 2), ("train", 3)], [*EPOCH, *EPOCH]),
    "between two epochs": (EPOCH, [*EPOCH, *EPOCH]),
    "before the first": ([], [*EPOCH, *EPOCH]),
    "all given": ([("train", 6)], [*EPOCH, *EPOCH]),
}


@pytest.mark.parametrize(
    ("way", "case"),
    [(way, case) for way in ("serial", "threads") for case in CASES]
    + [("processes", case) for case in [*CASES][:2]],
)
@pytest.mark.slow(cases=1)
def test_all_that_follows_is_the_same(way, case):
    before, after = CASES[case]
    job = Job(way, seeded(1))
    job.run(before)
    states, noted = job.save(), len(job.log)
    job.run(after)

    for order in (("train", "val"), ("val", "train")):
        other = Job(way, seeded(2))
        other.load(states, order)
        other.run(after)
        assert other.log == job.log[noted:]
        assert torch.equal(other.generator.get_state(), job.generator.get_state())


SAMPLERS = [
    Drawing,
    lambda generator: RandomSampler(
        range(23), replacement=True, num_samples=70, generator=generator
    ),
]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("way", EACH_WAY[:2])
def test_samplers_that_draw_as_they_yield(way, sampler):
    # What each draws from here on depends on when the other does.
    after = [
        ("train", 2),
        ("val", 1),
        ("train", 1),
        ("val", 1),
        ("train", 1),
        ("val", None),
        *EPOCH,
    ]
    job = Job(way, seeded(1), sampler)
    job.run([*EPOCH, ("train", 2)])
    states, noted = job.save(), len(job.log)
    job.run(after)

    other = Job(way, seeded(2), sampler)
    other.load(states, ("val", "train"))
    other.run(after)
    assert other.log == job.log[noted:]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("way", EACH_WAY[:2])
def test_samplers_whose_draws_another_loader_came_between_are_refused(way, sampler):
    job = Job(way, seeded(1), sampler)
    job.run([("train", 1), ("val", None), ("train", 9)])
    states = job.save()
    other = Job(way, seeded(2), sampler)
    other.load(states, ("train", "val"))
    with pytest.raises(ValueError, match="consists of other samples"):
        other.run([("train", 1)])


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_saved_again_before_the_other_loader_went_on(way):
    job = Job(way, seeded(1))
    job.run([*EPOCH, ("train", 1)])
    states = job.save()
    job.run([("train", 2)])
    noted = len(job.log)
    job.run([*EPOCH, *EPOCH])

    other = Job(way, seeded(2))
    other.load(states, ("train", "val"))
    other.run([("train", 2)])
    states = other.save()  # of the validation's loader what was loaded, and not used yet
    another = Job(way, seeded(3))
    another.load(states, ("train", "val"))
    another.run([*EPOCH, *EPOCH])
    assert another.log == job.log[noted:]


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_the_programs_own_generator_once_the_program_has_put_it_back(way):
    def train(job, iterator):
        for batch in iterator:
            job.log.append((plain(batch), torch.rand(1).item()))
        job.log.append(contents(job.loaders["val"]))

    def go_on(job, iterator):
        job.log.clear()
        train(job, iterator)
        for _ in range(2):
            train(job, job.loaders["train"])
        return job.log

    torch.manual_seed(1)
    job = Job(way, None)
    train(job, job.loaders["train"])
    iterator = iter(job.loaders["train"])
    for _ in range(2):
        next(iterator)
        torch.rand(1)
    states, rng = job.save(), torch.get_rng_state()
    expected = go_on(job, iterator)

    torch.manual_seed(2)
    torch.set_rng_state(rng)
    other = Job(way, None)
    other.load(states, ("val", "train"))
    assert go_on(other, other.loaders["train"]) == expected
