"""decode.read_image(at_least=...): the pixels of Pillow's draft(),
at 1/2, 1/4 and 1/8 of a JPEG's size.
"""

import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from ftloader import decode
from ftloader.decode import pillow, turbojpeg
from tests.encoded_pictures import encoded, picture

USUAL = encoded(picture(160, 120), quality=90)
OTHERS = {
    "progressive": encoded(picture(160, 120), progressive=True),
    "CMYK": encoded(picture(160, 120, "CMYK")),
    "RGB, not YCbCr": encoded(picture(160, 120), keep_rgb=True),
    "restart markers": encoded(picture(161, 123), restart_marker_blocks=2),
    "two pictures": encoded(
        picture(160, 120), "MPO", save_all=True, append_images=[picture(160, 120, seed=1)]
    ),
    "PNG": encoded(picture(160, 120), "PNG"),
}


def reduced(data, at_least, mode="RGB"):
    """Return the pixels of Pillow's own way to read a reduced picture."""
    image = Image.open(io.BytesIO(data))
    image.draft(None, (at_least[1], at_least[0]))
    return np.array(image if mode is None else image.convert(mode))


SIDES = st.one_of(st.integers(1, 20), st.integers(1, 90))
OPTIONS = st.fixed_dictionaries(
    {"subsampling": st.sampled_from([0, 1, 2]), "quality": st.sampled_from([50, 95])}
)


USUAL_OPTIONS = {"subsampling": 0, "quality": 95}


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@example(3, 3, 1, 1, "RGB", "RGB", USUAL_OPTIONS)  # 5/8 of 3 pixels are 2, too
@example(5, 5, 1, 1, "RGB", "RGB", USUAL_OPTIONS)
@given(
    SIDES,
    SIDES,
    SIDES,
    SIDES,
    st.sampled_from(["RGB", "L"]),
    st.sampled_from(["RGB", "L", None]),
    OPTIONS,
)
def test_pixels_are_those_of_pillows_draft(width, height, rows, columns, stored, mode, options):
    data = encoded(picture(width, height, stored), **options)
    array = decode.read_image(data, mode, at_least=(rows, columns))
    assert np.array_equal(array, reduced(data, (rows, columns), mode))


@pytest.mark.parametrize("mode", ["RGB", "L", None, "CMYK"])
@pytest.mark.parametrize("name", OTHERS)
def test_kinds_of_files(name, mode):
    for at_least in ((120, 160), (60, 80), (30, 40), (15, 20), (1, 1)):
        assert np.array_equal(
            decode.read_image(OTHERS[name], mode, at_least=at_least),
            reduced(OTHERS[name], at_least, mode),
        )


@pytest.mark.parametrize(
    ("at_least", "shape"),
    [
        ((121, 160), (120, 160)),
        ((61, 80), (120, 160)),
        ((60, 80), (60, 80)),
        ((60, 1), (60, 80)),
        ((31, 40), (60, 80)),
        ((30, 40), (30, 40)),
        ((15, 20), (15, 20)),
        ((1, 1), (15, 20)),
        (np.array([15, 20], np.uint8), (15, 20)),
        ((10**30, 1), (120, 160)),
    ],
)
def test_libjpeg_turbo_decodes_the_smallest_that_suffices(at_least, shape):
    assert pillow._turbo, "install libturbojpeg0 (Ubuntu: libturbojpeg)"
    array, _ = pillow._turbo.decode(USUAL, "RGB", None, at_least)
    assert array.shape == (*shape, 3)
    assert decode.read_image(USUAL, at_least=at_least).shape == (*shape, 3)
    assert decode.read_image(encoded(picture(160, 120), "PNG"), at_least=at_least).shape == (
        120,
        160,
        3,
    )


def test_sides_are_rounded_up():
    data = encoded(picture(161, 123))
    shapes = [
        decode.read_image(data, at_least=size).shape[:2] for size in ((61, 80), (30, 40), (15, 20))
    ]
    assert shapes == [(62, 81), (31, 41), (16, 21)]


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(pillow, "_turbo", None)
    for at_least in ((60, 80), (30, 40), (15, 20)):
        assert np.array_equal(decode.read_image(USUAL, at_least=at_least), reduced(USUAL, at_least))


def test_a_size_whose_pixels_differ_is_left_to_pillow(monkeypatch):
    real = turbojpeg._scale
    monkeypatch.setattr(turbojpeg, "_scale", lambda *of: 8 if real(*of) == 4 else real(*of))
    assert turbojpeg.load().scales == 1 + 2 + 8
    monkeypatch.undo()
    library = turbojpeg.load()
    assert library.scales == 1 + 2 + 4 + 8
    library.scales = 1 + 2 + 8
    assert library.decode(USUAL, "RGB", None, (30, 40)) == (None, None)
    monkeypatch.setattr(pillow, "_turbo", library)
    assert np.array_equal(decode.read_image(USUAL, at_least=(30, 40)), reduced(USUAL, (30, 40)))


def test_into_out_and_for_a_batch():
    expected = reduced(USUAL, (60, 80))
    out = np.zeros((2, 60, 80, 3), np.uint8)
    first, second = decode.read_images([USUAL, USUAL], out=out, at_least=(60, 80))
    assert (
        np.shares_memory(first, out)
        and np.array_equal(first, expected)
        and np.array_equal(second, expected)
    )
    assert np.array_equal(decode.read_image(USUAL, out=np.empty, at_least=(60, 80)), expected)
    with pytest.raises(ValueError, match=r"the image has shape \(60, 80, 3\)"):
        decode.read_image(USUAL, out=np.zeros((120, 160, 3), np.uint8), at_least=(60, 80))
    assert np.array_equal(np.array(decode.read_pil(USUAL, at_least=(60, 80))), expected)


@pytest.mark.parametrize("cut", [300, -300, -2])
def test_a_truncated_jpeg_is_an_error(cut, monkeypatch):
    with pytest.raises(decode.DecodeError):
        decode.read_image(USUAL[:cut], at_least=(15, 20))
    if cut < 0:
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        assert np.array_equal(
            decode.read_image(USUAL[:cut], at_least=(15, 20)), reduced(USUAL[:cut], (15, 20))
        )


def test_the_guard_against_decompression_bombs_counts_all_pixels(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 160 * 120 // 2 - 1)
    with pytest.raises(decode.DecodeError, match="decompression bomb"):
        decode.read_image(USUAL, at_least=(15, 20))


@pytest.mark.parametrize("size", [(0, 5), (5, -1), (1.5, 2), (1,), (1, 2, 3), 5, "ab", (None, 3)])
def test_sizes_that_are_none(size):
    for call in (
        decode.read_image,
        decode.read_pil,
        lambda source, at_least: decode.read_images([source], at_least=at_least),
    ):
        with pytest.raises(
            ValueError, match=r"at_least must be two positive integers, \(height, width\), not"
        ):
            call(USUAL, at_least=size)


@pytest.mark.parametrize("where", [{"backend": "nvimgcodec"}, {"device": "cuda:0"}])
def test_other_backends_decode_whole_images(where):
    with pytest.raises(ValueError, match="only backend='pillow' on device='cpu' takes at_least"):
        decode.read_image(USUAL, at_least=(15, 20), **where)
