"""bash: a command in a shell of its own, bounded in time and output, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.output_limit import TEXT_LIMIT, bounded_file
from outlast.runtime.tools.port import ToolContext, ToolOutcome
from outlast.runtime.tools.process import landlock
from outlast.runtime.tools.process.background_jobs import Jobs
from outlast.runtime.tools.process.shell_command import CommandResult, CommandSpec, ShellCommand, begin

SECONDS = 120
MOST_SECONDS = 600
IN_MEMORY = 1024 * 1024
"""Up to here the whole output is handed over as bytes, above it as a file."""

PROGRESS_EVERY = 0.25


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    command: Annotated[str, Meta(description="What to run; it starts in the project's folder.", min_length=1)]
    timeout: (
        Annotated[int, Meta(description=f"Seconds it may take; {SECONDS} unless told.", ge=1, le=MOST_SECONDS)] | None
    ) = None
    background: Annotated[
        bool, Meta(description="Return at once with a job id; read it with bash_output, end it with bash_kill.")
    ] = False


def folder_of(context: ToolContext) -> Path:
    """Where the tools of a session keep what is theirs: logs and temporary files."""
    return context.state_dir / "tools" / context.session_id


def order_of(command: str, context: ToolContext, log: Path, seconds: float) -> CommandSpec:
    """The command with the session's own temporary folder, confined where that is wanted and can be had."""
    temporary = folder_of(context) / "tmp"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    environment = {
        **context.environment,
        "TMPDIR": str(temporary),
        "PWD": str(context.project),
        "OUTLAST_SESSION_ID": context.session_id,
    }
    shell = shutil.which("bash", path=environment.get("PATH"))
    start = (shell, "--noprofile", "--norc") if shell else ("/bin/sh",)
    confined = context.confined and landlock.available()
    return CommandSpec(
        argv=(*start, "-c", "--", command),  # else text that begins with - would be options
        cwd=context.project,
        environment=environment,
        log=log,
        seconds=seconds,
        writable=(*context.roots, temporary) if confined else None,
    )


async def launched(order: CommandSpec, context: ToolContext) -> ShellCommand:
    """The running command. It is on record before it runs; if recording fails, it never does."""
    command = begin(order)
    try:
        await context.spawned(command.spawned)
        command.go()
    except BaseException:
        command.stop()
        await _gone(command)
        raise
    return command


async def _gone(command: ShellCommand) -> CommandResult:
    """Its end, waited for even by a task that is being cancelled: that is the promise."""
    waiting = asyncio.wrap_future(command.ended)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return waiting.result()


class Bash:
    """The tool, with the jobs that it left running."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def tool(self) -> BuiltinTool[BashArguments]:
        return BuiltinTool(
            "bash",
            "Run a shell command in the project's folder. Its standard input is closed; when it ends, everything it "
            "started ends too, so use background for servers and watchers.",
            BashArguments,
            EffectClass.OTHER,
            self.run,
        )

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        if arguments.background:
            return await self._in_background(arguments, context)
        log = folder_of(context) / "output" / f"{secrets.token_hex(8)}.log"
        order = order_of(arguments.command, context, log, arguments.timeout or SECONDS)
        began = time.monotonic()
        kept = False
        try:
            ended = await self._in_foreground(order, context)
            outcome = told(ended, order, time.monotonic() - began, context)
            kept = outcome.whole_file is not None
            return outcome
        finally:
            if not kept:
                log.unlink(missing_ok=True)

    async def _in_foreground(self, order: CommandSpec, context: ToolContext) -> CommandResult:
        command = await launched(order, context)
        try:
            await _watched(command, context)
        finally:
            command.stop()
            ended = await _gone(command)
        return ended

    async def _in_background(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        self.jobs.want_room(context.session_id)
        job_id = f"job-{secrets.token_hex(4)}"
        log = folder_of(context) / "jobs" / f"{job_id}.log"
        order = order_of(arguments.command, context, log, arguments.timeout or 0)
        command = await launched(order, context)
        self.jobs.add(context.session_id, job_id, arguments.command, command)
        facts = {"job_id": job_id, "pid": command.spawned.pid, **_confinement(order, context)}
        return ToolOutcome(text=f"Started as {job_id}; read it with bash_output, end it with bash_kill.", facts=facts)


async def _watched(command: ShellCommand, context: ToolContext) -> None:
    """Wait for the end, telling meanwhile what it puts out."""
    waiting = asyncio.wrap_future(command.ended)
    told_to = 0
    while not (await asyncio.wait([waiting], timeout=PROGRESS_EVERY))[0]:
        told_to = _told_on(command.order.log, told_to, context)


def _told_on(path: Path, told_to: int, context: ToolContext) -> int:
    """Tell what came since `told_to`, at most its last few lines; up to where it is told now."""
    try:
        with path.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            if size > told_to:
                log.seek(max(told_to, size - 4096))
                context.progress(log.read(4096).decode("utf-8", "replace"))
            return size
    except FileNotFoundError:
        return told_to  # a command may remove anything in its workspace, this too


def told(ended: CommandResult, order: CommandSpec, seconds: float, context: ToolContext) -> ToolOutcome:
    """The end of a command as an outcome: output, then what there is to say about it."""
    try:
        text, is_excerpt = bounded_file(order.log, ended.total, TEXT_LIMIT)
    except FileNotFoundError:
        text, is_excerpt = f"[its output of {ended.total} bytes is lost: the log was removed]", False
    facts: dict[str, Any] = {
        "exit_code": ended.code,
        "signal": ended.signal,
        "reason": ended.reason,
        "seconds": round(seconds, 3),
        "bytes": ended.total,
        "processes_ended": ended.left,
        **_confinement(order, context),
    }
    notes = _notes(ended, order)
    body = "\n".join(part for part in (text.rstrip("\n"), *notes) if part) or "(no output)"
    whole = order.log.read_bytes() if is_excerpt and ended.stored <= IN_MEMORY else None
    return ToolOutcome(
        text=body,
        is_error=ended.reason != "exited" or ended.code != 0,
        facts=facts,
        whole=whole,
        whole_file=order.log if is_excerpt and whole is None else None,
    )


def _notes(ended: CommandResult, order: CommandSpec) -> list[str]:
    notes: list[str] = []
    if ended.reason == "timeout":
        notes.append(f"[ended: it took longer than {order.seconds:g} s; give a longer timeout or run it in background]")
    elif ended.reason == "lost":
        notes.append("[ended: the process that watched over it was killed]")
    elif ended.reason == "stopped":
        notes.append("[ended: it was stopped]")
    elif ended.signal:
        notes.append(f"[ended by {ended.signal}]")
    elif ended.code:
        notes.append(f"[exit code {ended.code}]")
    if ended.left and ended.reason == "exited":
        notes.append(f"[{ended.left} processes that it had left running were ended; use background to keep one]")
    return notes


def _confinement(order: CommandSpec, context: ToolContext) -> dict[str, Any]:
    if not context.confined or order.writable is not None:
        return {"confined": order.writable is not None}
    return {"confined": False, "why_not_confined": landlock.available().reason}
