"""decode.read_image: Pillow's pixels, for whole, odd and damaged files."""

import io
import random
import sys
import types
import warnings

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from ftloader import DataLoader, decode, empty_sample
from ftloader.decode import backends, pillow, turbojpeg
from tests.datasets import Rows
from tests.encoded_pictures import encoded, picture, plain


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


JPEGS = {
    "usual": encoded(picture(), quality=90),
    "4:4:4": encoded(picture(), subsampling=0),
    "4:2:2": encoded(picture(), subsampling=1),
    "odd size": encoded(picture(33, 17)),
    "one pixel": encoded(picture(1, 1)),
    "one line": encoded(picture(5000, 1)),
    "larger than a piece": encoded(picture(700, 500)),
    "optimized": encoded(picture(), optimize=True),
    "restart markers": encoded(picture(), restart_marker_blocks=2),
    "gray": encoded(picture(mode="L")),
    "RGB, not YCbCr": encoded(picture(), keep_rgb=True),
    "EXIF, comment, profile": encoded(
        picture(), exif=turned(), comment=b"text", icc_profile=b"p" * 90_000
    ),
}
OTHERS = {
    "progressive JPEG": encoded(picture(), progressive=True),
    "CMYK JPEG": encoded(picture(mode="CMYK")),
    "PNG": encoded(picture(), "PNG"),
    "PNG with alpha": encoded(picture(mode="RGBA"), "PNG"),
    "gray PNG with alpha": encoded(picture(mode="LA"), "PNG"),
    "palette PNG": encoded(picture().quantize(16), "PNG"),
    "palette PNG with transparency": encoded(picture().quantize(16), "PNG", transparency=3),
    "1-bit PNG": encoded(picture(mode="1"), "PNG"),
    "16-bit PNG": encoded(
        Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50), "PNG"
    ),
    "WebP": encoded(picture(), "WEBP", lossless=True),
    "TIFF": encoded(picture(), "TIFF"),
    "float TIFF": encoded(
        Image.fromarray(np.linspace(-9, 300, 1200, dtype=np.float32).reshape(30, 40)), "TIFF"
    ),
    "BMP": encoded(picture(), "BMP"),
    "GIF": encoded(picture(), "GIF"),
    "animated GIF": encoded(picture(), "GIF", save_all=True, append_images=[picture(seed=1)]),
    "JPEG 2000": encoded(picture(), "JPEG2000"),
    "TGA": encoded(picture(), "TGA"),
}
EVERYTHING = JPEGS | OTHERS


@pytest.mark.parametrize("mode", ["RGB", "L", None, "RGBA", "CMYK", "YCbCr", "1", "F", "HSV"])
@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.slow(cases=60)
def test_pixels_are_pillows(name, mode):
    data = EVERYTHING[name]
    expected = plain(data, mode)
    array = decode.read_image(data, mode)
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert np.array_equal(array, expected)
    assert array.flags.writeable


@pytest.mark.parametrize("name", JPEGS)
def test_jpegs_are_decoded_by_libjpeg_turbo(name):
    assert pillow._turbo, "install libturbojpeg0 (Ubuntu: libturbojpeg)"
    array, _ = pillow._turbo.decode(JPEGS[name], "RGB", None)
    assert np.array_equal(array, plain(JPEGS[name]))


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_left_to_pillow(name):
    assert pillow._turbo.decode(OTHERS[name], "RGB", None) == (None, None)


def test_every_file_is_right_without_the_library(monkeypatch):
    monkeypatch.setattr(pillow, "_turbo", None)
    for data in EVERYTHING.values():
        assert np.array_equal(decode.read_image(data), plain(data))


@pytest.mark.parametrize("name", ["no-such-library.so", "libc.so.6"])
def test_a_library_that_is_not_there_or_another(monkeypatch, name):
    monkeypatch.setattr(turbojpeg.TurboJpeg.__init__, "__defaults__", (name,))
    assert turbojpeg.load() is None


def test_a_library_whose_pixels_differ_is_not_used(monkeypatch):
    real = turbojpeg.TurboJpeg.decode
    monkeypatch.setattr(turbojpeg.TurboJpeg, "decode", lambda *of: (real(*of)[0] ^ 1, None))
    assert turbojpeg.load() is None


def without(data, marker):
    """Return the JPEG *data* without its segments of this kind."""
    kept, at = data[:2], 2
    while data[at + 1] != 0xDA:
        following = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        kept += b"" if data[at + 1] == marker else data[at:following]
        at = following
    return kept + data[at:]


def test_no_image_is_decoded_with_the_tables_of_another():
    """Frames of Motion-JPEG have no Huffman tables: libjpeg then takes the usual ones."""
    for other in (encoded(picture(8, 8), quality=20), encoded(picture(8, 8), optimize=True)):
        assert decode.read_image(other).shape == (8, 8, 3)
        with pytest.raises(decode.DecodeError):
            decode.read_image(without(JPEGS["usual"], 0xDB))
        frame = without(JPEGS["usual"], 0xC4)
        assert np.array_equal(decode.read_image(frame), plain(JPEGS["usual"]))


def test_a_function_for_out_may_decode_too():
    """Also a damaged image."""

    def out(shape, dtype):
        with pytest.raises(decode.DecodeError):
            decode.read_image(JPEGS["gray"][:-50])
        return np.empty(shape, dtype)

    for name in ("usual", "gray"):
        assert np.array_equal(decode.read_image(JPEGS[name], out=out), plain(JPEGS[name]))


def test_images_of_many_sizes_in_one_thread():
    choice = random.Random(1)
    for seed in range(60):
        image = picture(
            choice.randint(1, 300), choice.randint(1, 300), choice.choice(["RGB", "L"]), seed
        )
        data = encoded(image)
        for mode in ("RGB", "L"):
            assert np.array_equal(decode.read_image(data, mode), plain(data, mode))


@pytest.mark.parametrize("name", ["usual", "gray"])
def test_a_file_with_a_warning_is_decoded_by_pillow_into_the_same_array(name):
    """libjpeg-turbo and Pillow may both have begun with it,
    and a slot of a batch can be asked for only once.
    """
    data = JPEGS[name][:-2] + b"junk" + JPEGS[name][-2:]
    asked = []
    array = decode.read_image(data, out=lambda *of: asked.append(np.empty(*of)) or asked[-1])
    assert len(asked) == 1 and array is asked[0] and np.array_equal(array, plain(data))


@pytest.mark.slow
def test_damaged_files_end_as_with_pillow():
    """Random damage: the same pixels as Pillow's, or an error where Pillow has one."""
    choice = random.Random(7)
    seeds = [*JPEGS.values(), OTHERS["CMYK JPEG"], OTHERS["PNG"]]
    seeds = [data for data in seeds if len(data) < 10_000]
    ends = {"error": 0, "pixels": 0, "fast": 0}
    for _ in range(1500):
        data = bytearray(choice.choice(seeds))
        for _ in range(choice.choice((1, 1, 2, 5))):
            at = choice.randrange(min(len(data), choice.choice((700, 10_000))))
            what = choice.random()
            if what < 0.6:
                data[at] = choice.randrange(256)
            elif what < 0.75:
                del data[at : at + choice.choice((1, 2, 100))]
            elif what < 0.9:
                data[at:at] = choice.randbytes(choice.choice((1, 2, 10)))
            else:
                del data[at + 1 :]
        data = bytes(data)
        mode = choice.choice(("RGB", "L"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = plain(data, mode)
            except Exception:
                with pytest.raises(decode.DecodeError):
                    decode.read_image(data, mode)
                ends["error"] += 1
                continue
            assert np.array_equal(decode.read_image(data, mode), expected)
        ends["pixels"] += 1
        ends["fast"] += pillow._turbo.decode(data, mode, None)[0] is not None
    assert min(ends.values()) > 100, ends


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 10, 300, -700, -2])
def test_a_truncated_jpeg_is_an_error(cut):
    data = JPEGS["larger than a piece"]
    with pytest.raises(decode.DecodeError):
        decode.read_image(data[:cut])


def test_pillows_switch_for_truncated_files_is_honoured(monkeypatch):
    data = JPEGS["larger than a piece"][:5000]
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert np.array_equal(decode.read_image(data), plain(data))


def test_pillows_guard_against_decompression_bombs(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    with pytest.raises(decode.DecodeError, match="decompression bomb") as caught:
        decode.read_image(JPEGS["gray"])
    assert isinstance(caught.value.__cause__, Image.DecompressionBombError)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.warns(Image.DecompressionBombWarning):
        decode.read_image(JPEGS["gray"])


def test_every_kind_of_source(tmp_path):
    path = tmp_path / "x.jpg"
    data = JPEGS["usual"]
    path.write_bytes(data)
    expected = plain(data)
    sources = [str(path), path, data, bytearray(data), memoryview(data), io.BytesIO(data)]
    for source in sources:
        assert np.array_equal(decode.read_image(source), expected)
    with path.open("rb") as file:
        assert np.array_equal(decode.read_image(file), expected)
    assert all(np.array_equal(array, expected) for array in decode.read_images([str(path), data]))


def test_sources_that_are_none(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("text")
    with pytest.raises(TypeError, match="not as int"):
        decode.read_image(3)
    with path.open() as file, pytest.raises(TypeError, match="binary mode"):
        decode.read_image(file)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "RGB") for name in ("usual", "gray", "PNG", "CMYK JPEG")), ("16-bit PNG", None)],
)
def test_out_is_written_and_returned(name, mode):
    expected = plain(EVERYTHING[name], mode)
    out = np.full_like(expected, 99)
    assert decode.read_image(EVERYTHING[name], mode, out=out) is out
    assert np.array_equal(out, expected)


def test_out_may_lie_anywhere_in_memory():
    for data in (JPEGS["usual"], JPEGS["gray"], OTHERS["PNG"], OTHERS["16-bit PNG"]):
        planes = torch.full((3, 30, 40), 7, dtype=torch.uint8)
        out = planes.permute(1, 2, 0).numpy()
        assert not out.flags.c_contiguous
        decode.read_image(data, out=out)
        assert np.array_equal(planes.numpy().transpose(1, 2, 0), plain(data))


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.zeros((30, 40), np.uint8), ValueError, r"shape \(30, 40\).*shape \(30, 40, 3\)"),
        (np.zeros((40, 30, 3), np.uint8), ValueError, "shape"),
        (np.zeros((30, 40, 3), np.int8), ValueError, "int8"),
        (np.broadcast_to(np.uint8(0), (30, 40, 3)), ValueError, "read-only"),
        (torch.zeros((30, 40, 3), dtype=torch.uint8), TypeError, "numpy"),
    ],
)
@pytest.mark.parametrize("name", ["usual", "PNG"])
def test_out_that_does_not_fit(name, out, error, words):
    with pytest.raises(error, match=words) as caught:
        decode.read_image(EVERYTHING[name], out=out)
    assert not isinstance(caught.value, decode.DecodeError)


@pytest.fixture(params=["pillow", "nvimgcodec"])
def backend(request):
    if request.param == "nvimgcodec":
        pytest.importorskip("nvidia.nvimgcodec")
    return request.param


def test_out_may_be_a_function(backend):
    asked = []

    def give(shape, dtype):
        asked.append((shape, np.dtype(dtype), np.full(shape, 9, dtype)))
        return asked[-1][-1]

    sources = [JPEGS["usual"], JPEGS["odd size"], JPEGS["gray"], OTHERS["PNG"]]
    arrays = [decode.read_image(source, backend=backend, out=give) for source in sources]
    arrays += decode.read_images(sources, backend=backend, out=give)
    assert len(asked) == 8
    for array, source, (shape, dtype, given) in zip(arrays, sources * 2, asked, strict=True):
        assert array is given
        assert np.array_equal(array, plain(source))
        assert (shape, dtype) == (array.shape, np.uint8)
    with pytest.raises(ValueError, match="the image has shape"):
        decode.read_image(
            JPEGS["usual"], backend=backend, out=lambda shape, dtype: np.empty((1, 2, 3), dtype)
        )


BLUE = np.full((30, 40, 3), 7, np.uint8)


@pytest.mark.filterwarnings("ignore:.*on_error left them out")
@pytest.mark.parametrize(
    "on_error", ["raise", "skip", lambda error, index: BLUE], ids=["raise", "skip", "replace"]
)
def test_decoding_into_the_batch(on_error):
    """The first lines of a damaged file are in the sample's slot
    when its end turns out to be missing.
    """
    sources = [JPEGS[("usual", "4:4:4", "gray")[index % 3]] for index in range(40)]
    damaged = range(4, 40, 5) if on_error != "raise" else ()

    def load(index):
        return decode.read_image(
            sources[index][: -50 if index in damaged else None], out=empty_sample
        )

    loader = DataLoader(
        Rows(40, load), batch_size=8, num_workers=2, worker_method="thread", on_error=on_error
    )
    found = list(torch.cat(list(loader)))
    expected = [BLUE if index in damaged else plain(source) for index, source in enumerate(sources)]
    if on_error == "skip":
        expected = [pixels for pixels in expected if pixels is not BLUE]
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_batch_into_one_array(backend):
    out = np.zeros((3, 30, 40, 3), np.uint8)
    sources = [JPEGS["usual"], JPEGS["gray"], OTHERS["PNG"]]
    arrays = decode.read_images(sources, backend=backend, out=out)
    for array, row, source in zip(arrays, out, sources, strict=True):
        assert np.shares_memory(array, row) and np.array_equal(row, plain(source))
    with pytest.raises(ValueError, match="room for 3 images, and 1"):
        decode.read_images(sources[:1], backend=backend, out=out)
    with pytest.raises(ValueError, match=r"shape \(30, 40, 3\)"):
        decode.read_image(sources[2], backend=backend, out=np.zeros((40, 30, 3), np.uint8))
    assert decode.read_images([], backend=backend) == []


def test_arguments_that_do_not_exist():
    data = JPEGS["usual"]
    with pytest.raises(ValueError, match="mode='RBG'"):
        decode.read_image(data, "RBG")
    with pytest.raises(
        ValueError, match="backend must be one of auto, pillow, nvimgcodec, not 'opencv'"
    ):
        decode.read_image(data, backend="opencv")
    with pytest.raises(ValueError, match="'cpu' or 'cuda:N'"):
        decode.read_image(data, device="meta")
    with pytest.raises(ValueError, match="decodes on the CPU"):
        decode.read_image(data, backend="pillow", device="cuda")


def test_another_backend_is_a_module_and_a_line(monkeypatch):
    module = types.SimpleNamespace(
        read_arrays=lambda encoded, mode, outs: [(one.data, mode) for one in encoded]
    )
    monkeypatch.setitem(sys.modules, "ftloader.decode.echo", module)
    monkeypatch.setitem(backends.BACKENDS, "echo", {"cpu": "echo"})
    assert decode.read_image(b"abc", "L", backend="echo") == (b"abc", "L")
    with pytest.raises(ValueError, match="backend='echo' decodes on the CPU.*backend='nvimgcodec'"):
        decode.read_image(b"abc", backend="echo", device="cuda")


def test_the_exif_orientation_is_left_to_the_caller():
    data = JPEGS["EXIF, comment, profile"]
    assert decode.read_image(data).shape == (30, 40, 3)
    assert ImageOps.exif_transpose(decode.read_pil(data, None)).size == (30, 40)


def test_read_pil_gives_a_loaded_image(tmp_path):
    path = tmp_path / "x.jpg"
    path.write_bytes(JPEGS["gray"])
    image = decode.read_pil(path)
    path.unlink()
    assert isinstance(image, Image.Image)
    assert image.mode == "RGB"
    assert np.array_equal(np.array(image), plain(JPEGS["gray"]))
    assert decode.read_pil(JPEGS["gray"], None).mode == "L"
    changed = decode.read_pil(JPEGS["usual"])
    changed.putpixel((0, 0), (1, 2, 3))  # not read-only, not shared
    assert np.array_equal(np.array(decode.read_pil(JPEGS["usual"])), plain(JPEGS["usual"]))


def test_formats_registered_by_the_program_are_tried():
    """For example pillow-heif's, also if it comes after Pillow's own have been loaded."""

    class Mine(ImageFile.ImageFile):
        format = "MINE"
        format_description = "mine"

        def _open(self):
            if self.fp.read(4) != b"MINE":
                raise SyntaxError("not mine")
            self._size, self._mode = (1, 1), "L"
            self.tile = [("raw", (0, 0, 1, 1), 4, ("L", 0, 1))]

    with pytest.raises(decode.DecodeError, match="no format"):
        decode.read_image(b"MINE\x07")
    Image.register_open("MINE", Mine, lambda prefix: prefix.startswith(b"MINE"))
    try:
        assert decode.read_image(b"MINE\x07").tolist() == [[[7, 7, 7]]]
    finally:
        Image.ID.remove("MINE")
        del Image.OPEN["MINE"]
