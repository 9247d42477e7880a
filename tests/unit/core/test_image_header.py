"""A picture's first bytes say what it is."""

import pytest

from outlast.core.image_header import ImageSize, picture_of


def chunk(*parts: bytes) -> bytes:
    return b"".join(parts)


def wide(value: int, length: int = 4) -> bytes:
    return value.to_bytes(length, "big")


def little(value: int, length: int) -> bytes:
    return value.to_bytes(length, "little")


JPEG_START = b"\xff\xd8\xff\xe0" + wide(16, 2) + bytes(14)
PICTURES = {
    "png": (chunk(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", wide(640), wide(480)), ImageSize("image/png", 640, 480)),
    "gif": (chunk(b"GIF89a", little(640, 2), little(480, 2)), ImageSize("image/gif", 640, 480)),
    "jpeg": (
        chunk(JPEG_START, b"\xff\xff\xc2", wide(17, 2), b"\x08", wide(480, 2), wide(640, 2)),
        ImageSize("image/jpeg", 640, 480),
    ),
    "webp": (
        chunk(b"RIFF....WEBPVP8X", little(10, 4), bytes(4), little(639, 3), little(479, 3)),
        ImageSize("image/webp", 640, 480),
    ),
    "webp lossless": (
        chunk(b"RIFF....WEBPVP8L", little(10, 4), b"\x2f", little(639 | 479 << 14, 4)),
        ImageSize("image/webp", 640, 480),
    ),
    "webp lossy": (
        chunk(b"RIFF....WEBPVP8 ", little(10, 4), bytes(3), b"\x9d\x01\x2a", little(640, 2), little(480, 2)),
        ImageSize("image/webp", 640, 480),
    ),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_type_and_size_are_read_from_the_header(kind: str) -> None:
    data, expected = PICTURES[kind]
    assert picture_of(data) == expected


@pytest.mark.parametrize("kind", PICTURES)
def test_a_header_that_is_not_whole_never_raises(kind: str) -> None:
    data, _ = PICTURES[kind]
    for length in range(len(data)):
        picture_of(data[:length])


@pytest.mark.parametrize("data", [b"", b"x", b"%PDF-1.7", b"<svg/>", b"II*\0", b"RIFF....WAVE"])
def test_anything_else_is_no_picture(data: bytes) -> None:
    assert picture_of(data) is None


def test_a_jpeg_marker_may_be_padded() -> None:
    padded = b"\xff\xd8" + b"\xff" * 3 + b"\xc0\x00\x11\x08\x01\xe0\x02\x80" + bytes(9)
    assert picture_of(padded) == ImageSize("image/jpeg", 640, 480)


def test_jpeg_markers_without_a_length_are_skipped() -> None:
    bare = b"\xff\xd8\xff\xd0\xff\x01\xff\xc0\x00\x11\x08\x01\xe0\x02\x80" + bytes(9)
    assert picture_of(bare) == ImageSize("image/jpeg", 640, 480)
