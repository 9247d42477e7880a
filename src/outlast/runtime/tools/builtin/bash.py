"""bash: runs a command in its own shell, with limits on time and output, and leaves no process behind."""

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
"""Complete output up to this size is passed on as bytes, larger output as a file."""

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
    """The folder for a session's tool files: logs and temporary files."""
    return context.state_dir / "tools" / context.session_id


def order_of(command: str, context: ToolContext, log: Path, seconds: float) -> CommandSpec:
    """Build the command with the session's own temporary folder, confined if the context asks for it and the OS can."""
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
        argv=(*start, "-c", "--", command),  # without `--`, a command that begins with - would be read as options
        cwd=context.project,
        environment=environment,
        log=log,
        seconds=seconds,
        writable=(*context.roots, temporary) if confined else None,
    )


async def launched(order: CommandSpec, context: ToolContext) -> ShellCommand:
    """Start a command. It is recorded before it runs; if recording fails, it never runs."""
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
    """Wait for the end even if this task is cancelled: the tool promises to leave no process behind."""
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
    """The tool, and the background jobs it started."""

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
    """Wait for the end and report new output as progress."""
    waiting = asyncio.wrap_future(command.ended)
    told_to = 0
    while not (await asyncio.wait([waiting], timeout=PROGRESS_EVERY))[0]:
        told_to = _told_on(command.order.log, told_to, context)


def _told_on(path: Path, told_to: int, context: ToolContext) -> int:
    """Report output since `told_to`, at most its last 4096 bytes; return the position reported up to."""
    try:
        with path.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            if size > told_to:
                log.seek(max(told_to, size - 4096))
                context.progress(log.read(4096).decode("utf-8", "replace"))
            return size
    except FileNotFoundError:
        return told_to  # a command may delete anything it can write, including its log


def told(ended: CommandResult, order: CommandSpec, seconds: float, context: ToolContext) -> ToolOutcome:
    """Convert the end of a command into an outcome: its output, then notes on how it ended."""
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
