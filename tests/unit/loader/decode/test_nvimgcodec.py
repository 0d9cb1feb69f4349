"""Decoding with nvImageCodec's CPU backend: pixels, errors, threads."""

import os
import sys
import sysconfig
import threading

import numpy as np
import pytest
from PIL import Image

from ftloader import decode
from ftloader.decode import nvimgcodec
from tests.encoded_pictures import encoded, picture, plain
from tests.in_threads import in_threads

pytest.importorskip("nvidia.nvimgcodec")


def smooth(mode="RGB"):
    return picture(90, 61, mode, seed=5, sharp=False)


exif = Image.Exif()
exif[0x0112] = 6
FILES = {
    "4:2:0": encoded(smooth(), quality=60),
    "4:2:2": encoded(smooth(), subsampling=1),
    "4:4:4": encoded(smooth(), subsampling=0, quality=98),
    "progressive": encoded(smooth(), progressive=True),
    "gray": encoded(smooth(mode="L")),
    "CMYK": encoded(smooth(mode="CMYK")),
    "turned by EXIF": encoded(smooth(), exif=exif),
    "PNG": encoded(smooth(), "PNG"),
    "PNG with alpha": encoded(smooth(mode="RGBA"), "PNG"),
    "palette PNG": encoded(smooth().quantize(16), "PNG"),
    "WebP": encoded(smooth(), "WEBP", lossless=True),
    "TIFF": encoded(smooth(), "TIFF"),
    "BMP": encoded(smooth(), "BMP"),
}


@pytest.mark.parametrize("name", FILES)
def test_rgb_pixels_are_pillows(name):
    array = decode.read_image(FILES[name], backend="nvimgcodec")
    assert np.array_equal(array, plain(FILES[name]))
    assert array.dtype == np.uint8
    assert array.flags.writeable


@pytest.mark.parametrize("name", ["gray", "4:4:4", "PNG"])
def test_gray_pixels_are_near_pillows(name):
    array = decode.read_image(FILES[name], "L", backend="nvimgcodec")
    expected = plain(FILES[name], "L")
    assert array.shape == expected.shape
    difference = np.abs(array.astype(int) - expected)
    assert difference.max() <= {"gray": 0, "4:4:4": 16, "PNG": 1}[name]
    assert difference.mean() < 1


def test_a_batch_keeps_its_order():
    names = list(FILES) * 2
    arrays = decode.read_images([FILES[name] for name in names], backend="nvimgcodec")
    for name, array in zip(names, arrays, strict=True):
        assert np.array_equal(array, plain(FILES[name]))


def test_the_pixels_stay_when_others_are_decoded():
    first = decode.read_image(FILES["4:2:0"], backend="nvimgcodec")
    kept = first.copy()
    for _ in range(10):
        decode.read_image(FILES["PNG"], backend="nvimgcodec")
    assert np.array_equal(first, kept)


@pytest.mark.parametrize("data", [b"", b"no image", FILES["4:2:0"][:60], FILES["4:2:0"][:-200]])
def test_what_it_cannot_decode_is_named(tmp_path, data):
    path = tmp_path / "bad.jpg"
    path.write_bytes(data)
    with pytest.raises(decode.DecodeError, match=r"bad\.jpg") as caught:
        decode.read_image(path, backend="nvimgcodec")
    assert caught.value.path == str(path)


def test_several_bad_images_in_a_batch_are_counted():
    sources = [FILES["gray"], b"bad", FILES["PNG"], b"worse", b"no"]
    with pytest.raises(decode.DecodeError, match="an image of 3 bytes") as caught:
        decode.read_images(sources, backend="nvimgcodec")
    assert caught.value.__notes__ == [
        (
            "3 images of this batch failed, also: an image of 5 bytes in memory, an image of 2 "
            "bytes in memory"
        )
    ]


def test_modes_that_it_does_not_give():
    for mode in ("RGBA", None, "XYZ"):
        with pytest.raises(ValueError, match="backend='pillow' for others"):
            decode.read_image(FILES["PNG"], mode, backend="nvimgcodec")


def test_a_decoder_a_thread():
    decoders = []

    def read(_=None):
        decode.read_image(FILES["gray"], backend="nvimgcodec")
        first = nvimgcodec._decoder()
        decode.read_image(FILES["gray"], backend="nvimgcodec")
        assert nvimgcodec._decoder() is first
        decoders.append(first)

    in_threads(read, range(3))
    read()
    assert len({id(decoder) for decoder in decoders}) == 4


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/task"), reason="counts threads in /proc/self/task"
)
def test_no_thread_of_the_library_outlives_ours():
    decode.read_image(FILES["gray"], backend="nvimgcodec")
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        thread = threading.Thread(
            target=decode.read_images,
            args=([FILES["gray"]] * 20,),
            kwargs={"backend": "nvimgcodec"},
        )
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/task")) <= before


def test_the_gil_stays_off():
    if not sysconfig.get_config_var("Py_GIL_DISABLED") or os.environ.get("PYTHON_GIL") == "1":
        pytest.skip("this interpreter runs with the GIL")
    decode.read_image(FILES["gray"], backend="nvimgcodec")
    assert not sys._is_gil_enabled()
