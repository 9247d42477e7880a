"""The picture in the clipboard, where a terminal cannot paste it: asked for with the program that this desktop has."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path

from outlast.core.errors import OutlastError
from outlast.core.pictures import picture_of
from outlast.doors.repl.attachment import LARGEST_PICTURE

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
