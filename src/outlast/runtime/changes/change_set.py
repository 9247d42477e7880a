"""The files that a shell command changed, as the facts of its result record them.

A `ChangeGroup` lists the files that differ between two looks and says what caused it: the call itself, background jobs,
or a call whose end was not recorded. `recorded_changes` makes the facts of groups, `groups_in` reads them. A pre-image
is a blob of the project's git repository, or bytes that lie in the facts (a blob of the store if they are long).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, cast

import msgspec

FACT = "shell_changes"
ABSENT = "absent"
LINK = "link:"
LARGE = "large:"
PIECE = 32 * 1024 * 1024
CONTENTS_LIMIT = 128 * 1024 * 1024
"""Maximum size of all pre-images that one result records; git's blobs do not count."""


class FileState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file at one moment. `digest` is "absent", the SHA-256 of its bytes, `link:` and the target of a symbolic link,
    or `large:` with size and time if the file is too large to be read. `blob` is the id of a git blob with the same
    bytes."""

    digest: str = ABSENT
    mode: int = 0
    size: int = 0
    blob: str = ""

    @property
    def link(self) -> str | None:
        return self.digest.removeprefix(LINK) if self.digest.startswith(LINK) else None

    @property
    def has_bytes(self) -> bool:
        """Whether this is a regular file whose digest is that of its bytes."""
        return self.digest != ABSENT and not self.digest.startswith((LINK, LARGE))

    def is_same(self, other: FileState) -> bool:
        """Whether both have the same content and permissions."""
        return (self.digest, self.mode) == (other.digest, other.mode)


NO_FILE = FileState()


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file before and after. `kept` is where its pre-image lies in the recorded contents: piece, offset, length."""

    path: str
    before: FileState = NO_FILE
    after: FileState = NO_FILE
    kept: tuple[int, int, int] | None = None

    @property
    def kind(self) -> str:
        if self.before.digest == ABSENT:
            return "created"
        return "deleted" if self.after.digest == ABSENT else "modified"


class Cause(StrEnum):
    """What changed the files of a group."""

    CALL = "call"
    JOB = "job"
    """Changed between two calls, while background jobs ran: by a job, or by the user."""
    LOST = "lost"
    """Changed since the start of a call whose end this runtime did not see: by the call, or by the user later."""


class ChangeGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of one cause. `seq` is the last event of the session before they began; `folders` were created."""

    cause: Cause = Cause.CALL
    seq: int = 0
    names: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why a rewind leaves these files alone unless the user names them; None if the call changed them."""
        match self.cause:
            case Cause.CALL:
                return None
            case Cause.JOB:
                return f"it changed while {', '.join(self.names)} ran; the job or you may have changed it"
            case Cause.LOST:
                return "it changed during or after a command whose end was not recorded"


PreImage = Callable[[ChangedFile], bytes | None]
"""Returns the bytes of a file before its change, from the kept copies; None if there are none."""


def recorded_changes(groups: Iterable[ChangeGroup], pre_image: PreImage) -> dict[str, Any]:
    """Return the facts that record these groups, with the pre-images that are in no git blob."""
    contents = _Contents()
    stored = [
        msgspec.structs.replace(group, files=tuple(contents.with_pre_image(file, pre_image) for file in group.files))
        for group in groups
        if group.files
    ]
    if not stored:
        return {}
    return {FACT: {"groups": msgspec.json.encode(stored), "contents": [bytes(piece) for piece in contents.pieces]}}


class _Contents:
    def __init__(self) -> None:
        self.pieces: list[bytearray] = []
        self._places: dict[str, tuple[int, int, int]] = {}
        self._size = 0

    def with_pre_image(self, file: ChangedFile, pre_image: PreImage) -> ChangedFile:
        before = file.before
        if not before.has_bytes or before.blob or file.after.digest == before.digest:
            return file
        if before.digest not in self._places:
            data = pre_image(file) if self._size + before.size <= CONTENTS_LIMIT else None
            if data is None:
                return file
            self._places[before.digest] = self._add(data)
        return msgspec.structs.replace(file, kept=self._places[before.digest])

    def _add(self, data: bytes) -> tuple[int, int, int]:
        if not self.pieces or len(self.pieces[-1]) + len(data) > PIECE:
            self.pieces.append(bytearray())
        offset = len(self.pieces[-1])
        self.pieces[-1] += data
        self._size += len(data)
        return len(self.pieces) - 1, offset, len(data)


def groups_in(facts: Mapping[str, Any]) -> list[ChangeGroup]:
    """Return the groups that the facts of a result record; none for a result of another tool."""
    stored = facts.get(FACT)
    rows = cast("dict[str, Any]", stored).get("groups") if isinstance(stored, dict) else None
    return msgspec.json.decode(rows, type=list[ChangeGroup]) if isinstance(rows, bytes) else []


def kept_bytes(facts: Mapping[str, Any], file: ChangedFile) -> bytes | None:
    """Return the pre-image of a file from the facts that record it; None if it is not there."""
    if file.kept is None:
        return None
    piece, offset, length = file.kept
    pieces = cast("list[bytes]", facts[FACT]["contents"])
    return pieces[piece][offset : offset + length]
