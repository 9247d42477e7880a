"""bash: runs a command in its own shell, with limits on time and output, and leaves no process behind.

The folder where a command ends is where the next command starts (`process.shell_folder`); nothing else is kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.private_file import make_private_folder
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.command_sandbox import PreparedCommand
from outlast.runtime.sandbox.port import CommandRequest, Lifted, Need
from outlast.runtime.sandbox.session_sandbox import SandboxFailure
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.output_limit import TEXT_LIMIT, bounded_file
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.background_jobs import Jobs
from outlast.runtime.tools.process.environment import sealed
from outlast.runtime.tools.process.shell_command import CommandResult, CommandSpec, ShellCommand, begin
from outlast.runtime.tools.process.shell_folder import FolderReport, changes_folder, folder_fault

SECONDS = 120
MOST_SECONDS = 600
IN_MEMORY = 1024 * 1024
"""Complete output up to this size is passed on as bytes, larger output as a file."""

PROGRESS_EVERY = 0.25
SANDBOXED = (
    "[a sandbox confined this command: it could write only to the project's folders and $TMPDIR. If the failure above "
    "is a write elsewhere, that is the cause; tell the user, who can run the command or allow full access]"
)
_REFUSED = re.compile(
    r"permission denied|operation not permitted|read-only file system|\bEACCES\b|\bEPERM\b|\bEROFS\b", re.IGNORECASE
)
SKILLS = "skills"
"""The folder in the Outlast home whose files a command may read: the scripts of the user's own skills."""


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    command: Annotated[
        str,
        Meta(
            description="What to run; starts in the folder where the last command ended, at first the project's.",
            min_length=1,
        ),
    ]
    timeout: (
        Annotated[int, Meta(description=f"Seconds it may take; {SECONDS} unless told.", ge=1, le=MOST_SECONDS)] | None
    ) = None
    background: Annotated[
        bool, Meta(description="Return at once with a job id; read it with bash_output, end it with bash_kill.")
    ] = False
    needs: Annotated[
        tuple[str, ...],
        Meta(
            description="Walls of the sandbox that it cannot do without, such as network:HOST, write:PATH, read:PATH, "
            "localhost:PORT or socket:PATH. The user is asked. Leave it out unless the sandbox blocked the command."
        ),
    ] = ()
    why: Annotated[str, Meta(description="With needs: one sentence for the user that says why.")] | None = None


def folder_of(context: ToolContext) -> Path:
    """The folder for a session's tool files: logs and temporary files."""
    return context.state_dir / "tools" / context.session_id


def temporary_folder(context: ToolContext) -> Path:
    """Create and return the session's own temporary folder, which a confined command can write to."""
    temporary = folder_of(context) / "tmp"
    make_private_folder(temporary)
    return temporary


class OrderedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that is ready to start, and what keeps it behind walls; None: no sandbox of a session."""

    spec: CommandSpec
    folder: Path
    walls: PreparedCommand | None = None
    questions: WallQuestions | None = None

    def close(self) -> None:
        if self.walls is not None:
            self.walls.close()

    def notes(self, ended: CommandResult, output: str) -> list[str]:
        """Return what the walls have to say about the end of the command."""
        return self.walls.notes(ended.code, ended.signal, output) if self.walls is not None else []


async def order_of(
    command: str, context: ToolContext, log: Path, seconds: float, report: FolderReport | None = None
) -> OrderedCommand:
    """Build the command, behind the walls that the context asks for and the machine offers. Raises ToolFault if the
    folder where it was judged to start is no longer there, or if the sandbox cannot be started."""
    temporary = temporary_folder(context)
    folder = _start_folder(context)
    environment, argv = _shell_of(command, context, temporary, folder, report)
    if context.sandbox is None:
        spec = _unwalled(argv, context, environment, folder, log, seconds)
        return OrderedCommand(spec=spec, folder=folder)
    request = CommandRequest(
        session_id=context.session_id,
        call_id=context.call_id,
        argv=argv,
        cwd=folder,
        project=context.project,
        roots=context.roots,
        environment=environment,
        private=temporary,
        looking=context.looking,
        needs=context.needs,
        shown=tuple(home / SKILLS for home in context.hidden),
    )
    questions = WallQuestions(context)
    try:
        walls = await asyncio.to_thread(context.sandbox.prepare, request, questions.ask)
    except SandboxFailure as error:
        raise ToolFault(f"the command was not started: {error}") from error
    spec = CommandSpec(log=log, seconds=seconds, **walls.spec)
    return OrderedCommand(spec=spec, folder=folder, walls=walls, questions=questions)


class WallQuestions:
    """Asks about walls that a running command meets. The time limit of the command stands still meanwhile."""

    def __init__(self, context: ToolContext) -> None:
        self.command: ShellCommand | None = None
        self._context = context
        self._loop = asyncio.get_running_loop()

    def ask(self, need: Need) -> Future[Lifted]:
        """Ask from any thread; nothing is lifted once the call's event loop is gone."""
        if self._loop.is_closed():
            refused: Future[Lifted] = Future()
            refused.set_result(Lifted.NO)
            return refused
        return asyncio.run_coroutine_threadsafe(self._ask(need), self._loop)

    async def _ask(self, need: Need) -> Lifted:
        command = self.command
        if command is not None:
            command.pause()
        try:
            return await self._context.lift(need)
        finally:
            if command is not None:
                command.go_on()


def _shell_of(
    command: str, context: ToolContext, temporary: Path, folder: Path, report: FolderReport | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment and the command line of the shell that runs the command."""
    environment = {
        **context.environment,
        "TMPDIR": str(temporary),
        "PWD": str(folder),
        "OUTLAST_SESSION_ID": context.session_id,
    }
    shell = shutil.which("bash", path=environment.get("PATH"))
    if shell and report is not None:  # another shell would pass the variables on to every bash below it
        environment |= report.environment()
    start = (shell, "--noprofile", "--norc") if shell else ("/bin/sh",)
    if shell and context.unasked:
        command = sealed(command, environment)
    return environment, (*start, "-c", "--", command)  # without `--`, a command that begins with - would be options


def _unwalled(
    argv: tuple[str, ...], context: ToolContext, environment: dict[str, str], folder: Path, log: Path, seconds: float
) -> CommandSpec:
    """Return a command without a sandbox, confined by Landlock where the context asks for it and the kernel can."""
    temporary = temporary_folder(context)
    confined = context.confined and landlock.available()
    roots = () if context.looking else context.roots
    return CommandSpec(
        argv=argv,
        cwd=folder,
        environment=environment,
        log=log,
        seconds=seconds,
        writable=(*roots, temporary) if confined else None,
        hidden=context.hidden,
        shown=(temporary, *context.roots, *(folder / SKILLS for folder in context.hidden)),
    )


def _start_folder(context: ToolContext) -> Path:
    if context.shell is None or context.shell.path == context.project:
        return context.project
    fault = folder_fault(str(context.shell.path), context.roots)
    if fault is not None:
        raise ToolFault(f"the command was not started: its folder {context.shell.path} {fault} since it was checked")
    return context.shell.path


async def launched(order: OrderedCommand, context: ToolContext) -> ShellCommand:
    """Start a command. It is recorded before it runs; if recording fails, it never runs."""
    command = begin(order.spec, order.walls.session if order.walls is not None else None)
    if order.questions is not None:
        order.questions.command = command
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
            "Run a shell command. The working folder is kept from call to call: a cd counts once its command has "
            "ended by itself, but not in background. Variables, functions and shell options are not kept. Standard "
            "input is closed; when a command ends, everything it started ends too, so use background for servers and "
            "watchers.",
            BashArguments,
            EffectClass.OTHER,
            self.run,
        )

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        if arguments.background:
            return await self._in_background(arguments, context)
        log = folder_of(context) / "output" / f"{secrets.token_hex(8)}.log"
        report = FolderReport(temporary_folder(context)) if context.shell is not None else None
        order = await order_of(arguments.command, context, log, arguments.timeout or SECONDS, report)
        began = time.monotonic()
        kept = False
        try:
            ended = await self._in_foreground(order, context)
            outcome = told(ended, order, time.monotonic() - began, context)
            kept = outcome.whole_file is not None
            return outcome if report is None else _in_folder(outcome, arguments.command, ended, order, report, context)
        finally:
            order.close()
            if report is not None:
                report.discard()
            if not kept:
                log.unlink(missing_ok=True)

    async def _in_foreground(self, order: OrderedCommand, context: ToolContext) -> CommandResult:
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
        limits = context.sandbox.limits if context.sandbox is not None else None
        most = limits.job_seconds if limits is not None else 0
        order = await order_of(arguments.command, context, log, arguments.timeout or most)
        try:
            command = await launched(order, context)
        except BaseException:
            order.close()
            raise
        command.ended.add_done_callback(lambda _: order.close())
        self.jobs.add(context.session_id, job_id, arguments.command, command, order.walls)
        facts = {"job_id": job_id, "pid": command.spawned.pid, **_confinement(order, context)}
        text = f"Started as {job_id}; read it with bash_output, end it with bash_kill."
        return ToolOutcome(text="\n".join((text, *_start_notes(context))), facts=facts)


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


def told(ended: CommandResult, ordered: OrderedCommand, seconds: float, context: ToolContext) -> ToolOutcome:
    """Convert the end of a command into an outcome: its output, then notes on how it ended."""
    order, walls = ordered.spec, ordered.walls
    try:
        text, is_excerpt = bounded_file(order.log, ended.total, TEXT_LIMIT, context.call_id)
    except FileNotFoundError:
        text, is_excerpt = f"[its output of {ended.total} bytes is lost: the log was removed]", False
    facts: dict[str, Any] = {
        "exit_code": ended.code,
        "signal": ended.signal,
        "reason": ended.reason,
        "seconds": round(seconds, 3),
        "bytes": ended.total,
        "processes_ended": ended.left,
        **_confinement(ordered, context),
    }
    notes = [*_notes(ended, order), *_sandbox_notes(ended, order, text)]
    notes += ordered.notes(ended, text)
    if walls is not None:
        facts |= walls.ended_facts()
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


def _sandbox_notes(ended: CommandResult, order: CommandSpec, text: str) -> list[str]:
    """Name the sandbox if it may have made a command fail: the command's own message never does."""
    if order.writable is None or not ended.code or not _REFUSED.search(text):
        return []
    return [SANDBOXED]


def _in_folder(
    outcome: ToolOutcome,
    command: str,
    ended: CommandResult,
    order: OrderedCommand,
    report: FolderReport,
    context: ToolContext,
) -> ToolOutcome:
    """Add the folder where the command ended to its outcome, and notes if it did not start or end where the model may
    expect."""
    folder = report.read() if ended.reason == "exited" and ended.signal is None else None
    notes = _start_notes(context)
    if folder is not None and folder != os.path.realpath(order.folder):
        fault = folder_fault(folder, context.roots)
        after = f"; it {fault}, so the next command starts in the project's folder" if fault else ""
        notes.append(f"[the folder is now {folder}{after}]")
    elif folder is None and changes_folder(command):
        notes.append(f"[the folder of this command was not kept; the next command starts in {order.folder}]")
    facts = outcome.facts if folder is None else {**outcome.facts, "cwd": folder}
    return msgspec.structs.replace(outcome, text="\n".join((outcome.text, *notes)), facts=facts)


def _start_notes(context: ToolContext) -> list[str]:
    return [context.shell.note] if context.shell is not None and context.shell.note is not None else []


def _confinement(ordered: OrderedCommand, context: ToolContext) -> dict[str, Any]:
    if ordered.walls is not None:
        return {"confined": True, **ordered.walls.facts()}
    order = ordered.spec
    if not context.confined or order.writable is not None:
        return {"confined": order.writable is not None}
    return {"confined": False, "why_not_confined": landlock.available().reason}
