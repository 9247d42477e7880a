"""What is named in a message and goes with it: `@file` as text, pictures as pictures.

Each is a part of its own, so that what was typed can be told from it later.

The picture in the clipboard, where a terminal cannot paste it: asked for with the program that this desktop has.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from outlast.core.errors import OutlastError
from outlast.core.image_header import picture_of
from outlast.core.messages import FilePart, ImagePart, Part, TextPart, text_of

LARGEST_TEXT = 256 * 1024
LARGEST_PICTURE = 5 * 1024 * 1024
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_FILE = re.compile(r'\n\n<file path="([^\n]*)">\n')
"""How a part begins that is the text of a file, whichever door attached it."""

_AT = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")


class AttachedMessage(msgspec.Struct, frozen=True):
    """The parts to admit, and what could not be attached, in words."""

    parts: tuple[Part, ...]
    problems: tuple[str, ...] = ()


def attached(text: str, project: Path) -> AttachedMessage:
    """The message with its files. A name that is no file stays a word; one that cannot be read is told."""
    parts: list[Part] = []
    problems: list[str] = []
    for word in dict.fromkeys((*_AT.findall(text), *_dropped_pictures(text))):
        name = _named(word.strip('"'), project)
        if name is None:
            continue
        try:
            part = _read(project / Path(name).expanduser(), name)
        except (OSError, ValueError) as error:
            problems.append(f"{name} is not attached: {error}")
            continue
        parts.append(part)
    return AttachedMessage((TextPart(text), *parts), tuple(problems))


def typed(parts: Sequence[Part]) -> str:
    """What a message says by itself, without what goes along."""
    return text_of([part for part in parts if not (isinstance(part, TextPart) and _FILE.match(part.text))])


def going_along(parts: Sequence[Part]) -> list[tuple[str, int]]:
    """Each by its name and its size in bytes."""
    found: list[tuple[str, int]] = []
    for part in parts:
        match part:
            case TextPart(text=text) if (file := _FILE.match(text)) is not None:
                content = text[file.end() :].removesuffix("</file>")
                found.append((file[1], len(content.encode("utf-8", "surrogatepass"))))
            case ImagePart(alt=alt, data=data):
                found.append((alt or "image", len(data)))
            case FilePart(name=name, data=data):
                found.append((name, len(data)))
            case _:
                pass
    return found


def _dropped_pictures(text: str) -> list[str]:
    """A terminal pastes a dropped picture as its path, quoted or with backslashes."""
    if not any(ending in text.lower() for ending in PICTURES):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return [word for word in words if word.lower().endswith(PICTURES) and not word.startswith("@")]


def _named(name: str, project: Path) -> str | None:
    """The name of a file that is there, without the punctuation behind it; None for any other word."""
    for candidate in (name, name.rstrip(".,;:!?)")):
        if candidate and (project / Path(candidate).expanduser()).is_file():
            return candidate
    return None


def _read(path: Path, name: str) -> Part:
    with path.open("rb") as file:
        data = file.read(LARGEST_PICTURE + 1)
    picture = picture_of(data)
    if picture is not None:
        if len(data) > LARGEST_PICTURE:
            raise ValueError(f"the picture is larger than {LARGEST_PICTURE // 1024 // 1024} MiB")
        return ImagePart(media_type=picture.media_type, data=data, alt=path.name)
    if b"\0" in data[:8192]:
        raise ValueError("it is neither text nor a picture that models read (PNG, JPEG, GIF, WebP)")
    if len(data) > LARGEST_TEXT:
        raise ValueError(f"it is larger than {LARGEST_TEXT // 1024} KiB; ask the model to read parts of it")
    text = data.decode("utf-8", "replace").rstrip("\n")
    return TextPart(f'\n\n<file path="{name}">\n{text}\n</file>')


PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
SECONDS = 5.0


async def pasted_picture(folder: Path) -> Path:
    """The clipboard's picture as a file of its own in `folder`. `OutlastError` says why there is none."""
    installed = [words for words in PROGRAMS if shutil.which(words[0])]
    if not installed:
        names = ", ".join(words[0] for words in PROGRAMS)
        raise OutlastError(
            f"a picture is pasted with one of {names}, and none is installed; drop its file here instead"
        )
    for words in installed:
        data = await _output(*words)
        if len(data) > LARGEST_PICTURE:
            raise OutlastError(
                f"the picture is larger than {LARGEST_PICTURE // 1024 // 1024} MiB; paste a smaller part"
            )
        if picture_of(data) is not None:
            return await asyncio.to_thread(_kept, folder, data)
    raise OutlastError("there is no picture in the clipboard")


async def _output(*words: str) -> bytes:
    """What a program puts out; nothing when it fails or takes too long."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            data, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return b""
    return data if process.returncode == 0 else b""


def _kept(folder: Path, data: bytes) -> Path:
    """Only its owner may read it; it goes when the terminal is left, for then the log has it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"pasted-{secrets.token_hex(4)}.png"
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(data)
    return path
