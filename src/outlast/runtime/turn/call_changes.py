"""Runs the shell tools with a look before and after: what a command changed is added to the facts of its result.

A command that is known only to read, and every command in read-only and plan mode, runs without looks. A change to a
file that other programs obey is named in the result; one that comes from no commit is asked about, and put back if the
user declines or cannot be asked. A look that fails never fails the command; the result says that undo cannot help.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from outlast.core.events import ToolCallStarted
from outlast.core.messages import ToolCall
from outlast.runtime.changes import file_change
from outlast.runtime.changes.change_set import Cause, ChangedFile, ChangeGroup, recorded_changes
from outlast.runtime.changes.file_change import Link
from outlast.runtime.changes.file_tool_writes import FILE_TOOL_WRITES
from outlast.runtime.changes.session_changes import FOLDER, WorkspaceChanges
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.permissions.decision import Policy, Verdict
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.paths import is_secret_name
from outlast.runtime.permissions.shell.judge import judge
from outlast.runtime.tools.files.atomic_write import settled
from outlast.runtime.tools.files.diff import DIFF_LIMIT, difference
from outlast.runtime.tools.files.write_targets import recorded_targets
from outlast.runtime.tools.output_limit import bounded
from outlast.runtime.tools.port import Tool, ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.secret_mask import SecretMask, secret_mask
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.project_files import ProjectFiles

SHELL, JOB_TOOLS = "bash", frozenset({"bash_output", "bash_kill"})
UNASKED = frozenset({PermissionMode.ALLOW, PermissionMode.DANGER_FULL_ACCESS})
TOUCHED = 500
COMPARED = 50
NAMED = 10

Asked = Callable[[ToolCall, dict[str, Any], str], Awaitable[bool | None]]
"""Asks the user about a change of this call; None where nobody can be asked."""


def shell_changes(context: TurnContext, session_id: str) -> WorkspaceChanges:
    """Open what is known of the changes of a session's shell commands."""
    folder = context.state_dir / "tools" / session_id / FOLDER
    left_out = (context.state_dir,) if context.state_dir not in context.roots else ()
    return WorkspaceChanges(
        folder, context.project, context.roots, search_path=context.environment.get("PATH"), left_out=left_out
    )


def may_write(call: ToolCall, context: ToolContext) -> bool:
    """Whether a shell command could change the project. False only if it is known to read, or can write nothing."""
    command = call.arguments.get("command")
    if context.looking or not isinstance(command, str):
        return False
    policy = Policy(
        mode=PermissionMode.READ_ONLY,
        project=context.project,
        roots=context.roots,
        search_path=context.environment.get("PATH", ""),
        cwd=context.shell.path if context.shell is not None else None,
    )
    return judge(command, policy).verdict is not Verdict.ALLOW


class CallChanges:
    """The looks around the shell calls of one turn."""

    def __init__(self, driver: Driver, context: TurnContext, asked: Asked) -> None:
        self._driver = driver
        self._context = context
        self._asked = asked
        self._session: WorkspaceChanges | None = None
        self._looking = asyncio.Lock()

    async def run(
        self, tool: Tool, call: ToolCall, context: ToolContext, started: ToolCallStarted | None = None
    ) -> ToolOutcome:
        """Run a tool; a shell tool with its looks, and without secrets of the project in its output. `started` says
        what a file tool is going to write."""
        if call.name != SHELL and call.name not in JOB_TOOLS:
            targets = recorded_targets(started) if started is not None else []
            with FILE_TOOL_WRITES.announced(self._driver.session_id, context.project, targets):
                return await tool.run(call.arguments, context)
        mask = await asyncio.to_thread(secret_mask, context.roots)
        context = msgspec.structs.replace(context, progress=mask.stream(context.progress))
        outcome = await self._run(tool, call, context)
        return await asyncio.to_thread(_masked, outcome, mask) if mask else outcome

    async def _run(self, tool: Tool, call: ToolCall, context: ToolContext) -> ToolOutcome:
        if call.name in JOB_TOOLS:
            return await self._job_outcome(call, await tool.run(call.arguments, context))
        if not may_write(call, context):
            return await tool.run(call.arguments, context)
        async with self._looking:
            return await self._watched(tool, call, context)

    async def recorded(self, calls: Iterable[ToolCall]) -> None:
        """Note that the log holds the results of these calls."""
        session = self._session
        shell = JOB_TOOLS | {SHELL}
        if session is not None and session.calls.unrecorded and any(call.name in shell for call in calls):
            await asyncio.to_thread(session.recorded)

    async def _watched(self, tool: Tool, call: ToolCall, context: ToolContext) -> ToolOutcome:
        seq, mark = self._driver.state.last_seq, FILE_TOOL_WRITES.now()
        try:
            session = await settled(lambda _: self._opened())
            await settled(lambda _: session.before(call.id, seq))
        except OSError as error:
            outcome = await tool.run(call.arguments, context)
            return _with_notes(outcome, [f"undo does not know what this command changed: {error.strerror or error}"])
        reach("changes.before")
        try:
            outcome = await tool.run(call.arguments, context)
        except (asyncio.CancelledError, ToolFault, OSError):
            await asyncio.shield(asyncio.to_thread(session.after))
            raise
        try:
            group = await settled(lambda _: session.after())
        except OSError as error:
            return _with_notes(outcome, [f"undo does not know what this command changed: {error.strerror or error}"])
        reach("changes.after")
        group = await self._without_others(session, group, mark)
        if isinstance(job_id := outcome.facts.get("job_id"), str):
            session.job_started(job_id)
        return await self._told(session, call, group, outcome)

    async def _without_others(self, session: WorkspaceChanges, group: ChangeGroup, mark: int) -> ChangeGroup:
        """Leave out what file tools of other sessions wrote meanwhile: their own logs record it."""
        paths = FILE_TOOL_WRITES.by_others(self._driver.session_id, mark, self._context.project, group.files)
        if not paths:
            return group
        await asyncio.to_thread(session.without, paths)
        return msgspec.structs.replace(group, files=tuple(file for file in group.files if file.path not in paths))

    async def _job_outcome(self, call: ToolCall, outcome: ToolOutcome) -> ToolOutcome:
        """Look when a job has ended: what changed while it ran is recorded with this result."""
        session = self._session
        job_id, state = outcome.facts.get("job_id"), outcome.facts.get("state")
        if session is None or state == "running" or job_id not in session.calls.jobs:
            return outcome
        async with self._looking:
            seq = self._driver.state.last_seq
            await settled(lambda _: session.look(seq))
            session.job_ended(str(job_id))
            if not session.calls.unrecorded:
                return outcome
            return await self._told(session, call, ChangeGroup(cause=Cause.JOB, seq=seq), outcome)

    def _opened(self) -> WorkspaceChanges:
        if self._session is None:
            self._session = shell_changes(self._context, self._driver.session_id)
        return self._session

    # --- the result

    async def _told(
        self, session: WorkspaceChanges, call: ToolCall, group: ChangeGroup, outcome: ToolOutcome
    ) -> ToolOutcome:
        notes, put_back = await self._obeyed_notes(session, call)
        groups = list(session.calls.unrecorded)
        notes += session.notices(group)
        facts = await asyncio.to_thread(_facts, session, groups)
        if put_back:
            facts["put_back"] = put_back
        return _with_notes(msgspec.structs.replace(outcome, facts={**outcome.facts, **facts}), notes)

    async def _obeyed_notes(self, session: WorkspaceChanges, call: ToolCall) -> tuple[list[str], list[str]]:
        """Name the changes to obeyed files; put those back that come from no commit and that the user does not want.
        Returns what to say, and the paths that were put back because nobody can be asked.

        What changed while background jobs ran counts as theirs, unless a file tool wrote it."""
        groups = session.calls.unrecorded
        changed = session.obeyed(file for group in groups if group.cause is not Cause.LOST for file in group.files)
        others = session.obeyed(file for group in groups if group.cause is Cause.LOST for file in group.files)
        by_tools = FILE_TOOL_WRITES.left_as_written(self._context.project, changed)
        changed = [file for file in changed if file.path not in by_tools]
        notes = [f"{_names(others)} changed meanwhile; other programs obey this"] if others else []
        if not changed:
            return notes, []
        jobs = sorted({name for group in groups if group.cause is Cause.JOB for name in group.names})
        who = "this command" if not jobs else f"this command, or {', '.join(jobs)},"
        notes.append(f"{who} changed {_names(changed)}, which other programs obey")
        if self._context.gate.mode in UNASKED:
            return notes, []
        foreign = await asyncio.to_thread(lambda: [file for file in changed if not session.is_committed(file)])
        if not foreign:
            return notes, []
        paths = [file.path for file in foreign]
        why_asked = "which other programs obey and which comes from no commit; keep this?"
        reason = f"{who.replace('this command', 'it', 1)} changed {_names(foreign)}, {why_asked}"
        answer = await self._asked(call, {**call.arguments, "changed": paths}, reason)
        if answer:
            return notes, []
        why = "the user declined the change" if answer is False else "nobody can be asked whether it may stay"
        left = await asyncio.to_thread(self._put_back, session, foreign)
        notes.append(f"{_names(foreign)} was put back: {why}")
        notes += [f"{change.path} could not be put back: {change.problem}" for change in left]
        return notes, paths if answer is None else []

    def _put_back(self, session: WorkspaceChanges, files: list[ChangedFile]) -> list[file_change.FileChange]:
        place = ProjectFiles(self._context, self._driver.session_id)
        plan = [_step(session, file) for file in files]
        changes = file_change.decided(plan, place.read, place.mode)
        left = file_change.carried_out(changes, place.read, place.write, place.remove, place.mode, place.set_mode)
        place.remove_empty(_folders_made(session.calls.unrecorded, files))
        session.without({file.path for file in files} - {change.path for change in left})
        return left


def _folders_made(groups: list[ChangeGroup], files: list[ChangedFile]) -> list[str]:
    """Return the new folders in which these files lay."""
    folders = [folder for group in groups for folder in group.folders]
    return [folder for folder in folders if any(file.path.startswith(f"{folder}/") for file in files)]


def _step(session: WorkspaceChanges, file: ChangedFile) -> file_change.RestoreStep:
    before = file.before
    restore = Link(before.link) if before.link is not None else session.pre_image(file) if before.has_bytes else None
    is_lost = restore is None and before.digest != file_change.ABSENT
    return file_change.RestoreStep(
        path=file.path,
        restore=restore,
        expected=frozenset({file.after.digest}),
        problem="no copy of what was there is kept" if is_lost else None,
        mode=before.mode if before.has_bytes else None,
        left_mode=file.after.mode if file.after.has_bytes else None,
    )


def _facts(session: WorkspaceChanges, groups: list[ChangeGroup]) -> dict[str, Any]:
    """Return the facts of a result: the change sets, and the paths, counts and diff that views show."""
    files = [file for group in groups if group.cause is Cause.CALL for file in group.files]
    facts = recorded_changes(groups, session.pre_image)
    if not files:
        return facts
    shown = files[:COMPARED]
    session.fetch(blob for file in shown for blob in (file.before.blob, file.after.blob))
    diffs: list[str] = []
    added = removed = 0
    for file in shown:
        compared = _difference(session, file)
        added, removed = added + compared.get("added", 0), removed + compared.get("removed", 0)
        diffs.append(compared.get("diff") or f"{file.path}: {file.kind}")
        if sum(map(len, diffs)) > DIFF_LIMIT:
            break
    if len(files) > len(diffs):
        diffs.append(f"and {len(files) - len(diffs)} more files")
    counts = {"added": added, "removed": removed, "diff": bounded("\n".join(diffs), DIFF_LIMIT)}
    return {**facts, "touched_files": [file.path for file in files[:TOUCHED]], "changed_count": len(files), **counts}


def _difference(session: WorkspaceChanges, file: ChangedFile) -> dict[str, Any]:
    if is_secret_name(os.path.basename(file.path)):
        return {}
    before = session.pre_image(file) if file.before.has_bytes else None
    after = session.content(file.after.digest, file.after.blob) if file.after.has_bytes else None
    if (before is None) == file.before.has_bytes or (after is None) == file.after.has_bytes:
        return {}  # a content that was not kept cannot be shown
    return difference(file.path, before, after or b"", created=file.kind == "created")


def _names(files: list[ChangedFile]) -> str:
    names = list(dict.fromkeys(file.path for file in files))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(name if name.isprintable() else ascii(name) for name in names[:NAMED]) + more


def _with_notes(outcome: ToolOutcome, notes: list[str]) -> ToolOutcome:
    if not notes:
        return outcome
    return msgspec.structs.replace(outcome, text="\n".join((outcome.text, *(f"[{note}]" for note in notes))))


def _masked(outcome: ToolOutcome, mask: SecretMask) -> ToolOutcome:
    """Return an outcome without the values of the project's secrets: in its text, its diff and its whole output."""
    if outcome.whole_file is not None:
        mask.file(outcome.whole_file)
    facts = outcome.facts
    if isinstance(diff := facts.get("diff"), str):
        facts = {**facts, "diff": mask.text(diff)}
    whole = mask.data(outcome.whole) if outcome.whole is not None else None
    return msgspec.structs.replace(outcome, text=mask.text(outcome.text), facts=facts, whole=whole)
