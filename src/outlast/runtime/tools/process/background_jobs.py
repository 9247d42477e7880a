"""Background jobs: commands that keep running while the agent does other work.

A job belongs to a session and ends with the process that runs the session: its supervisor then kills it.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.sandbox.command_sandbox import PreparedCommand
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.output_limit import TEXT_LIMIT, joined
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.shell_command import CommandResult, ShellCommand

MOST = 16
"""Maximum number of running jobs per session."""

REMEMBERED = 64


class Job:
    """A background job. `read_to` is how much of its output was returned so far."""

    def __init__(self, job_id: str, text: str, command: ShellCommand, walls: PreparedCommand | None) -> None:
        self.job_id = job_id
        self.text = text
        self.command = command
        self.read_to = 0
        self._walls = walls
        self._shown = ""

    @property
    def end(self) -> CommandResult | None:
        return self.command.ended.result() if self.command.ended.done() else None

    @property
    def state(self) -> str:
        end = self.end
        if end is None:
            return "running"
        if end.reason == "stopped":
            return "killed"
        if end.reason == "timeout":
            return f"ended: it took longer than its limit of {_duration(self.command.order.seconds)}"
        return f"ended by {end.signal}" if end.signal else f"exited with code {end.code}"

    def wall_notes(self) -> list[str]:
        """Return what the sandbox has to say about the job; once, after it has ended."""
        end, walls = self.end, self._walls
        if end is None or walls is None:
            return []
        self._walls = None
        return walls.notes(end.code, end.signal, self._shown)

    def wall_facts(self) -> dict[str, Any]:
        """Return what the log records of the job's connections; nothing while it runs, and after `wall_notes`."""
        return self._walls.ended_facts() if self.end is not None and self._walls is not None else {}

    def news(self) -> str:
        """Return the output since the last call; only its head and tail if it is long."""
        text = self._news()
        self._shown = (self._shown + text)[-TEXT_LIMIT:]
        return text

    def _news(self) -> str:
        if not self.command.order.log.exists():
            return "[its output is lost: the log was removed]"
        with self.command.order.log.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            begin, self.read_to = self.read_to, size
            log.seek(begin)
            if size - begin <= TEXT_LIMIT:
                return log.read(size - begin).decode("utf-8", "replace")
            head = log.read(TEXT_LIMIT // 3)
            log.seek(size - 2 * TEXT_LIMIT // 3)
            tail = log.read(2 * TEXT_LIMIT // 3)
        missing = f"{size - begin - len(head) - len(tail)} bytes"
        return joined(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), missing)


class JobView(msgspec.Struct, frozen=True):
    """A job as shown in a list."""

    job_id: str
    command: str
    state: str
    pid: int


class Jobs:
    """The jobs of all sessions of this process. A session never sees the jobs of another."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, Job]] = {}

    def add(
        self, session_id: str, job_id: str, text: str, command: ShellCommand, walls: PreparedCommand | None = None
    ) -> None:
        own = self._jobs.setdefault(session_id, {})
        own[job_id] = Job(job_id, text, command, walls)
        for old in [job for job in own.values() if job.end is not None][: max(0, len(own) - REMEMBERED)]:
            del own[old.job_id]

    def want_room(self, session_id: str) -> None:
        running = [job.job_id for job in self._jobs.get(session_id, {}).values() if job.end is None]
        if len(running) >= MOST:
            raise ToolFault(f"{MOST} background jobs are running already; end one with bash_kill: {', '.join(running)}")

    def list(self, session_id: str) -> list[JobView]:
        jobs = self._jobs.get(session_id, {}).values()
        return [JobView(job.job_id, job.text, job.state, job.command.spawned.pid) for job in jobs]

    def output(self, session_id: str, job_id: str) -> tuple[str, str]:
        """Return the state of a job and its output since the last call."""
        job = self._get(session_id, job_id)
        state = job.state  # before reading, so that the output of an ended job is complete
        return state, job.news()

    def end_of(self, session_id: str, job_id: str) -> tuple[list[str], dict[str, Any]]:
        """Return the notes of the sandbox on a job that has ended, and the facts of its connections; each once."""
        job = self._get(session_id, job_id)
        facts = job.wall_facts()
        return job.wall_notes(), facts

    async def kill(self, session_id: str, job_id: str) -> str:
        """End a job and every process below it; return its state. A job that has already ended is left unchanged."""
        job = self._get(session_id, job_id)
        job.command.stop()
        await asyncio.shield(asyncio.wrap_future(job.command.ended))
        return job.state

    async def close(self, session_id: str | None = None) -> None:
        """End and forget every job of one session, or of all sessions, and delete the logs."""
        chosen = [session_id] if session_id is not None else list(self._jobs)
        jobs = [job for each in chosen for job in self._jobs.pop(each, {}).values()]
        for job in jobs:
            job.command.stop()
        for job in jobs:
            await asyncio.shield(asyncio.wrap_future(job.command.ended))
            job.command.order.log.unlink(missing_ok=True)

    def _get(self, session_id: str, job_id: str) -> Job:
        own = self._jobs.get(session_id, {})
        if job_id not in own:
            there = f"there are {', '.join(own)}" if own else "there is none; jobs end with the process that ran them"
            raise ToolFault(f"there is no job '{job_id}'; {there}")
        return own[job_id]


def _duration(seconds: float) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours:g} h" if hours and not rest else f"{seconds:g} s"


class JobArguments(ToolArguments, frozen=True, kw_only=True):
    job_id: Annotated[str, Meta(description="The id that bash gave.", min_length=1)]


def output_tool(jobs: Jobs) -> BuiltinTool[JobArguments]:
    async def bash_output(arguments: JobArguments, context: ToolContext) -> ToolOutcome:
        state, news = jobs.output(context.session_id, arguments.job_id)
        text = news.rstrip("\n") or "(nothing new)"
        notes, facts = jobs.end_of(context.session_id, arguments.job_id) if state != "running" else ([], {})
        return ToolOutcome(
            text="\n".join((text, f"[{arguments.job_id}: {state}]", *notes)),
            facts={"job_id": arguments.job_id, "state": state, **facts},
        )

    return BuiltinTool(
        "bash_output",
        "What a background job put out since this was asked last, and whether it still runs.",
        JobArguments,
        EffectClass.READ,
        bash_output,
    )


def kill_tool(jobs: Jobs) -> BuiltinTool[JobArguments]:
    async def bash_kill(arguments: JobArguments, context: ToolContext) -> ToolOutcome:
        state = await jobs.kill(context.session_id, arguments.job_id)
        notes, facts = jobs.end_of(context.session_id, arguments.job_id)
        text = "\n".join((f"{arguments.job_id}: {state}.", *notes))
        return ToolOutcome(text=text, facts={"job_id": arguments.job_id, "state": state, **facts})

    return BuiltinTool(
        "bash_kill",
        "End a background job and everything it started.",
        JobArguments,
        EffectClass.OTHER,
        bash_kill,
    )
