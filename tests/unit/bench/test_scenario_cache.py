"""A growing cache: a source that keeps to its rate,
the curves of real epochs, and nothing left behind.
"""

import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS, cache

SCENARIO = SCENARIOS["cache"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> list[str]:
    """Two files of three samples, each with its number in every byte."""
    directory = tmp_path_factory.mktemp("shards")
    for shard in range(2):
        content = b"".join(bytes([3 * shard + place]) * cache.SAMPLE_BYTES for place in range(3))
        (directory / str(shard)).write_bytes(content)
    return sorted(map(str, directory.iterdir()))


def test_the_source_keeps_to_its_rate(shards):
    source = cache.EndlessShards(shards)
    keys = [key for key, _ in zip(source.keys(), range(40), strict=False)]
    begin = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        samples = list(pool.map(source.read, keys))
    assert time.monotonic() - begin >= 0.99 * 39 * cache.SAMPLE_BYTES / cache.RATE
    assert samples == [bytes([number % 6]) * cache.SAMPLE_BYTES for number in range(40)]


@pytest.mark.parametrize("variant", ["loader-thread", "loader-process"])
@pytest.mark.slow
def test_epochs_of_what_is_there(shards, variant, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    began = time.monotonic()
    result = SCENARIO.measure(Task(SCENARIO, shards, variant, 2, 4, 2, 60, 2))
    seconds = time.monotonic() - began
    assert (result["batches"], result["samples"]) == (60, 240)
    assert result["metrics"]["gb_per_s"] > 240 * cache.SAMPLE_BYTES / seconds / 1e9
    assert (
        0 < result["metrics"]["time_to_first_batch"] < seconds
        and result["metrics"]["memory_mib"] > 50
    )
    curves = result["distributions"]
    (times,) = {tuple(curve["over"]["values"]) for curve in curves.values()}
    assert list(times) == sorted(times) and times[-1] < seconds
    sizes = curves["samples-of-an-epoch"]["values"]
    # It grows, to half of the budget at most.
    assert 4 <= sizes[0] <= sizes[-1] <= cache.BUDGET / 2 / cache.SAMPLE_BYTES
    fetched = sum(
        rate * length
        for rate, length in zip(
            curves["into-the-cache"]["values"],
            (b - a for a, b in zip((0, *times), times, strict=False)),
            strict=True,
        )
    )
    assert 0 < fetched < 1.1 * cache.RATE / 1e6 * times[-1]
    assert not list(tmp_path.iterdir())


def test_what_a_killed_trial_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, other = (tmp_path / f"{cache.PREFIX}{pid}-x" for pid in (ended.pid, os.getppid()))
    left.mkdir()
    other.mkdir()
    (left / "sample").write_bytes(b"x")
    cache._remove_left()
    assert list(tmp_path.iterdir()) == [other]


@pytest.mark.slow
def test_a_run(special, special_run):
    (trial,) = special("cache").rounds[0].trials
    assert trial.distributions["samples-of-an-epoch"].over.values
    assert "samples" in (special_run.directory / "report.html").read_text()
