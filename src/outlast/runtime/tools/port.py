"""The port: what a tool is, and what it is given.

A tool does one thing and says what doing it twice would mean (`effect`). It never asks for permission and never writes
to the log; `outlast.runtime.turn.tool_calls` does both around it. `output_limit.bounded` bounds its text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from outlast.core.events import EffectClass, Event
from outlast.core.messages import FilePart, ImagePart, TextPart
from outlast.runtime.permissions.mode import PermissionMode


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """A process that a tool started; recorded so that whoever recovers can tell whether it still runs."""

    pid: int
    started: str
    host: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifiable write is about to change: digests (SHA-256 hex; "absent" for no file) and the pre-image."""

    path: str
    digest_before: str
    digest_after: str
    before: bytes | None = None


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool has to say. `facts` are for people and audits, `events` are written together with the result.

    `whole` is the whole output when `text` is an excerpt of it: it goes into a blob beside the result. One too large
    for memory (up to 64 MiB) is left in `whole_file` instead: whoever stores it reads it in pieces and removes it.
    """

    text: str = ""
    is_error: bool = False
    attachments: tuple[ImagePart | FilePart, ...] = ()
    facts: dict[str, Any] = {}
    events: tuple[Event, ...] = ()
    whole: bytes | None = None
    whole_file: Path | None = None

    def parts(self) -> tuple[TextPart | ImagePart | FilePart, ...]:
        return (TextPart(self.text), *self.attachments) if self.text else self.attachments


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may know. Cancelling its task means: stop at once, leave no process behind.

    `roots` are the folders it may write into, the project first. `spawned` must be awaited right after a process was
    started. `ask` puts a question to the user and waits, `delegate` runs a sub-agent, both durably.
    """

    session_id: str
    call_id: str
    project: Path
    roots: tuple[Path, ...]
    state_dir: Path
    mode: PermissionMode
    environment: Mapping[str, str]
    runtime: Mapping[str, Any] = {}
    spawned: Callable[[Spawned], Awaitable[None]]
    progress: Callable[[str], None]
    ask: Callable[[str, list[str]], Awaitable[str]]
    delegate: Callable[[str, str | None], Awaitable[ToolOutcome]]
    confined: bool = True
    """Whether a shell must be confined to the roots and the temporary folder (Landlock)."""
    expected: str | None = None
    """For a verifiable write, the `digest_before` that was recorded: it refuses to replace anything else."""


class Tool(Protocol):
    """A tool. `parameters` is its JSON schema; arguments that have a `fault` never reach `run`."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    @property
    def effect(self) -> EffectClass: ...

    def fault(self, arguments: dict[str, Any]) -> str | None:
        """Why the arguments do not fit, in words that name the argument; None when they do. Nothing is coerced."""
        ...

    async def target(self, arguments: dict[str, Any], context: ToolContext) -> Target | None:
        """For a verifiable write, what it will change, before it changes it; None for every other tool.

        `ToolFault` when the arguments cannot be carried out (no such file, text not found)."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Do it. A failure that the model should read is an `Outcome` with `is_error` or a `ToolFault`."""
        ...


class ToolFault(Exception):
    """What the model is told when a tool cannot do what it was asked: one sentence, cause and remedy."""
