"""Session ids: 128 random bits in lower-case base32, random from the first character.

Ids contain no time, because time-ordered ids would make six-character prefixes useless. The random bytes are an
argument: this layer has no source of randomness.
"""

from __future__ import annotations

import base64
import re

from outlast.core.errors import InvalidInput

ID_LENGTH = 26
PREFIX_LENGTH = 6
_ID = re.compile(r"[a-z2-7]{26}")
_PREFIX = re.compile(r"[a-z2-7]{6,26}")


def id_from(random_bytes: bytes) -> str:
    """Encode 16 random bytes as an id."""
    if len(random_bytes) != 16:
        raise InvalidInput(f"an id is made of 16 random bytes, got {len(random_bytes)}")
    return base64.b32encode(random_bytes).decode("ascii").rstrip("=").lower()


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    return _PREFIX.fullmatch(text) is not None
