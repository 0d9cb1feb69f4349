"""Datasets that a function makes: the first load of a new one is tried too."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image

from ftsafety.audit import at_once
from ftsafety.audit.comparison import freeze
from ftsafety.audit.concurrent_loads import WAYS, Burst, Mismatch
from ftsafety.audit.samples import choose
from ftsafety.audit.serial import Serial
from tests.unit.safety.conftest import audit


class Opened:
    """Tiles of images that are opened when the dataset is made,
    and decoded when they are first used.
    """

    def __init__(self, folder):
        self.images = [Image.open(path) for path in sorted(folder.glob("*.png"))]

    def __len__(self):
        return 4 * len(self.images)

    def __getitem__(self, index):
        image, part = divmod(index, 4)
        return np.asarray(self.images[image].crop((64 * part, 0, 64 * part + 64, 256)))


@pytest.fixture
def folder(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    for number in range(3):
        Image.fromarray(pixels ^ number).save(tmp_path / f"{number}.png")
    return tmp_path


@pytest.mark.slow(cases=1)
@pytest.mark.slow
def test_images_opened_early_and_decoded_by_threads(folder):
    report = audit(lambda: Opened(folder), seconds=20, threads=8)
    assert not report.ok, str(report)
    kinds = {finding.kind for finding in report.findings}
    assert "decoded-late" in kinds and kinds & {"results-differ", "exception"}, str(report)
    assert not [text for text in report.cannot if "first load" in text]


def test_images_opened_early_in_a_dataset_that_is_given_as_an_object(folder):
    report = audit(Opened(folder), seconds=0.1, threads=2)
    (finding,) = [finding for finding in report.findings if finding.kind == "decoded-late"]
    assert (
        finding.level == "risk"
        and "dataset.images[0]" in finding.title
        and "load()" in finding.remedy
    )
    assert any("the dataset was given as an object" in text for text in report.cannot)


class Numbers:
    def __init__(self, offset=0):
        self.offset = offset

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([index + self.offset])


class Once:
    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        if self.made > 1:
            raise FileExistsError("cache is there")
        return Numbers()


offsets = itertools.count()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Numbers, ""),
        (Numbers(), "the dataset was given as an object"),
        (lambda: Numbers(next(offsets)), "made again, it gives other samples (index 0: "),
        (Once(), "cannot be made again and again (FileExistsError: cache is there)"),
    ],
    ids=["a class", "an object", "other samples", "only once"],
)
def test_what_is_made_again_and_what_cannot_be(make, words):
    report = audit(make, seconds=0.1, threads=2)
    assert report.ok, str(report)
    said = [text for text in report.cannot if "first load" in text]
    assert bool(said) == bool(words) and all(words in text for text in said), said


class FailsCold:
    """Bursts that fail if the dataset is cold: as at first,
    or warm in the last burst of the first look.
    """

    def __init__(self, serial, codes, ignored):
        self.number = 0

    def burst(self, way, seed, deadline):
        self.number += 1
        fails = way.cold or self.number == len(WAYS)
        return Burst(
            way,
            calls=2,
            rounds=1,
            mismatches=[Mismatch(0, freeze(1), "another number", way)] * fails,
        )


def test_the_second_look_tries_every_way_that_failed(monkeypatch):
    monkeypatch.setattr(at_once, "Burster", FailsCold)
    serial = Serial(choose([5], None, 1, 2, 0), patience=600.0)
    serial.alone(serial.passes)
    looks = at_once.AtOnce(serial, set(), seconds=0.0, seed=0, say=print)
    assert [finding.kind for finding in looks.run([])] == [
        "results-differ"
    ] and not looks.unconfirmed
