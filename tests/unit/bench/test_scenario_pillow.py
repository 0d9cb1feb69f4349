"""The three cases of `pillow`: their pixels, who takes part,
and that threads and processes do the same work.
"""

import numpy
import pytest
from PIL import Image

from ftbench.measure import epochs
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.pillow import GRID, HEIGHT, SIDE, WIDTH
from tests.unit.bench.turns import task_of, without_pause

SCENARIO = SCENARIOS["pillow"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory, photos):
    """Images that are not as the generated ones: another size,
    grayscale, a palette with few colours, alpha.
    """
    directory = tmp_path_factory.mktemp("odd")
    with Image.open(next(photos.iterdir())) as photo:
        photo.resize((301, 199)).save(directory / "0.jpg")
        photo.convert("L").save(directory / "1.jpg")
        photo.quantize(16).save(directory / "2.png")
        photo.convert("RGBA").save(directory / "3.png")
    return sorted(map(str, directory.iterdir()))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.slow(cases=1)
def test_pixels_of_every_case(own, paths, odd):
    paths = odd if own else paths
    whole, some, resized = (
        task_of("pillow", paths, case=case.name).dataset() for case in SCENARIO.plan.cases
    )
    for index, path in enumerate(paths):
        with Image.open(path) as file:
            image = file.convert("RGB")
        assert whole[index].shape == (HEIGHT, WIDTH, 3) and whole[index].dtype == numpy.uint8
        if image.size == (WIDTH, HEIGHT):
            assert numpy.array_equal(whole[index], numpy.asarray(image))
        # In the middle of each of 8x8 fields; nothing is interpolated.
        rows = (numpy.arange(GRID) + 0.5) * image.height / GRID
        columns = (numpy.arange(GRID) + 0.5) * image.width / GRID
        assert numpy.array_equal(
            some[index], numpy.asarray(image)[rows.astype(int)][:, columns.astype(int)]
        )
        expected = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        assert numpy.array_equal(resized[index], numpy.asarray(expected))


@pytest.mark.parametrize("case", [case.name for case in SCENARIO.plan.cases])
def test_a_sample_has_the_bytes_that_batches_are_sized_by(case, paths):
    dataset = task_of("pillow", paths, case=case).dataset()
    assert dataset[0].nbytes == (SCENARIO.case(case).sample_bytes or SCENARIO.sample_bytes)


def test_a_truncated_image_is_an_error_in_every_case(photos, tmp_path):
    path = tmp_path / "cut.jpg"
    path.write_bytes(next(photos.iterdir()).read_bytes()[:20_000])
    for case in SCENARIO.plan.cases:
        with pytest.raises(OSError, match="truncated"):
            task_of("pillow", [str(path)], case=case.name).dataset()[0]


@pytest.mark.parametrize("case", [case.name for case in SCENARIO.plan.cases])
@pytest.mark.slow
def test_threads_and_processes_do_the_same_work(case, paths):
    tasks = (
        task_of("pillow", paths, variant, case) for variant in ("loader-thread", "loader-process")
    )
    a, b = (without_pause(epochs.measure(task)) for task in tasks)
    assert (a["first_batch"], a["rows"]) == (b["first_batch"], b["rows"])
    assert len(set(a["rows"])) == 2  # six photos are two batches of three, which come round again
