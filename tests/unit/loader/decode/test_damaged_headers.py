"""JPEGs with odd headers: the answer, pixels or an error, is Pillow's, with the library
libturbojpeg and without it.
"""

import random

import numpy as np
import pytest

from ftloader import decode
from ftloader.decode import pillow, turbojpeg
from tests.encoded_pictures import encoded, picture, plain

USUAL = encoded(picture(), quality=90)
AFTER_JFIF = 2 + 18
AFTER_FRAME = USUAL.index(b"\xff\xc0") + 2 + 17


def segment(marker, content):
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + content


def with_segment(marker, content, at=AFTER_JFIF):
    return USUAL[:at] + segment(marker, content) + USUAL[at:]


def entry(tag, kind, count, value):
    """Return an entry of a TIFF directory."""
    return (
        tag.to_bytes(2, "little") + kind.to_bytes(2, "little") + count.to_bytes(4, "little") + value
    )


def directory(*entries):
    return b"II*\0\x08\0\0\0" + len(entries).to_bytes(2, "little") + b"".join(entries) + bytes(4)


def exif(*entries):
    """Return the picture with these Exif entries in place of the JFIF segment,
    whose resolution comes first.
    """
    return USUAL[:2] + segment(0xE1, b"Exif\0\0" + directory(*entries)) + USUAL[AFTER_JFIF:]


UNIT = entry(0x128, 3, 1, b"\2\0\0\0")
PICTURES_OF_A_STEREO_CAMERA = entry(0xB001, 4, 1, b"\2\0\0\0"), entry(0xB002, 7, 4, bytes(4))
REFUSED_BY_PILLOW = {
    "JFIF cut short": USUAL[:2] + segment(0xE0, b"JFIF\0\1") + USUAL[AFTER_JFIF:],
    "JFIF cut short, after the frame": with_segment(0xE0, b"JFIF\0\1", AFTER_FRAME),
    "Adobe cut short": with_segment(0xEE, b"Adobe\0"),
    "colour profile without a number": with_segment(0xE2, b"ICC_PROFILE\0"),
    "colour profile without a count": with_segment(0xE2, b"ICC_PROFILE\0\1"),
    "Photoshop's resource cut short": with_segment(0xED, b"Photoshop 3.0\x008BIM\3\xed"),
    "index of pictures cut short": with_segment(
        0xE2, b"MPF\0" + directory(*PICTURES_OF_A_STEREO_CAMERA)
    ),
    "marker without a segment": USUAL[:AFTER_FRAME] + b"\xff\1" + USUAL[AFTER_FRAME:],
    "resolution of one byte": exif(entry(0x11A, 1, 1, bytes(4)), UNIT),
    "resolution of no letters": exif(entry(0x11A, 2, 1, bytes(4)), UNIT),
}
READ_BY_PILLOW = {
    "JFIF of 7 bytes": USUAL[:2] + segment(0xE0, b"JFIF\0\1\1") + USUAL[AFTER_JFIF:],
    "Adobe": with_segment(0xEE, b"Adobe\0\x64\0\0\0\0\1"),
    "two parts of a colour profile": with_segment(
        0xE2, b"ICC_PROFILE\0\1\2a" + segment(0xE2, b"ICC_PROFILE\0\2\2b")
    ),
    "Photoshop's resources": with_segment(
        0xED, b"Photoshop 3.0\0" + 2 * (b"8BIM\4\4\0\0\0\0\0\3abc\0" + b"8BIM\4\5\3odd\0\0\0\2ab")
    ),
    "text of Photoshop's": with_segment(0xED, b"Photoshop 3.0\0text"),
    "XMP": with_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
    "Exif": exif(entry(0x112, 3, 1, b"\6\0\0\0")),
    "resolution": exif(entry(0x11A, 5, 1, b"\x08\0\0\0"), UNIT),
}


@pytest.fixture(params=[True, False], ids=["libturbojpeg", "Pillow alone"])
def _with_and_without_the_library(request, monkeypatch):
    assert pillow._turbo, "install libturbojpeg0 (Ubuntu: libturbojpeg)"
    if not request.param:
        monkeypatch.setattr(pillow, "_turbo", None)


@pytest.mark.usefixtures("_with_and_without_the_library")
@pytest.mark.parametrize("name", REFUSED_BY_PILLOW)
def test_what_pillow_refuses_is_an_error(name):
    with pytest.raises(decode.DecodeError):
        decode.read_image(REFUSED_BY_PILLOW[name])


@pytest.mark.parametrize("name", READ_BY_PILLOW)
def test_usual_segments_do_not_keep_a_file_from_the_library(name):
    data = READ_BY_PILLOW[name]
    array, _ = pillow._turbo.decode(data, "RGB", None)
    assert np.array_equal(array, plain(data))


@pytest.mark.filterwarnings("ignore")  # Pillow's, of damaged Exif
def test_no_damaged_header_is_decoded_that_pillow_refuses():
    choice = random.Random(47)
    files = [*REFUSED_BY_PILLOW.values(), *READ_BY_PILLOW.values()]
    decoded = 0
    for _ in range(1500):
        data = bytearray(choice.choice(files))
        for _ in range(choice.randint(1, 3)):
            data[choice.randrange(2, data.index(b"\xff\xda"))] = choice.choice(
                [0, 1, 2, 4, 7, 255, choice.randrange(256)]
            )
        array, _ = pillow._turbo.decode(bytes(data), "RGB", None)
        if array is not None:
            decoded += 1
            assert np.array_equal(array, plain(bytes(data)))
    assert decoded > 200


def test_a_header_that_ends_at_any_byte_is_plain_nowhere():
    for data in READ_BY_PILLOW.values():
        scan = data.index(b"\xff\xda")
        assert not any(turbojpeg._is_plain(data[:end]) for end in range(scan))
