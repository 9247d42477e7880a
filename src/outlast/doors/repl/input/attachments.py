"""Attachments of a message: `@file` as text, pictures as images, and pictures from the clipboard.

Each attachment is a separate part, so that the typed text can be told from it later. Where the terminal cannot paste a
picture, it is read with the clipboard program of the desktop.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from outlast.core.errors import OutlastError
from outlast.core.image_header import picture_of
from outlast.core.messages import FilePart, ImagePart, Part, TextPart, text_of
from outlast.runtime.private_file import make_private_folder

LARGEST_TEXT = 256 * 1024
LARGEST_PICTURE = 5 * 1024 * 1024
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_FILE = re.compile(r'\n\n<file path="([^\n]*)">\n')
"""Start of a text part that holds a file, whichever door attached it."""

_AT = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")


class AttachedMessage(msgspec.Struct, frozen=True):
    """The parts to admit, and a sentence for each file that could not be attached."""

    parts: tuple[Part, ...]
    problems: tuple[str, ...] = ()


def attached(text: str, project: Path, may_attach: Callable[[Path], bool] | None = None) -> AttachedMessage:
    """Build the message with its files. A name that is not a file stays text; an unreadable file is a problem, and so
    is one that `may_attach` refuses."""
    parts: list[Part] = []
    problems: list[str] = []
    for word in dict.fromkeys((*_AT.findall(text), *_dropped_pictures(text))):
        name = _named(word.strip('"'), project)
        if name is None:
            continue
        path = project / Path(name).expanduser()
        if may_attach is not None and not may_attach(path):
            problems.append(f"{name} is not attached: a command of the project may name only its plain files")
            continue
        try:
            part = _read(path, name)
        except (OSError, ValueError) as error:
            problems.append(f"{name} is not attached: {error}")
            continue
        parts.append(part)
    return AttachedMessage((TextPart(text), *parts), tuple(problems))


def typed(parts: Sequence[Part]) -> str:
    """The typed text of a message, without its attachments."""
    return text_of([part for part in parts if not (isinstance(part, TextPart) and _FILE.match(part.text))])


def going_along(parts: Sequence[Part]) -> list[tuple[str, int]]:
    """The attachments of a message: name and size in bytes."""
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
    """Paths of dropped pictures, which terminals paste quoted or with backslashes."""
    if not any(ending in text.lower() for ending in PICTURES):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return [word for word in words if word.lower().endswith(PICTURES) and not word.startswith("@")]


def _named(name: str, project: Path) -> str | None:
    """The name if it is an existing file, without trailing punctuation; None for any other word."""
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
    """Save the clipboard's picture to a new file in `folder`. Raises OutlastError with the reason if there is none."""
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
    """Output of a program; empty if it fails or takes too long."""
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
    """Write a file that only its owner may read. The REPL deletes it on exit; the log then holds what was sent."""
    make_private_folder(folder)
    path = folder / f"pasted-{secrets.token_hex(4)}.png"
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(data)
    return path
