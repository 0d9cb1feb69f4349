"""`autotune`: the best number is judged without luck,
and each load runs with fixed numbers and with "auto".
"""

import time

import pytest

from evaluation.autotune import measure
from tests.encoded_pictures import encoded, picture


def test_the_best_of_equal_numbers_is_no_better_than_they_are():
    """The largest of noisy values of 100 would be 110."""
    rate, position = measure.best([100, 110, 90, 95], [98, 100, 110, 100])
    assert rate == pytest.approx((100 + 90) / 2)
    assert position == 0


@pytest.mark.parametrize(
    ("rates", "best", "position"),
    [
        ([10, 20, 39, 40, 40], 40, 2),
        ([10, 20, 40, 30, 20], 40, 2),
        ([40, 40], 40, 0),
        ([30, 37, 40], 40, 2),
    ],
)
def test_the_fewest_threads_that_are_good_enough(rates, best, position):
    assert measure.best(rates, rates) == (pytest.approx(best), position)


def test_delays_and_locks_are_real():
    began = time.perf_counter()
    measure.Remote(range(9), 0.05)[3]
    assert time.perf_counter() - began >= 0.05
    locked = measure.Remote(range(9), 0.0, lock=True)
    assert locked[3] == 3 and len(locked) == 9


@pytest.fixture
def hurried(monkeypatch):
    for name, value in {
        "NUMBERS": (1, 2),
        "SETTLED_BATCHES": 4,
        "SETTLED_SECONDS": 0.2,
        "WARM_SECONDS": 0.0,
        "TIMED_SECONDS": 0.05,
    }.items():
        monkeypatch.setattr(measure, name, value)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Paths of four JPEGs."""
    folder = tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.jpg" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(encoded(picture(640, 408, seed=number)))
    return [str(path) for path in paths]


@pytest.mark.parametrize("name", measure.LOADS)
def test_every_load(name, hurried, images, tmp_path):
    (tmp_path / "shard").write_bytes(bytes(8 << 20))
    files = {"images": images, "shards": [str(tmp_path / "shard")]}.get(
        measure.LOADS[name].source, []
    )
    result = measure.measure(name, files, 2)
    assert result.auto_rate > 0 and result.best_rate > 0
    assert result.auto_threads >= 1 and result.fewest_threads in (1, 2)
    assert measure.line(name, [result, result]).count(", ") >= 2
