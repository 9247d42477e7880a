"""Controller of the REPL: connects the current session, its event feed, its running turn and the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.console import RenderableType
from rich.text import Text

from outlast.app.sandbox import sandbox_word
from outlast.app.sessions.context_usage import assumed_window, context_use
from outlast.app.sessions.detail import driven_by
from outlast.app.sessions.pending_approvals import change_of, is_from_runtime, scope_of
from outlast.app.streams.cursor import DraftChunk
from outlast.app.streams.event_feed import EventStored, feed, rows_of
from outlast.app.turn_setup import TurnSetup, build_turn_context
from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.state import SessionState
from outlast.core.workflow_mode import Workflow, plan_mode_values
from outlast.doors.repl.approval_panel import ApprovalPanel, ApprovalQuestion
from outlast.doors.repl.event_view import EventView
from outlast.doors.repl.input.attachments import pasted_picture
from outlast.doors.repl.launch import ReplSession
from outlast.doors.repl.render.status import StatusLine
from outlast.doors.repl.render.tool_call_line import told_call
from outlast.doors.repl.screen import ESCAPE_SECONDS, Screen
from outlast.doors.repl.session_picker import PickerOption, SessionPicker
from outlast.doors.repl.sub_agents import SubAgents
from outlast.doors.repl.turn_task import TurnTask
from outlast.doors.terminal_text import readable
from outlast.runtime.turn.context import TurnContext
from outlast.session import ConversationSession

T = TypeVar("T")


class ReplController:
    """State and actions of one REPL. `screen` is set after construction."""

    screen: Screen

    def __init__(self, repl_session: ReplSession) -> None:
        self.repl_session = repl_session
        self.panel = ApprovalPanel()
        self.status = StatusLine()
        self.view = EventView(self.put)
        self.work = TurnTask(repl_session, self.say)
        self.next_input: str | None = None
        self.next_is_foreign = False
        """Whether a project's command wrote `next_input`: it attaches only files that the model may read unasked."""
        self.pasted: list[Path] = []
        self._following: asyncio.Task[None] | None = None
        self._setup: TurnSetup | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._below = SubAgents(
            lambda: repl_session.agent.store, self.run, self._came_below, self._noticed_below, self._gone_below
        )
        repl_session.running.progress = lambda call_id, text: self.view.progress(call_id, text)
        repl_session.running.waits = lambda wait: self.view.waits(wait)

    # --- output

    def put(self, renderable: RenderableType) -> None:
        self.screen.put(renderable)

    def say(self, text: str, style: str = "yellow") -> None:
        """Print one sentence from the REPL itself."""
        self.put(Text(f"· {readable(text)}", style=style))

    def run(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run this in the background; print the error if it raises an OutlastError or an OSError."""
        task = asyncio.ensure_future(self._told(doing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _told(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except OutlastError as error:
            self.say(str(error), "red")
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            self.say(f"{error.strerror or error}{place}; check that it exists and its permissions", "red")

    # --- prompts

    async def pick(self, title: str, options: Sequence[PickerOption[T]], hint: str = "") -> T | None:
        await self.screen.flush()
        async with self.screen.apart():
            # Wait until the screen's parser has timed out: it would swallow the picker's first Escape.
            await asyncio.sleep(2 * ESCAPE_SECONDS)
            try:
                return await SessionPicker(title, options, hint).choose()
            except EOFError:  # the terminal is gone: nothing is chosen
                return None

    async def confirm(self, question: str, *, yes: str, no: str, first: bool = True) -> bool:
        """`first` is the meaning of a bare Enter; Esc always means no."""
        options = [PickerOption(True, yes), PickerOption(False, no)]
        return bool(await self.pick(question, options if first else options[::-1], "Enter chooses · Esc is no"))

    async def paste_picture(self) -> None:
        """Save the picture from the clipboard as a file and attach it to the message being typed, by its path."""
        path = await pasted_picture(self.repl_session.agent.settings.home / "pasted")
        self.pasted.append(path)
        self.screen.input.insert_text(f'@"{path}" ')

    # --- the session

    @property
    def session(self) -> ConversationSession:
        return self.repl_session.agent.session

    def turn_context(self) -> TurnContext:
        """The context that the next turn would use; for boundaries, previews and the context meter."""
        agent = self.repl_session.agent
        return build_turn_context(agent.settings, agent.config, agent.project_root, agent.session.state)

    async def boundary(self, what: str, **arguments: Any) -> bool:
        """Apply a history boundary. Returns False if the driver will apply it between two steps."""
        if not self.session.exists:
            raise OutlastError("this session has no messages yet")
        done = await self.repl_session.service.boundary(self.session.session_id, what, arguments, self.turn_context())
        if done == "requested":
            self.say(f"{what} will be done between two steps of the running turn", "dim")
        return done == "done"

    async def take(self, session: ConversationSession | None) -> None:
        """Switch to that session, or to a new one if None."""
        if self.work.is_running:
            raise OutlastError("a turn is running here; /stop it first")
        gone = None
        if session is None:
            self.repl_session.new_session()
        else:
            gone = await self.repl_session.take_up(session.header)
        await self.leave()
        self.panel.drop()
        self.view = EventView(self.put)
        self.follow()
        self.refresh()
        if gone is not None:
            self.say(gone)

    def follow(self) -> None:
        """Follow the session's events from now on, if it is stored; `follow_new` follows one that was just created."""
        if self.session.exists and self._following is None:
            self.view.come_to(self.session.state)
            self._following = asyncio.ensure_future(self._follow(self.session.session_id, self.session.state.last_seq))

    def follow_new(self) -> None:
        """Follow a session that was just created, from its first event."""
        if self._following is None:
            self._following = asyncio.ensure_future(self._follow(self.session.session_id, 0))

    async def leave(self) -> None:
        self._below.leave(self.session.session_id)
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None

    async def _follow(self, session_id: str, after: int) -> None:
        await self._ask_open(session_id)
        async for item in feed(self.repl_session.agent.store, session_id, after=after):
            if isinstance(item, DraftChunk):
                self.view.drafted(item)
            elif isinstance(item, EventStored):
                self.view.happened(item.stored, item.event)
                self._below.happened(session_id, item.stored.seq, item.event)
                await self._noticed(session_id, item.stored.seq, item.event)
            self.screen.redraw()

    async def _noticed(self, session_id: str, seq: int, event: e.Event | e.Opaque) -> None:
        match event:
            case e.ApprovalRequested():
                await self._ask(session_id, seq, event)
            case e.ApprovalAnswered(approval_seq=asked_seq, answer=answer):
                self._answered(session_id, asked_seq, answer)
            case e.ModelRequested(input_tokens_estimate=estimate) if estimate:
                self.status.used = estimate
            case e.AssistantReplied(usage=usage):
                self.status.used = max(self.status.used, usage.input_tokens + usage.output_tokens)
                self.status.take(self.session.state)
            case e.TurnEnded():
                self.panel.drop()
                self.screen.focus_panel(False)
                self.screen.bell()
                self._measure()
            case e.SessionRotated(to_session_id=to):
                self.repl_session.agent.open_session(to)
                self._following = asyncio.ensure_future(self._follow(to, self.session.state.last_seq))
                self.refresh()
            case e.RuntimeStateChanged(changes=changes) if "workflow" in changes:
                self.refresh(meter=False)
            case e.RuntimeStateChanged(changes=changes) if "workflow_mode" in changes:
                self._show_lane()
            case e.ModelChanged() | e.PersonaChanged() | e.HistoryCleared() | e.Rewound() | e.Compacted():
                self.refresh()
            case _:
                pass

    # --- sub-agents

    async def _came_below(self, session_id: str, state: SessionState) -> None:
        self.view.below(session_id, "a sub-agent begins")
        for call in state.open_calls:
            if call.started_seq:
                self.view.below(session_id, told_call(call.name, call.arguments or {}), call.call_id)
        await self._ask_all(session_id, state)

    async def _noticed_below(self, session_id: str, seq: int, event: e.Event | e.Opaque) -> None:
        match event:
            case e.ApprovalRequested():
                await self._ask(session_id, seq, event)
            case e.ApprovalAnswered(approval_seq=asked_seq, answer=answer):
                self._answered(session_id, asked_seq, answer)
            case e.ModelRequested():
                self.view.below(session_id, "waiting for the model")
            case e.ToolCallStarted(call_id=call_id, name=name, arguments=arguments):
                self.view.below(session_id, told_call(name, arguments), call_id)
            case _:
                pass

    def _gone_below(self, session_id: str) -> None:
        self.view.below(session_id, None)
        self.panel.leave(session_id)
        self.screen.focus_panel(self.panel.focused)

    # --- questions

    async def _ask_open(self, session_id: str) -> None:
        """Show the questions that were asked before this follower connected and are still open."""
        if self.work.is_running or self.is_driven:
            state = self.session.state
            await self._ask_all(session_id, state)
            self._below.come_to(session_id, state)

    async def _ask_all(self, session_id: str, state: SessionState) -> None:
        for open_one in state.open_approvals:
            [(_, event)] = rows_of(
                self.repl_session.agent.store, session_id, after=open_one.seq - 1, before=open_one.seq + 1
            )
            if isinstance(event, e.ApprovalRequested):
                await self._ask(session_id, open_one.seq, event)

    @property
    def is_driven(self) -> bool:
        """Whether another process drives this session."""
        return self.session.exists and driven_by(self.repl_session.agent.store, self.session.session_id) is not None

    async def ask_again(self) -> None:
        """Show the open questions of an interrupted turn that continues here."""
        if self.session.exists:
            await self._ask_open(self.session.session_id)

    async def _ask(self, session_id: str, seq: int, event: e.ApprovalRequested) -> None:
        context = self.repl_session.running.context or self.turn_context()
        change = await change_of(context, session_id, event.name, event.arguments)
        reason = event.reason
        if session_id != self.session.session_id:
            reason = f"a sub-agent asks: {reason or ''}".rstrip(": ")
        asked = ApprovalQuestion(
            session_id=session_id,
            seq=seq,
            name=event.name,
            arguments=event.arguments,
            call_digest=event.call_digest,
            reason=reason,
            change=change,
            scope=scope_of(context, event.name, event.arguments),
            from_runtime=is_from_runtime(event),
        )
        if self.panel.ask(asked):
            self.screen.focus_panel(self.panel.focused or not self.screen.input.text)
            self.screen.bell()
            self.screen.redraw()

    def _answered(self, session_id: str, asked_seq: int, answer: str) -> None:
        asked = self.panel.take((session_id, asked_seq))
        self.screen.focus_panel(self.panel.focused)
        if asked is not None:
            self.say(f"answered: {asked.label(answer) if answer in asked.choices else answer}", "dim")

    async def answer(self, text: str) -> None:
        """Send the user's answer to the open question; the store keeps the first answer."""
        asked = self.panel.asked
        if asked is not None:
            self.panel.take(asked.at)
            self.screen.focus_panel(self.panel.asked is not None)
            await self.repl_session.service.answer(asked.session_id, asked.seq, text, asked.call_digest)

    # --- the status line

    def refresh(self, *, meter: bool = True) -> None:
        """Update everything the status line shows."""
        agent = self.repl_session.agent
        state = agent.session.state
        self.status.session = agent.session.session_id[:8] if agent.session.exists else ""
        self.status.mode = agent.active_permission_mode
        self.status.sandbox = sandbox_word(agent.settings, self.status.mode)
        self.status.take(state)
        try:
            setup = self._setup = agent.turn_setup()
        except OutlastError as error:
            self.status.model, self.status.window = str(error), 0
            return
        self.status.model = setup.model.name if setup.model is not None else "none"
        self._show_lane()
        if meter:
            self._measure()

    @property
    def workflow(self) -> str:
        """The workflow of the next turn."""
        chosen = self.repl_session.choices.get("workflow")
        return str(chosen or self.repl_session.agent.turn_setup().workflow)

    def _show_lane(self) -> None:
        """Show plan mode, and the workflow if it is not the plain one."""
        chosen = self.repl_session.choices.get("workflow")
        workflow = str(chosen or (self._setup.workflow if self._setup is not None else ""))
        shown = ["plan mode"] if self.repl_session.plan_mode else []
        self.status.lane = " · ".join([*shown, *([workflow] if workflow == Workflow.GUIDED else [])])

    def _measure(self) -> None:
        """Update the context meter from what is known about the model."""
        session = self.session
        self.status.take(session.state)
        self._show_lane()
        found = context_use(self._setup, session.messages, session.state)
        self.status.window, self.status.used = found.window, found.used

    async def tell_assumed_window(self) -> None:
        """Say once that the size of the model's window is a guess, after its server had time to tell."""
        setup = self._setup
        if setup is None:
            return
        assumed = await assumed_window(setup)
        if assumed is not None:
            name = setup.model.name if setup.model is not None else ""
            self.say(f"the context window of {name} is assumed to be {assumed:,} tokens: set context_window", "dim")
        if setup is self._setup:
            self._measure()

    async def choose(self, values: dict[str, Any]) -> None:
        """Record runtime values of the session, and show them at once."""
        try:
            await self.repl_session.choose(values)
        finally:
            self.refresh(meter=False)
            self.screen.redraw()

    async def set_plan_mode(self, on: bool) -> None:
        await self.choose(plan_mode_values(on))

    def change_running_mode(self, mode: str) -> None:
        """Change the permission mode of the running turn, if there is one."""
        if self.work.is_running:
            self.repl_session.running.request(mode)

    def change_config(self, **changes: Any) -> None:
        agent = self.repl_session.agent
        agent.config = msgspec.structs.replace(agent.config, **changes)
        self.refresh(meter=False)


Doing = Callable[[ReplController, str], Coroutine[Any, Any, None]]
