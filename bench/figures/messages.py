"""What is written: messages of about 600 bytes, no two alike."""

from __future__ import annotations

import itertools

import msgspec

from outlast.core.messages import Message, Role

SENTENCE = "Every message, tool call and decision is durable before anything depends on it. "
_text = (SENTENCE * 8)[:555]
_numbers = itertools.count(1)


def text() -> str:
    return f"{next(_numbers):012d} {_text}"


def message() -> Message:
    return Message(role=Role.USER, content=text())


def plain() -> bytes:
    """The same as a program without Outlast would store it."""
    return msgspec.json.encode({"role": "user", "content": text()})
