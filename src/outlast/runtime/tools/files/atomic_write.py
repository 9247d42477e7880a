"""Replaces a file atomically: writes a temporary file next to it, syncs it, renames it, and syncs the folder.

The file to be replaced is checked again right before the rename. If it is not as expected, nothing is changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from outlast.runtime.tools.files.sandboxed_path import ANYWHERE, ResolvedPath, folder, open_in
from outlast.runtime.tools.port import ToolContext, ToolFault

ABSENT = "absent"
LARGEST = 64 * 1024 * 1024

T = TypeVar("T")

_RENAMING = threading.Lock()
"""Held from the last check of a file to its rename or removal: sub-agents of one process share the project."""


class CurrentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is now. `data` is None if there is no file, or if it is larger than a pre-image may be."""

    digest: str
    data: bytes | None = None
    size: int = 0
    mode: int | None = None


def now(place: ResolvedPath) -> CurrentFile:
    """Return the current file. In a folder that does not exist, the file is absent too."""
    try:
        with folder(place) as (here, name):
            return _look(here, name, place.asked)
    except ToolFault as fault:
        if isinstance(fault.__cause__, FileNotFoundError):
            return CurrentFile(digest=ABSENT)
        raise


def _look(here: int, name: str, asked: str) -> CurrentFile:
    file = open_in(here, name, asked)
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        mode = stat.S_IMODE(found.st_mode)
        if found.st_size > LARGEST:
            return CurrentFile(digest=hashlib.file_digest(stream, "sha256").hexdigest(), size=found.st_size, mode=mode)
        data = stream.read()
        return CurrentFile(digest=hashlib.sha256(data).hexdigest(), data=data, size=len(data), mode=mode)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def replace(
    place: ResolvedPath,
    data: bytes,
    expected: str,
    context: ToolContext,
    given_up: threading.Event,
    mode: int | None = None,
) -> None:
    """Write `data` if the current file still has the digest `expected`. Mode and owner are kept; a new file gets
    `mode`, if given."""
    with folder(place, create=expected == ABSENT) as (here, name):
        before = _replaceable(here, name, place, context)
        temporary = f".outlast-{secrets.token_hex(8)}.tmp"
        file = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=here
        )
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
                stream.flush()
                _like(before, file)
                if before is None and mode is not None:
                    os.fchmod(file, mode & 0o777)
                os.fsync(file)
            with _RENAMING:
                _want_unchanged(here, name, place, expected)
                if given_up.is_set():
                    raise ToolFault(f"{place.asked} was not written: cancelled")
                os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=here)
            raise
        os.fsync(here)


def remove(place: ResolvedPath, expected: str, context: ToolContext, given_up: threading.Event) -> None:
    """Remove a file if it still has the digest `expected`. Other hard links of it stay."""
    with folder(place) as (here, name):
        _want_writable(os.stat(name, dir_fd=here, follow_symlinks=False), place)
        with _RENAMING:
            _want_unchanged(here, name, place, expected)
            if given_up.is_set():
                raise ToolFault(f"{place.asked} was not removed: cancelled")
            os.unlink(name, dir_fd=here)
        os.fsync(here)


def _want_writable(found: os.stat_result, place: ResolvedPath) -> None:
    if not found.st_mode & 0o222:
        raise ToolFault(f"{place.asked} is read-only; make it writable first if it is meant to change")


def _replaceable(here: int, name: str, place: ResolvedPath, context: ToolContext) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _want_writable(found, place)
    if found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and context.mode not in ANYWHERE:
        raise ToolFault(
            f"{place.asked} has {found.st_nlink} hard links, and the others may lie outside the project; "
            "copy it and put the copy in its place first"
        )
    return found


def _like(before: os.stat_result | None, file: int) -> None:
    if before is None:
        return
    made = os.fstat(file)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(file, before.st_uid, before.st_gid)
        except PermissionError:
            return  # stays ours, with the default mode: copying the old mode could grant more rights
    os.fchmod(file, stat.S_IMODE(before.st_mode))


def _want_unchanged(here: int, name: str, place: ResolvedPath, expected: str) -> None:
    try:
        found = _look(here, name, place.asked).digest
    except FileNotFoundError:
        found = ABSENT
    if found != expected:
        raise ToolFault(f"{place.asked} changed meanwhile and was left as it is; read it again")


async def settled(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread. Cancelling tells it to give up and waits for it, so that no effect happens later."""
    given_up = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, given_up))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # mark the exception as retrieved; the cancellation is what is raised
        raise
