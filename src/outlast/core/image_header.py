"""Reads the real media type and the size in pixels from the first bytes of an image.

One image with a wrong media type, or one that is too large, makes the provider reject this request and every later one
of the session. So the window checks the bytes and does not trust the declared type.
"""

from __future__ import annotations

from typing import NamedTuple

_JPEG_SIZES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageSize(NamedTuple):
    """Width and height are 0 if the header is incomplete."""

    media_type: str
    width: int = 0
    height: int = 0


def picture_of(data: bytes) -> ImageSize | None:
    """Identify a PNG, JPEG, GIF or WebP image (the formats every provider accepts); None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageSize("image/png", _big(data, 16, 4), _big(data, 20, 4))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ImageSize("image/gif", _little(data, 6, 2), _little(data, 8, 2))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageSize("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return ImageSize("image/webp", *_webp_size(data))
    return None


def _big(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _little(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "little")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Read the size from the first frame header, skipping earlier segments by their length."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_SIZES:
            return _big(data, at + 7, 2), _big(data, at + 5, 2)
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        else:
            at += 2 + max(2, _big(data, at + 2, 2))
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
