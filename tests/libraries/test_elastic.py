"""Other libraries' jobs in real ranks that go on in the middle
of an epoch with another number of ranks.

Each job stops in epoch 1. The next job, of more or fewer ranks, trains the rest of that epoch, and
then a whole one.
"""

import itertools

import pytest

from tests.libraries.resuming import SIZE, run_job

pytestmark = pytest.mark.slow

# Ranks and batch size of both jobs, and the number of steps of the first: the ranks together load
# another number of samples in a step, or the same number.
OTHER_STEPS = [(1, 2, 4, 2, 9), (2, 3, 3, 2, 4), (4, 2, 1, 2, 2)]
SAME_STEPS = [(1, 8, 4, 2, 3), (2, 6, 3, 4, 2), (4, 2, 1, 8, 3)]


def resume(library, folder, job, *way, status=0):
    """Return the records of all ranks of both jobs, and the output of the second."""
    ranks, size, others, other_size, steps = job
    pytest.importorskip(
        library, reason=f"{library} is not installed: run tests/libraries/run.py in this twin"
    )
    first, _ = run_job(library, ranks, folder, "first", size, steps, *way)
    second, output = run_job(library, others, folder, "second", other_size, 0, *way, status=status)
    assert sum(len(batch) for _, batch in first[0] if batch != "validated") >= steps * size
    return [*first, *second], output


def check_once(records, ranks, batch_size):
    """Check that each sample of epochs 1 and 2 was trained once, apart from the padding of *ranks*
    at their ends.
    """
    for epoch in 1, 2:
        batches = [
            batch for rank in records for at, batch in rank if at == epoch and batch != "validated"
        ]
        trained = list(itertools.chain(*batches))
        assert sorted(set(trained)) == list(range(SIZE))
        assert len(trained) - SIZE < ranks * batch_size


@pytest.mark.parametrize("job", OTHER_STEPS)
def test_with_lightning(job, tmp_path):
    records, _ = resume("lightning", tmp_path, job, "recipe")
    check_once(records, job[2], 1)
    for rank in records[job[0] :]:
        assert [epoch for epoch, batch in rank if batch == "validated"] in ([1, 2], [1, 1, 2, 2])


@pytest.mark.parametrize("job", SAME_STEPS)
def test_with_lightning_and_as_many_samples_a_step(job, tmp_path):
    records, _ = resume("lightning", tmp_path, job, "loader")
    check_once(records, job[2], 1)


@pytest.mark.parametrize("job", OTHER_STEPS)
def test_with_lightning_that_would_leave_out_batches(job, tmp_path):
    records, output = resume("lightning", tmp_path, job, "loader", status=1)
    assert "Lightning asks for len(loader) only once" in output
    assert len(records) == job[0]  # the ranks of the second job have ended at once


@pytest.mark.parametrize("job", OTHER_STEPS)
def test_with_accelerate(job, tmp_path):
    records, _ = resume("accelerate", tmp_path, job, "state")
    check_once(records, job[2], 1)


@pytest.mark.parametrize("job", SAME_STEPS)
def test_with_accelerate_that_skips_batches(job, tmp_path):
    records, _ = resume("accelerate", tmp_path, job, "skip")
    check_once(records, job[2], job[3])


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("both", "leave out 4 batches that were never trained"),
        ("prepared", "an epoch that 2 rank(s) share"),
    ],
)
def test_with_accelerate_that_would_lose_samples(way, message, tmp_path):
    _, output = resume("accelerate", tmp_path, (2, 2, 3, 2, 4), way, status=1)
    assert message in output


@pytest.mark.parametrize("job", SAME_STEPS)
def test_with_transformers(job, tmp_path):
    records, _ = resume("transformers", tmp_path, job)
    check_once(records, job[2], job[3])
