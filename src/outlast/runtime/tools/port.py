"""The port of all tools: the interface a tool implements and the context it receives.

A tool does one thing and declares what running it twice would mean (`effect`). It never asks for permission and never
writes to the log; `outlast.runtime.turn.tool_calls` does both around it. `output_limit.bounded` limits its text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from outlast.core.events import EffectClass, Event
from outlast.core.messages import FilePart, ImagePart, TextPart
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.skills import NO_SKILLS, SkillCatalog
from outlast.runtime.sandbox.command_sandbox import CommandSandbox
from outlast.runtime.sandbox.port import Lifted, Need


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """A process that a tool started; recorded so that recovery can tell whether it still runs."""

    pid: int
    started: str
    host: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifiable write will change: SHA-256 hex digests ("absent" if there is no file) and the pre-image.

    A call that changes several files names them in `files`; its own digests are then digests of that list
    (`outlast.runtime.tools.files.write_targets`)."""

    path: str
    digest_before: str
    digest_after: str
    before: bytes | None = None
    files: tuple[Target, ...] = ()


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool. `facts` are for people and audits, `events` are written together with the result.

    `whole` is the complete output if `text` is an excerpt of it; it is stored in a blob with the result. Output too
    large for memory (up to 64 MiB) stays in `whole_file` instead; `turn.tool_calls` reads it in pieces and deletes it.
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


class ShellFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The folder where a shell command starts, as it was judged. `note` tells the model why it is not the folder where
    the last command ended."""

    path: Path
    note: str | None = None


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The whole output of an earlier call, as the log keeps it. `packed`: zlib; `cut_bytes` more were not kept."""

    data: bytes
    packed: bool = False
    cut_bytes: int = 0


async def no_output(_: str) -> StoredOutput | None:
    """Find no stored output: for tools that run without a session."""
    return None


async def no_wall_lifted(_: Need) -> Lifted:
    """Lift nothing: for tools that run where nobody can be asked."""
    return Lifted.NO


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may know and use. If its task is cancelled, the tool must stop at once and leave no process behind.

    `roots` are the folders it may write to, the project first. A tool must await `spawned` right after it started a
    process. `ask` asks the user a question and waits, `delegate` runs a sub-agent; both survive a restart. `approve`
    asks the user to approve this very call, with a reason; it returns None where nobody can be asked.
    `shell` says where a shell command starts; None: in the project, and the folder where it ends is not kept.
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
    approve: Callable[[str], Awaitable[bool | None]]
    delegate: Callable[[str, str | None], Awaitable[ToolOutcome]]
    lift: Callable[[Need], Awaitable[Lifted]] = no_wall_lifted
    """Lifts a wall of the sandbox that a running command met, if the policy or the user says so."""
    needs: tuple[Need, ...] = ()
    """The walls that are lifted for this call."""
    sandbox: CommandSandbox | None = None
    """What puts a shell command behind walls; None: it is confined by Landlock, or not at all."""
    recall: Callable[[str | None, int | None, int], Awaitable[ToolOutcome]] | None = None
    """Shows events of this session by query or seq (`outlast.runtime.session_recall`); None where no log is open."""
    skills: SkillCatalog = NO_SKILLS
    stored_output: Callable[[str], Awaitable[StoredOutput | None]] = no_output
    """Finds the output of the newest call with this id in the session's log; None if there is none."""
    confined: bool = True
    """Whether a shell must be confined to the roots and the temporary folder (Landlock)."""
    shell: ShellFolder | None = None
    looking: bool = False
    """Whether the call may only look (read-only or plan mode): a shell can then write to its temporary folder alone."""
    unasked: bool = False
    """Whether the call runs because it was judged harmless, not because a user, a rule or the mode allows it."""
    hidden: tuple[Path, ...] = ()
    """Folders whose files a confined shell cannot read: the Outlast home, with its token, keys and transcripts."""
    expected: str | None = None
    """For a verifiable write, the recorded `digest_before`: the tool refuses to replace any other content."""


class Tool(Protocol):
    """A tool. `parameters` is its JSON schema; arguments with a `fault` never reach `run`."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    @property
    def effect(self) -> EffectClass: ...

    def fault(self, arguments: dict[str, Any]) -> str | None:
        """Return why the arguments do not fit, naming the argument; None if they fit. Nothing is coerced."""
        ...

    async def target(self, arguments: dict[str, Any], context: ToolContext) -> Target | None:
        """For a verifiable write, return what it will change, before it changes it; None for every other tool.

        Raises ToolFault if the arguments cannot be carried out (no such file, text not found)."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run the tool. A failure that the model should read is a `ToolOutcome` with `is_error`, or a `ToolFault`."""
        ...


class ToolFault(Exception):
    """A tool cannot do what the model asked. The message is one sentence for the model: cause and remedy."""
