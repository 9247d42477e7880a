"""Hooks: the user's own programs around tool calls. Before a call, a hook can deny it or have the user asked (never
the model).

`$OUTLAST_HOME/hooks.json` belongs to the user. A project's `.outlast/hooks.json` applies only after the user consented
to its bytes and to the bytes of every project file that its commands name; a change of any of them revokes the consent.
The format is `{"pre"|"post"|"failure": [{"tool"?, "command", "timeout"?}]}`.

A hook gets the call as JSON on stdin. Before a call, exit code 0 means no objection, or a decision on stdout:
`{"decision": "allow"|"ask"|"deny", "reason": ...}`. Exit code 2 denies, with the reason on stderr. Everything else
(another exit code, a timeout, an unreadable answer) denies as well: a broken hook must not let a call pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.core.errors import ConfigError
from outlast.core.messages import ToolCall
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.permissions.decision import Decision, Verdict
from outlast.runtime.permissions.rule_files import PendingConsent
from outlast.runtime.private_file import Table, parsed, read_bytes
from outlast.runtime.tools.port import ToolOutcome

FILE_NAME = "hooks.json"
EVENTS = ("pre", "post", "failure")
TIMEOUT = 30.0
LONGEST_TIMEOUT = 600.0
_MOST_OUTPUT = 65_536
_DENIED = 2


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """`project` is set for a hook from a project's file; `digest` is then the content that the user consented to."""

    event: str
    command: str
    tool: str = ""
    timeout: float = TIMEOUT
    origin: str
    project: Path | None = None
    digest: str = ""


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a hook run. `code` is None if the hook did not run or had to be stopped; `err` then says why."""

    code: int | None
    out: str = ""
    err: str = ""


class Hooks:
    """The active hooks. `pending` is the project's hooks file if the user has not consented to it yet."""

    def __init__(
        self,
        hooks: Sequence[Hook] = (),
        *,
        project: Path | None = None,
        environment: Mapping[str, str] | None = None,
        pending: PendingConsent | None = None,
    ) -> None:
        self.hooks = tuple(hooks)
        self.project = project or Path.cwd()
        self.environment = dict(environment or {})
        self.pending = pending

    async def before(self, call: ToolCall, cwd: Path | None = None) -> Decision | None:
        """Return the strictest verdict of all hooks, or None if no hook gave one. A denial runs the failure hooks.
        `cwd` is the folder where a shell command starts; None: the project."""
        started_in = {"cwd": str(cwd or self.project)}
        verdict: Decision | None = None
        for hook in self._for("pre", call):
            found = await self._verdict(hook, call, started_in)
            if found is not None and (verdict is None or _STRICTER[found.verdict] > _STRICTER[verdict.verdict]):
                verdict = found
            if verdict is not None and verdict.verdict is Verdict.DENY:
                await self._told("failure", call, {"result": verdict.reason, "is_error": True})
                break
        return verdict

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> str | None:
        """Run the post hooks, or the failure hooks if the call failed; return their notes, or None."""
        event = "failure" if outcome.is_error else "post"
        notes = await self._told(event, call, {"result": outcome.text, "is_error": outcome.is_error})
        return "\n".join(notes) or None

    def _for(self, event: str, call: ToolCall) -> list[Hook]:
        return [hook for hook in self.hooks if hook.event == event and hook.tool in {"", call.name}]

    async def _verdict(self, hook: Hook, call: ToolCall, started_in: dict[str, Any]) -> Decision | None:
        answer = await self._run(hook, call, started_in)
        if answer.code == _DENIED:
            return _decision(Verdict.DENY, hook, answer.err or answer.out or "no reason given")
        if answer.code is None:
            return _decision(Verdict.DENY, hook, answer.err)
        if answer.code != 0:
            return _decision(Verdict.DENY, hook, f"it failed with exit code {answer.code}: {answer.err}")
        return _said(hook, answer.out)

    async def _told(self, event: str, call: ToolCall, more: dict[str, Any]) -> list[str]:
        notes: list[str] = []
        for hook in self._for(event, call):
            answer = await self._run(hook, call, more)
            if answer.code == 0:
                notes += [answer.out] if answer.out else []
            else:
                notes.append(f"the hook `{hook.command}` failed ({answer.code}): {answer.err or answer.out}")
        return notes

    async def _run(self, hook: Hook, call: ToolCall, more: dict[str, Any]) -> HookAnswer:
        if hook.project is not None and _consent_digest(hook.project) != hook.digest:
            return HookAnswer(code=None, err="it has changed since you consented to it; start again to review it")
        told = {
            "event": hook.event,
            "tool": call.name,
            "arguments": call.arguments,
            "call_id": call.id,
            "project": str(self.project),
            **more,
        }
        content = json.dumps(told, default=repr).encode("utf-8", "replace")
        return await run(hook.command, content, self.project, self.environment, hook.timeout)


_STRICTER = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


def _said(hook: Hook, out: str) -> Decision | None:
    if not out.startswith("{"):
        return None
    try:
        value: object = json.loads(out)
        answer = cast("Table", value) if isinstance(value, dict) else {}
    except ValueError:
        return _decision(Verdict.DENY, hook, "its answer is not valid JSON")
    decision = answer.get("decision")
    if decision is None:
        return None
    if decision not in {"allow", "ask", "deny"}:
        return _decision(Verdict.DENY, hook, "its decision must be allow, ask or deny")
    return _decision(Verdict(str(decision)), hook, str(answer.get("reason") or "no reason given"))


def _decision(verdict: Verdict, hook: Hook, reason: str) -> Decision:
    said = " ".join(reason.split())[:500]
    return Decision(
        verdict=verdict,
        code=f"hook-{verdict}",
        reason=f"the hook `{hook.command}` says {verdict}: {said}",
        rule=hook.origin,
    )


# --- running a hook


async def run(command: str, content: bytes, folder: Path, environment: Mapping[str, str], timeout: float) -> HookAnswer:
    """Run a command with `content` on stdin, in its own process group, which is killed at its end or timeout."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            cwd=folder,
            env=dict(environment),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return HookAnswer(code=None, err=f"it cannot be started ({error.strerror})")
    try:
        async with asyncio.timeout(timeout):
            _, out, err = await asyncio.gather(
                _feed(process, content), _bounded(process.stdout), _bounded(process.stderr)
            )
            code = await process.wait()
        return HookAnswer(code=code, out=out, err=err)
    except TimeoutError:
        return HookAnswer(code=None, err=f"it did not end within {timeout:g} seconds")
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _feed(process: asyncio.subprocess.Process, content: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a hook need not read its input
        process.stdin.write(content)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _bounded(stream: asyncio.StreamReader | None) -> str:
    """Read a stream to its end, and keep its beginning."""
    assert stream is not None
    kept = bytearray()
    while chunk := await stream.read(_MOST_OUTPUT):
        kept += chunk[: _MOST_OUTPUT - len(kept)]
    return kept.decode("utf-8", "replace").strip()


# --- loading hooks


def load_hooks(*, home: Path, project: Path, environment: Mapping[str, str]) -> Hooks:
    """Load the hooks for a project. Raises `ConfigError` for an invalid file; the caller must then not start."""
    own, path = home / FILE_NAME, project / ".outlast" / FILE_NAME
    content = read_bytes(own)
    hooks = _hooks(own, content) if content is not None else []
    pending: PendingConsent | None = None
    theirs = read_bytes(path) if os.path.realpath(path) != os.path.realpath(own) else None
    if theirs is not None and (found := _hooks(path, theirs)):
        digest = _consent_digest(project)
        if Consents(home).covers(path, digest):
            hooks += [msgspec.structs.replace(hook, project=project, digest=digest) for hook in found]
        else:
            pending = PendingConsent(path=path, content=theirs, digest=digest)
    return Hooks(hooks, project=project, environment=environment, pending=pending)


def _hooks(path: Path, content: bytes) -> list[Hook]:
    table = parsed(path, content)
    found: list[Hook] = []
    for event, given in table.items():
        if event not in EVENTS:
            raise ConfigError(f"{path}: unknown key '{event}'; a hooks file has the lists pre, post and failure")
        if not isinstance(given, list):
            raise ConfigError(f"{path}: '{event}' must be a list of hooks; write it as [...]")
        for number, hook in enumerate(cast("list[object]", given), 1):
            found.append(_hook(f"{path}: {event} hook {number}", event, hook))
    return found


def _hook(where: str, event: str, given: object) -> Hook:
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be an object with a command")
    table = cast("Table", given)
    for key in table:
        if key not in {"tool", "command", "timeout"}:
            raise ConfigError(f"{where} has the unknown key '{key}'; known keys are tool, command and timeout")
    command, tool, timeout = table.get("command"), table.get("tool", ""), table.get("timeout", TIMEOUT)
    if not isinstance(command, str) or not command.strip():
        raise ConfigError(f"{where}: command must be text that is not empty; write what /bin/sh should run")
    if not isinstance(tool, str) or (not tool and "tool" in table):
        raise ConfigError(f"{where}: tool must be a tool's name; correct or remove it")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise ConfigError(
            f"{where}: timeout must be a number of seconds up to {LONGEST_TIMEOUT:g}; correct or remove it"
        )
    return Hook(event=event, command=command, tool=tool, timeout=float(timeout), origin=where)


def _consent_digest(project: Path) -> str:
    """Digest of the project's hooks file and of every file in the project that a word in it names."""
    content = read_bytes(project / ".outlast" / FILE_NAME) or b""
    words = sorted(set(re.split(r"[\s'\";|&<>()$=\\]+", content.decode("utf-8", "replace"))))
    contents = [content]
    for word in filter(None, words):
        place = project / word
        with contextlib.suppress(OSError, ValueError):
            if place.is_file() and place.stat().st_size <= 1 << 20:
                contents += [word.encode(), place.read_bytes()]
    return content_digest(*contents)
