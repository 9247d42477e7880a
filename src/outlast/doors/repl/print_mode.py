"""`outlast -p`: runs one turn, prints the answer to stdout and everything else to stderr.

There is no user to ask, so a call that needs approval is denied at once and reported with the flag that allows it, and
a plan is the answer. The exit code tells how the turn ended. On SIGINT and SIGHUP the turn is closed durably before the
process exits; SIGTERM leaves it to the next process.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import typer

from outlast.app.sandbox import sandbox_warning
from outlast.app.sessions.detail import driven_by
from outlast.app.sessions.pending_approvals import denial_reason, denied_while_running, pending_approvals
from outlast.app.streams.cursor import DraftChunk
from outlast.app.streams.event_feed import CaughtUp, EventStored, feed, rows_of
from outlast.app.turn_setup import instruction_files
from outlast.core import codec
from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput, OutlastError, SessionBusy
from outlast.core.messages import ToolCall, text_of
from outlast.doors.repl.launch import CLI, NO_MODEL, PICK, LaunchOptions, ReplSession, open_repl_session
from outlast.doors.repl.render.tool_call_line import one_line
from outlast.doors.repl.resume_prompt import CONTINUE, interruption
from outlast.doors.terminal_text import readable
from outlast.runtime.permissions.mode import PermissionMode

TEXT, JSON, STREAM_JSON = "text", "json", "stream-json"
STDIN_SECONDS = 3.0
"""How long to wait for a silent pipe on stdin if a prompt was given."""

DENIED = frozenset({"blocked", "declined"})
WAITING = "waiting"
EXIT_CODES = {"admitted": 0, "completed": 0, "stopped": 5, "interrupted": 5, "budget_exhausted": 6, WAITING: 7}
"""Exit code of each outcome; every other outcome is a failure, 1."""
UNFINISHED = frozenset({"stopped", "interrupted", "budget_exhausted"})
NUDGES = frozenset({"pending_items_continue", "premature_completion_nudge"})
"""Decisions after which a text answers the guided workflow's reminder; the text before it answers the prompt."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PrintResult(msgspec.Struct, kw_only=True):
    """Result of the turn. `cost` is in US dollars, None if a price is unknown. `note` is what the runtime found out.
    `plan` is the plan that no user could approve here. `question` is one that no user could answer, after which
    the turn did nothing more: its outcome is then `waiting`."""

    session_id: str
    answer: str = ""
    outcome: str = "admitted"
    exit_code: int = 0
    reason: str | None = None
    note: str | None = None
    plan: str | None = None
    question: str | None = None
    seq: int = 0
    last_seq: int = 0
    model: str | None = None
    usage: dict[str, int] = {}
    cost: float | None = None
    denied: list[str] = []
    error: str | None = None


def answer_once(start: LaunchOptions, output: str) -> int:
    """Run one turn and return the exit code."""
    if start.resume == PICK:
        raise typer.BadParameter("there is no terminal to choose a session in; give its id: --resume ID")
    said = _input(start)
    repl_session = open_repl_session(start, CLI)
    try:
        if repl_session.moved and not start.continue_newest:  # --continue: a session of this project, moved or not
            _say(repl_session.moved)
        note = repl_session.agent.turn_setup().model_note
        if note is not None and start.model != NO_MODEL:
            _say(note)
        if repl_session.agent.active_permission_mode == PermissionMode.DANGER_FULL_ACCESS:
            _say(sandbox_warning(repl_session.agent.settings, PermissionMode.DANGER_FULL_ACCESS) or "")
        return asyncio.run(PrintMode(repl_session, output).run(said))
    finally:
        repl_session.agent.store.close()


def _input(start: LaunchOptions) -> str | None:
    """The input: the prompt, stdin, or the prompt with stdin as its context. None if only resuming."""
    given = _stdin(patient=start.prompt is None)
    if start.prompt is not None and given.strip():
        return f"{start.prompt}\n\n<stdin>\n{given.rstrip()}\n</stdin>"
    said = start.prompt if start.prompt is not None else given
    if said.strip():
        return said
    if start.resumes:
        return None
    raise typer.BadParameter("there is nothing to do: give a prompt, or text on stdin")


def _stdin(*, patient: bool) -> str:
    if sys.stdin.isatty():
        return ""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if not patient and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            ready, _, _ = select.select([sys.stdin], [], [], STDIN_SECONDS)
            if not ready:
                _say(f"nothing came on stdin within {STDIN_SECONDS:g} s; continuing with the prompt alone")
                return ""
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


@dataclass
class OwnTurn:
    """The turn that answers this process's prompt; turns for other doors' messages may go before it and follow it."""

    is_running: bool = False
    is_over: bool = False
    has_followers: bool = False


class PrintMode:
    """One turn of one session."""

    def __init__(self, repl_session: ReplSession, output: str) -> None:
        self.repl_session = repl_session
        self.output = output
        self.result = PrintResult(session_id=repl_session.session_id)
        self._signal: int | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._said = ""
        self._first_answer: str | None = None
        self._own = OwnTurn()
        self._level = 0
        self._reached = asyncio.Event()
        repl_session.running.waits = lambda wait: _say(wait.text) if wait is not None else None

    async def run(self, said: str | None) -> int:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        assert me is not None
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, number, me)
        try:
            await self._turn(said)
        except asyncio.CancelledError:
            if self._signal is None:
                raise
            self.result.outcome = "interrupted"
            _say(f"interrupted; the session is kept: outlast -c, or --resume {self.repl_session.session_id[:8]}")
        self.result.exit_code = EXIT_CODES.get(self.result.outcome, 1)
        self._finish()
        return self.result.exit_code

    def _stop(self, number: int, me: asyncio.Task[Any]) -> None:
        """SIGTERM leaves the turn to the next process, as a kill would; the user's own signals stop it."""
        self._signal = number
        if number != signal.SIGTERM or not self.repl_session.agent.leave():
            me.cancel()
        for one in SIGNALS:  # a second signal ends the process at once
            asyncio.get_running_loop().remove_signal_handler(one)

    async def _turn(self, said: str | None) -> None:
        agent = self.repl_session.agent
        if self.output == STREAM_JSON:  # a reader that is cut off knows which session to resume
            _line({"kind": "session", "session_id": self.repl_session.session_id})
        self._refuse_busy()
        if self._waits():
            return
        first = await self._admitted(said)
        listening = asyncio.ensure_future(self._listen(first))
        failure: OutlastError | None = None
        try:
            if self.repl_session.start.model == NO_MODEL:
                return
            self.repl_session.record_owner()
            self.result.answer = await agent.resume()
        except asyncio.CancelledError:
            raise
        except OutlastError as error:
            failure = error
            if isinstance(error, SessionBusy):
                await self._take_back()
                raise
            _say(str(error))
        finally:
            self.result.session_id = agent.session.session_id
            await asyncio.shield(self._heard_all(listening))
        if failure is not None and not self._own.has_followers:
            self.result.error = str(failure)
        if self._signal is not None:
            self.result.outcome = "interrupted"
            goes_on = f"outlast -p -c, or -p --resume {self.result.session_id[:8]}"
            _say(f"stopped by a signal; the session is kept, and its turn goes on with: {goes_on}")
        elif self.result.error is not None:
            self.result.outcome = "failed"
        elif self.result.outcome == "completed" and self.result.question is not None:
            self.result.outcome = WAITING
            answers = f"outlast -p 'ANSWER' --resume {self.result.session_id[:8]}"
            _say(f"no user could answer its question here: {self.result.question} To answer: {answers}")
        elif self.result.outcome in UNFINISHED:
            _say(f"stopped: {self.result.reason or self.result.outcome}")

    def _refuse_busy(self) -> None:
        agent = self.repl_session.agent
        driver = driven_by(agent.store, self.repl_session.session_id) if agent.session.exists else None
        if driver is not None:
            raise SessionBusy(
                f"session {self.repl_session.session_id} is driven by {driver}; wait for it, or use --fork"
            )

    def _waits(self) -> bool:
        """Whether the session's open turn waits for an answer of the user: nothing is admitted behind it then."""
        agent = self.repl_session.agent
        if not agent.session.exists or self.repl_session.start.model == NO_MODEL:
            return False
        asked = pending_approvals(agent.store, self.repl_session.session_id, agent.session.state)
        if not asked:
            return False
        _, first = asked[0]
        self.result.outcome = WAITING
        self.result.question = f"{first.name}: {first.reason}" if first.reason else first.name
        if first.name == "exit_plan":
            self.result.question = "its plan"
        name = self.repl_session.session_id[:8]
        _say(f"its last turn waits for your answer ({self.result.question}); answer in `outlast --resume {name}`")
        return True

    async def _admitted(self, said: str | None) -> int:
        """Admit the input; return the seq after which all events belong to this turn."""
        agent = self.repl_session.agent
        found = interruption(agent)
        before = agent.session.state.last_seq
        if not agent.session.exists:
            for warning in instruction_files(agent.settings, agent.config, agent.project_root).warnings:
                _say(warning)
        if said is None:
            if found is None:
                raise InvalidInput(f"session {self.repl_session.session_id[:8]} has no pending work; give a prompt")
            _say(found.text)
            if found.is_open:
                return before
            said = CONTINUE
        elif found is not None and found.is_open:
            _say(f"{found.text} It continues first.")
        session_id = self.repl_session.session_id
        self.result.seq = await self.repl_session.admit(said)
        if self.repl_session.session_id != session_id:  # it was rotated
            before = self.result.seq - 1
        self.result.session_id = self.repl_session.session_id
        return before

    async def _take_back(self) -> None:
        """Withdraw the input after another process began to drive the session: input reported as refused must not be
        answered later. If the other process has already read it, say that it will be answered.
        """
        if not self.result.seq:
            return
        try:
            await self.repl_session.service.withdraw(self.result.session_id, [self.result.seq], "busy")
        except ConflictError as error:
            raise SessionBusy(
                f"session {self.result.session_id} is driven by another process, which has read this and answers it; "
                f"`outlast sessions show {self.result.session_id[:8]}` shows the answer"
            ) from error

    # --- events

    async def _listen(self, after: int) -> None:
        self._level = after
        async for item in feed(self.repl_session.agent.store, self.repl_session.session_id, after=after):
            match item:
                case EventStored(stored=stored, event=event):
                    self._happened(event)
                    if self.output == STREAM_JSON:
                        body = msgspec.Raw(codec.encode(event).body if isinstance(event, e.Event) else b"null")
                        _line({"seq": stored.seq, "kind": stored.kind, "at": stored.at, "body": body})
                case DraftChunk():
                    if self.output == STREAM_JSON:
                        cursor = {"seq": item.after_seq, "kind": "delta", "attempt": item.attempt_seq, "n": item.n}
                        _line({**cursor, "part": item.part, "text": item.text})
                case CaughtUp(seq=seq):
                    self._level = seq
                    self._reached.set()

    def _happened(self, event: e.Event | e.Opaque) -> None:
        if self._own.is_over:  # what follows answers another door's message, which this process drives as well
            self._own.has_followers = self._own.has_followers or isinstance(event, e.TurnStarted)
            return
        match event:
            case e.TurnStarted(inputs=inputs):
                self.result.question = self.result.plan = self._first_answer = None
                self._own.is_running = not self.result.seq or self.result.seq in inputs
            case e.InputPromoted(inputs=inputs) if self.result.seq in inputs:
                self._own.is_running = True
            case e.ToolCallStarted(call_id=call_id, arguments=arguments):
                self._calls[call_id] = arguments
            case e.ToolCallFinished():
                self._denied(event)
                self._unanswered(event, self._calls.pop(event.call_id, {}))
            case e.RuntimeStateChanged(changes={"memory_files": [*names]}) if names:
                _say(f"instructions from {', '.join(map(str, names))}")
            case e.TurnEnded(outcome=outcome, reason=reason):
                self.result.outcome, self.result.reason = outcome, reason
                self.result.note = str(event.facts.get("note") or "").strip() or None
                self._own.is_over = bool(self.result.seq) and self._own.is_running
            case e.AssistantReplied(model=model, parts=parts):
                self.result.model = model
                self._said = text_of(parts)
                if any(isinstance(part, ToolCall) for part in parts):
                    self._first_answer = None  # it went on with the work: its next text is the answer
            case e.CompletionDecided(code=code) if code in NUDGES:
                self._first_answer = self._first_answer or self._said
            case e.ReplyInterrupted(reason=reason) if event.parts or reason:
                self.result.reason = reason
            case _:
                pass

    def _unanswered(self, event: e.ToolCallFinished, arguments: dict[str, Any]) -> None:
        """Remember a question or a plan that no user could answer here; a later call that ran shows that the model
        could continue without the answer."""
        if event.name == "ask_user" and event.is_error:
            self.result.question = one_line(str(arguments.get("question", "")), 400)
        elif event.name == "exit_plan" and event.facts.get("approved", True) is None:
            self.result.plan = str(arguments.get("plan", ""))
        elif event.status == "executed":
            self.result.question = None

    def _denied(self, event: e.ToolCallFinished, whose: str = "") -> None:
        """Report a denied call of this session, or of a sub-agent it started, once, with the flag that allows it."""
        below = event.facts.get("session_id")
        if event.status in DENIED:
            remedy = event.facts.get("remedy")
            flag = f" ({remedy} allows it)" if isinstance(remedy, str) else ""
            self._say_once(f"{whose}{event.name} was not executed: {denial_reason(event)}{flag}")
        for told in denied_while_running(event):
            self._say_once(f"{whose}{told}")
        if event.name == "task" and isinstance(below, str):
            for _, one in rows_of(self.repl_session.agent.store, below):
                if isinstance(one, e.ToolCallFinished):
                    self._denied(one, "sub-agent: ")

    def _say_once(self, told: str) -> None:
        if told not in self.result.denied:
            self.result.denied.append(told)
            _say(told)

    async def _heard_all(self, listening: asyncio.Task[None]) -> None:
        """Wait until the listener has seen all stored events; the feed of a rotated session ends at the rotation."""
        agent = self.repl_session.agent
        last = agent.session.state.last_seq if agent.session.exists else 0
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while self._level < last and not listening.done():
                    self._reached.clear()
                    await self._reached.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    # --- result

    def _finish(self) -> None:
        agent, result = self.repl_session.agent, self.result
        state = agent.session.state
        result.last_seq = state.last_seq
        result.answer = self._first_answer or (self._said if self._own.has_followers else result.answer)
        summary = agent.last_turn_summary
        if summary is not None:
            result.usage = summary.usage
            known = not summary.usage.get("unpriced")
            result.cost = summary.usage.get("cost_micros", 0) / 1e6 if known else None
        if result.note:
            _say(f"note: {result.note}")
        if self.output == STREAM_JSON:
            _line({"kind": "result", **msgspec.to_builtins(result)})
        elif self.output == JSON:
            _line(msgspec.to_builtins(result))
        elif self.repl_session.start.model == NO_MODEL:
            print(f"{result.session_id} {result.seq}")
        elif text := shown_answer(result):
            if sys.stdout.isatty():  # a pipe gets the answer as it is; a terminal would obey what it hides
                text = readable(text)
            sys.stdout.buffer.write(text.encode("utf-8", "replace").rstrip(b"\n") + b"\n")
            sys.stdout.buffer.flush()


def shown_answer(result: PrintResult) -> str:
    """The answer; before it the plan that no user could approve, if the answer is too short to repeat it."""
    if not result.plan or len(result.answer) * 2 >= len(result.plan):
        return result.answer
    return f"{result.plan.rstrip()}\n\n{result.answer}"


def _line(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(_json(value) + b"\n")
    sys.stdout.buffer.flush()


def _json(value: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, ValueError):  # half a character in a draft; the stored event has it whole
        return msgspec.json.encode(
            {
                name: one.encode("utf-8", "replace").decode() if isinstance(one, str) else one
                for name, one in value.items()
            }
        )


def _say(text: str) -> None:
    print(f"outlast: {one_line(text, 4000)}", file=sys.stderr, flush=True)
