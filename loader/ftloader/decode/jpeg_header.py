"""Size and number of components of a JPEG, read from its header.

Source: ITU-T T.81 (JPEG), annex B: marker segments B.1.1, frame header B.2.2.
"""

from typing import NamedTuple


class JpegHeader(NamedTuple):
    """Frame header of a JPEG: its size in pixels and number of colour components."""

    width: int
    height: int
    components: int


def parse(data: bytes) -> JpegHeader | None:
    """Return the frame header of *data*; None unless *data* is a plain 8-bit JPEG up to its first scan.

    The parser is strict on purpose. It returns None for anything unusual, such as fill bytes, junk between segments,
    arithmetic coding, 12 bits or a height given later: a full parser has to read those. It reads what it accepts
    exactly as libjpeg does, so both agree on the size.
    """
    # The markers are literals, not names of the module. Without the GIL, threads contend for the reference count of a
    # global object at each marker; constants are immortal.
    if data[:2] != b"\xff\xd8":  # SOI
        return None
    header = None
    at, end = 2, len(data)
    while at + 4 <= end:
        marker = data[at + 1]
        length = data[at + 2] << 8 | data[at + 3]  # counts its own two bytes, not the marker's
        start, at = at, at + 2 + length
        if data[start] != 0xFF or length < 2 or at > end:
            return None
        if 0xE0 <= marker <= 0xEF or marker in (0xC4, 0xDD, 0xFE):
            continue  # APPn, Huffman tables, restart interval, comment
        if marker == 0xDB:  # quantization tables
            if not _quantization_tables_fit(data, start + 4, at):
                return None
        elif marker == 0xDA:  # the first scan
            return header
        # Frames that libjpeg decodes everywhere: baseline, extended, progressive; of 8 bits.
        elif marker in (0xC0, 0xC1, 0xC2) and not header and length >= 8 and data[start + 4] == 8:
            header = JpegHeader(
                width=data[start + 7] << 8 | data[start + 8],
                height=data[start + 5] << 8 | data[start + 6],
                components=data[start + 9],
            )
            if length != 8 + 3 * header.components or not (header.width and header.height):
                return None
        else:
            return None
    return None


def _quantization_tables_fit(data: bytes, at: int, end: int) -> bool:
    """Return True if the segment from *at* to *end* consists of whole tables of 64 values (B.2.4.1)."""
    while at < end:
        at += 1 + (64 if data[at] >> 4 == 0 else 128)
    return at == end
