"""Finding, checking and generating images."""

import io
import statistics
import subprocess
import sys

import pytest
from PIL import Image

from ftbench.data import images, synthesis


def ignore(_done: int, _total: int) -> None:
    pass


def test_generated_images_are_complete_and_reused(tmp_path, monkeypatch):
    monkeypatch.setenv("FT_BENCH_CACHE", str(tmp_path / "cache"))
    seen = []
    paths = images.default_images(lambda *progress: seen.append(progress), count=3)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert images.validate(paths, ignore) == 0
    with Image.open(paths[0]) as image:
        assert (image.size, image.format) == ((synthesis.WIDTH, synthesis.HEIGHT), "JPEG")
    before = [p.stat().st_mtime_ns for p in paths]
    assert images.default_images(ignore, count=3) == paths
    assert [p.stat().st_mtime_ns for p in paths] == before
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [paths[0].parent.name]


def test_generation_is_the_same_every_time(tmp_path, monkeypatch):
    contents = []
    for name in ("a", "b"):
        monkeypatch.setenv("FT_BENCH_CACHE", str(tmp_path / name))
        contents.append([p.read_bytes() for p in images.default_images(ignore, count=2)])
    assert contents[0] == contents[1]
    assert contents[0][0] != contents[0][1]


def test_interrupted_generation_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("FT_BENCH_CACHE", str(tmp_path))

    def interrupt(done: int, _total: int) -> None:
        if done == 2:
            raise InterruptedError("stop")

    with pytest.raises(images.ImageError):
        images.default_images(interrupt, count=6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_first_uses_at_once(tmp_path, environment):
    script = (
        "from ftbench.data import images; paths = images.default_images(lambda *_: None, count=8); "
        "print(images.validate(paths, lambda *_: None), len(paths))"
    )
    users = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "FT_BENCH_CACHE": str(tmp_path)},
        )
        for _ in range(2)
    ]
    assert [user.communicate()[0] for user in users] == ["0 8\n", "0 8\n"]
    assert len(list(tmp_path.iterdir())) == 1


def test_cache_that_lost_images_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FT_BENCH_CACHE", str(tmp_path))
    images.default_images(ignore, count=2)[0].unlink()
    with pytest.raises(images.ImageError, match="1 of 2 files: remove it"):
        images.default_images(ignore, count=2)


def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FT_BENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(images.ImageError, match="FT_BENCH_CACHE"):
        images.default_images(ignore, count=1)


def test_own_images_are_found_in_all_cases_and_folders(tmp_path):
    for name in ("b.JPG", "sub/a.jpeg", "c.jpg", "notes.txt", "d.PNG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    paths, found = images.own_images(tmp_path)
    assert [p.name for p in paths] == ["b.JPG", "c.jpg", "d.PNG", "a.jpeg"]
    assert found == 4


def test_no_more_of_the_users_images_than_stated(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "LIMIT_OF_OWN", 2)
    for name in "cab":
        (tmp_path / f"{name}.jpg").write_bytes(b"")
    paths, found = images.own_images(tmp_path)
    assert ([p.name for p in paths], found) == (["a.jpg", "b.jpg"], 3)


def test_other_sizes_and_modes_are_counted_not_refused(tmp_path):
    Image.new("L", (synthesis.WIDTH, synthesis.HEIGHT)).save(tmp_path / "grey.jpg")
    Image.new("CMYK", (30, 20)).save(tmp_path / "cmyk.jpg")
    Image.new("RGBA", (30, 20)).save(tmp_path / "alpha.png")
    assert images.validate(images.own_images(tmp_path)[0], ignore) == 2


@pytest.mark.parametrize("keep", [0.02, 0.5, 0.99])
def test_truncated_images_are_named(photos, tmp_path, keep):
    content = (photos / "0.jpg").read_bytes()
    (tmp_path / "whole.jpg").write_bytes(content)
    (tmp_path / "cut.jpg").write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(images.ImageError, match=r"1 of 2 images cannot be decoded:\n  .*cut\.jpg"):
        images.validate(images.own_images(tmp_path)[0], ignore)


@pytest.mark.slow
def test_generated_images_are_as_large_as_photographs_and_differ_as_much():
    # The photographs are the twelve of Debian's package mate-backgrounds 1.26.0-1 (mate/nature),
    # cut and resized to the scenario's size and saved with its JPEG settings. Their decoding time
    # was within 20% too. the mean, and the standard deviation of their sizes over their mean
    bits_per_pixel, spread = 1.963, 0.291
    sizes = []
    for number in range(24):
        buffer = io.BytesIO()
        synthesis.photograph(images.SEED + number).save(buffer, "JPEG", **synthesis.JPEG_SETTINGS)
        sizes.append(buffer.tell())
    mean = statistics.mean(sizes)
    assert 8 * mean / (synthesis.WIDTH * synthesis.HEIGHT) == pytest.approx(bits_per_pixel, rel=0.2)
    assert statistics.stdev(sizes) / mean > spread / 2
