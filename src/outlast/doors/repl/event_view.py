"""View of the event log: prints a line for each event worth showing, and streams replies as Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from outlast.app.streams.cursor import DraftChunk
from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.messages import Part, Role, ToolCall, text_of
from outlast.core.state import SessionState
from outlast.doors.repl.input.attachments import going_along, typed
from outlast.doors.repl.input.bang_command import BangResult
from outlast.doors.repl.render.markdown_stream import MarkdownStream
from outlast.doors.repl.render.renderables import CallLine, diff, folded, markdown
from outlast.doors.repl.render.status import OutputTail, elapsed
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.render.tool_call_line import one_line, titled_call, told_call, told_result
from outlast.doors.terminal_text import output, readable
from outlast.runtime.turn.observer import ModelWait, RetryWait

DIFF_LINES = 24
OWN_LINES = 60
KEPT = 200
CALL_LENGTH = 300
RUNTIME_PREFIX = "[Outlast runtime]"
TAILS = 16
REFUSED = frozenset({"blocked", "declined"})


class ToolCallEntry(msgspec.Struct, kw_only=True):
    """A tool call that was printed on one line, with everything `/expand` shows."""

    name: str
    line: str
    call: dict[str, object]
    result: str
    change: str = ""


class EventView:
    """Draws a session. `put` prints permanently; `doing` is the current activity, for the spinner."""

    def __init__(self, put: Callable[[RenderableType], None]) -> None:
        self._put = put
        self.stream = MarkdownStream()
        self.thinking = ""
        self.doing = ""
        self.doing_since = time.monotonic()
        self._wait: tuple[ModelWait, float] | None = None
        self._interrupted = ""
        self.turn_since: float | None = None
        self.calls: list[ToolCallEntry] = []
        self._asked: dict[str, tuple[str, dict[str, object]]] = {}
        self._tails: dict[str, OutputTail] = {}
        self._below: dict[str, tuple[str, str]] = {}

    def come_to(self, state: SessionState) -> None:
        """Load the open calls of a session that is entered in the middle of a turn."""
        for call in state.open_calls:
            self._asked[call.call_id] = (call.name, dict(call.arguments or {}))

    # --- output of running tools

    def progress(self, call_id: str, text: str) -> None:
        """Add output of a running call; it may arrive before the log shows the call."""
        while len(self._tails) >= TAILS and call_id not in self._tails:
            self._tails.pop(next(iter(self._tails)))
        self._tails.setdefault(call_id, OutputTail()).add(text)

    def below(self, session_id: str, doing: str | None, call_id: str = "") -> None:
        """Set what a sub-agent is doing and the call it runs; None when the sub-agent is done."""
        if doing is None:
            self._below.pop(session_id, None)
        else:
            self._below[session_id] = (doing, call_id)

    def running_lines(self) -> list[str]:
        """Why the model is asked again, what the sub-agents are doing, and the last output lines of the newest running
        call that has output."""
        if self._wait is not None and isinstance(self._wait[0], RetryWait):
            return [self._wait[0].reason]
        told = [f"↳ {doing}" for doing, _ in self._below.values()]
        running = {*self._asked, *(call_id for _, call_id in self._below.values())}
        tails = [tail for call_id, tail in self._tails.items() if call_id in running]
        return [*told, *(tails[-1].lines() if tails else [])]

    # --- waits for the model

    def waits(self, wait: ModelWait | None) -> None:
        """Set what the turn waits for: the next attempt, or data of an open reply. None: it waits no more."""
        if isinstance(wait, RetryWait):
            wait = msgspec.structs.replace(wait, reason=one_line(wait.reason, 300))
        self._wait = (wait, time.monotonic()) if wait is not None else None

    @property
    def activity(self) -> str:
        """What the turn is doing now, with the countdown of a wait."""
        if self._wait is None:
            return self.doing or "working"
        wait, since = self._wait
        passed = time.monotonic() - since
        return wait.countdown(passed) if isinstance(wait, RetryWait) else wait.at(passed)

    def _requested(self, attempt: int) -> None:
        """Show that the model is asked. The event may come later than the news that its attempt has failed."""
        if self._wait is not None and (not isinstance(self._wait[0], RetryWait) or self._wait[0].attempt <= attempt):
            self._wait = None
        if self._interrupted:
            self._note(f"{self._interrupted}; retrying (attempt {attempt})", "yellow")
            self._interrupted = ""
        self._do("waiting for the model" if attempt == 1 else f"retrying the model request (attempt {attempt})")

    # --- streamed replies

    def drafted(self, piece: DraftChunk) -> None:
        self._wait = None
        if piece.part == "text":
            self.thinking = ""
            self._do("writing")
            block = self.stream.add(readable(piece.text))
            self._print(block)
        elif piece.part == "reasoning":
            self.thinking = (self.thinking + readable(piece.text))[-2000:]
            self._do("thinking")
        else:
            self._do(f"preparing {one_line(piece.part.rpartition(':')[2], 40)}")

    def _print(self, block: str) -> None:
        """Print a block of a reply permanently, separated by an empty line as in the complete Markdown."""
        if block.strip():
            self._put(Text())
            self._put(markdown(block.strip("\n")))

    def _do(self, what: str) -> None:
        """Set the current activity. Starts the clock of the turn if its start was not seen."""
        if self.turn_since is None:
            self.turn_since = time.monotonic()
        if what != self.doing:
            self.doing, self.doing_since = what, time.monotonic()

    def _close_reply(self, whole: str | None) -> None:
        rest = self.stream.close(readable(whole) if whole is not None else None)
        self._print(rest)
        self.stream, self.thinking = MarkdownStream(), ""

    # --- events

    def happened(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        """Show one event."""
        match event:
            case e.InputAdmitted(parts=parts, delivery=delivery):
                self._said(parts, delivery)
            case e.MessageAppended(role=Role.SYSTEM, parts=parts):
                told = text_of(parts).removeprefix(RUNTIME_PREFIX).strip()
                self._note(f"Outlast told the model: {one_line(told, 300)}")
            case e.TurnStarted():
                self.turn_since = time.monotonic()
                self._do("starting")
            case e.ModelRequested(attempt=attempt):
                self._requested(attempt)
            case e.AssistantReplied(parts=parts):
                self._wait = None
                self._close_reply(text_of([part for part in parts if not isinstance(part, ToolCall)]) or None)
                self._asked = {
                    part.id: (part.name, dict(part.arguments)) for part in parts if isinstance(part, ToolCall)
                }
                self._do("working")
            case e.ReplyInterrupted(reason=reason, parts=parts):
                # Printed with what follows: another attempt, or the end of the turn, which names the reason itself.
                self._close_reply(None)
                self._interrupted = f"{'the reply broke off: ' if parts else ''}{one_line(reason, 160)}"
                self._do("waiting to retry the model request")
            case e.RuntimeStateChanged(changes={"dialect": {"reason": str(reason)}}):
                self._interrupted = ""
                self._note(f"tool calls are text from now on: {one_line(reason, 160)}")
            case e.ToolCallStarted(call_id=call_id, name=name, arguments=arguments):
                self._asked[call_id] = (name, dict(arguments))
                self._do(f"running {told_call(name, arguments, CALL_LENGTH)}")
            case e.ApprovalRequested(call_id=call_id, name=name, arguments=arguments):
                self._asked.setdefault(call_id, (name, dict(arguments)))
            case e.ToolCallFinished():
                self._finished(event)
            case e.TurnEnded():
                self._ended(event)
            case _:
                self._change(event)

    def _said(self, parts: tuple[Part, ...], delivery: e.Delivery) -> None:
        lines = readable(typed(parts)).rstrip().split("\n")
        said = Text(f"{HERE} ", style="bold cyan")
        said.append("\n  ".join(lines), style="bold")
        if self.turn_since is not None:
            said.append("  (steers the turn)" if delivery is e.Delivery.STEER else "  (queued)", style="dim")
        for name, size in going_along(parts):
            said.append(f"\n  [{one_line(name, 60)}, {size:,} bytes]", style="dim")
        self._put(Text())
        self._put(said)

    def _finished(self, event: e.ToolCallFinished) -> None:
        name, arguments = self._asked.pop(event.call_id, (event.name, {}))
        self._tails.pop(event.call_id, None)
        told, refused = titled_call(name, arguments, CALL_LENGTH), event.status in REFUSED
        style = "yellow" if refused else "red" if event.is_error else "green"
        line = CallLine(
            "✗" if event.is_error else "●",
            style,
            told,
            told_result(event),
            reason=refused,
        )
        change = str(event.facts.get("diff") or "")
        shown = ToolCallEntry(name=name, line=line.plain, call=arguments, result=text_of(event.parts), change=change)
        self.calls = [*self.calls[-KEPT:], shown]
        self._put(line)
        if name == "todo" and not event.is_error:
            self._put(Padding(Text(output(text_of(event.parts)), style="dim"), (0, 0, 0, 2)))
        elif name == "exit_plan" and "approved" in event.facts:
            self._put(Padding(markdown(readable(str(arguments.get("plan", "")))), (0, 0, 0, 2)))
        elif change and not event.is_error:
            self._put(diff(change, DIFF_LINES))
        self._do("working")

    def ran(self, own: BangResult) -> None:
        """Print the result of the user's own `!command`; a long output is folded."""
        text = output(own.output).rstrip() or "(no output)"
        shown = ToolCallEntry(name="!", line=f"! {readable(own.command)}", call={}, result=text)
        self.calls = [*self.calls[-KEPT:], shown]
        self._put(Padding(folded(text, OWN_LINES), (0, 0, 0, 2)))
        if own.code:
            self._note(f"exit code {own.code}" if own.code > 0 else "stopped", "red")

    def _ended(self, event: e.TurnEnded) -> None:
        self._close_reply(None)
        took = elapsed(time.monotonic() - self.turn_since) if self.turn_since is not None else ""
        note = str(event.facts.get("note") or "").strip()
        if note:
            self._note(f"Outlast: {one_line(note, 300)}")
        reason = f": {one_line(event.reason, 300)}" if event.reason and event.outcome != "completed" else ""
        match event.outcome:
            case "completed":
                self._note(f"done in {took}" if took else "done")
            case "stopped":
                self._note(f"stopped{reason}", "yellow")
            case "interrupted":
                self._note(f"stopped{reason}; the session is kept, and you can go on", "yellow")
            case "budget_exhausted":
                self._note(f"stopped{reason}; send a message to go on", "yellow")
            case _:
                self._note(f"the turn failed{reason}; /retry tries again", "red")
        self.turn_since, self.doing, self._wait, self._interrupted = None, "", None, ""
        self._asked, self._tails, self._below = {}, {}, {}

    def _change(self, event: e.Event | e.Opaque) -> None:
        told = told_change(event)
        if told is not None:
            self._note(told)

    def _note(self, text: str, style: str = "dim") -> None:
        self._put(Text(f"· {text}", style=style))


def told_change(event: e.Event | e.Opaque) -> str | None:
    """Describe in one sentence what an event changes in the session; None if there is nothing to report."""
    match event:
        case e.Compacted(tokens_before=before, tokens_after=after, summarised=False):
            return f"old tool outputs pruned, from {before:,} to {after:,} tokens; /uncompact takes it back"
        case e.Compacted(tokens_before=before, tokens_after=after):
            return f"compacted from {before:,} to {after:,} tokens; /uncompact takes it back"
        case e.CompactionUndone():
            return "the compaction is undone: the model sees the originals again"
        case e.HistoryCleared():
            return "cleared: the messages are archived, the session goes on"
        case e.Rewound():
            return "rewound; /undo rewind takes it back"
        case e.RewindUndone():
            return "the rewind is undone"
        case e.SessionRenamed(title=title):
            return f"renamed to {one_line(title)}"
        case e.ModelChanged(model=model):
            return f"the model is {one_line(model)} from the next turn on"
        case e.PersonaChanged(persona=persona):
            return f"the persona is {one_line(persona)} from the next turn on"
        case e.InputWithdrawn(reason=reason) if reason != "rewound":
            return "withdrawn: the model had not read it yet"
        case e.SessionClosed():
            return "the session was ended"
        case e.SessionRotated(to_session_id=to):
            return f"the session continues as {to[:8]}"
        case _:
            return None
