"""The interactive REPL: admits input and shows events until the user leaves. Leaving loses nothing."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
from contextlib import closing

import msgspec
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.console import RenderableType
from rich.text import Text

from outlast.app.permissions import is_readable_unasked
from outlast.app.sandbox import sandbox_warning
from outlast.app.stores import store_at
from outlast.app.turn_setup import instruction_files
from outlast.core.errors import OutcomeUnknown, OutlastError
from outlast.core.messages import Message, Part, Role
from outlast.doors.repl.commands import commands_of, help_page, unknown
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.input.attachments import attached
from outlast.doors.repl.input.bang_command import BangCommand
from outlast.doors.repl.input.completer import InputCompleter
from outlast.doors.repl.key_bindings import DoublePress, KeyMap
from outlast.doors.repl.launch import NO_MODEL, PICK, REPL, LaunchOptions, ReplSession, open_repl_session
from outlast.doors.repl.render.renderables import markdown
from outlast.doors.repl.render.status import activity
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.resume_prompt import arrived
from outlast.doors.repl.screen import REDRAW_SECONDS, Screen
from outlast.doors.repl.session_picker import choose_session, session_rows
from outlast.doors.repl.transcript import show_transcript
from outlast.doors.repl.welcome import first_screen, settle_model
from outlast.doors.terminal_text import readable

_COMMAND = re.compile(r"/[^\W\d_][^\s/]*(\s|\Z)")
"""Matches a slash command, but not a path at the start of a message."""

LEFT_BY_SIGNAL = {signal.SIGHUP: 129, signal.SIGTERM: 143}


def converse(start: LaunchOptions) -> int:
    """Run the REPL and return its exit code."""
    return asyncio.run(_converse(start))


async def _converse(start: LaunchOptions) -> int:
    start = await settle_model(start)
    if start.resume == PICK:
        with closing(store_at(start.store)) as store:
            try:
                picked = await choose_session(None, store, start.settings().project_root)
            except (EOFError, OSError):  # the terminal is gone
                return LEFT_BY_SIGNAL[signal.SIGHUP]
        if picked is None:
            return 0
        start = msgspec.structs.replace(start, resume=picked)
    repl_session = open_repl_session(start, REPL)
    with closing(repl_session.agent.store):
        return await Repl(repl_session).run()


class Repl:
    """One REPL. Everything in it runs in one event loop."""

    def __init__(self, repl_session: ReplSession) -> None:
        self.controller = controller = ReplController(repl_session)
        self._twice = DoublePress()
        self._own: BangCommand | None = None
        self._unsure: dict[str, str] = {}
        keys = KeyMap(controller, self.submit, self.interrupt)
        words = InputCompleter(
            lambda: repl_session.agent.project_root,
            lambda: (
                {name: command.about for name, command in commands_of(controller).items()}
                | {"help": "show all of this"}
            ),
            lambda: [(row.session_id, row.title or "") for row in session_rows(repl_session.agent.store, None)],
            lambda name: list(commands_of(controller)[name].words) if name in commands_of(controller) else [],
        )
        controller.screen = Screen(
            live=self._live,
            activity=self._activity,
            status=controller.status.line,
            panel=controller.panel,
            completer=words,
            keys=keys.bindings,
            history=repl_session.agent.settings.home / "repl_history",
        )

    async def run(self) -> int:
        controller = self.controller
        loop = asyncio.get_running_loop()
        for number, code in LEFT_BY_SIGNAL.items():
            loop.add_signal_handler(number, self._leave, code)
        controller.refresh()
        await self._greet()
        ticking = asyncio.ensure_future(self._tick())
        controller.follow()
        code = LEFT_BY_SIGNAL[signal.SIGTERM]
        try:
            code = await controller.screen.app.run_async(pre_run=self._begin)
        except (EOFError, OSError):  # the terminal is gone
            code = LEFT_BY_SIGNAL[signal.SIGHUP]
        finally:
            ticking.cancel()
            if self._own is not None:
                self._own.stop()
            await controller.work.close(leaves=code == LEFT_BY_SIGNAL[signal.SIGTERM])
            await controller.leave()
            for path in controller.pasted:  # pictures that were sent are in the log
                path.unlink(missing_ok=True)
        if code != LEFT_BY_SIGNAL[signal.SIGHUP]:
            await controller.screen.flush()
        self._goodbye(code)
        return code

    def _begin(self) -> None:
        self.controller.run(self._first())

    async def _greet(self) -> None:
        controller = self.controller
        agent = controller.repl_session.agent
        note = agent.turn_setup().model_note
        for line in first_screen(agent.settings, controller.status.model, agent.store.url, note):
            controller.put(line)
        warning = sandbox_warning(agent.settings, agent.active_permission_mode)
        if warning is not None:
            controller.say(warning)
        if controller.repl_session.came_from:
            controller.say(controller.repl_session.came_from, "dim")
        if controller.repl_session.moved:
            controller.say(controller.repl_session.moved)
        if controller.session.exists:
            show_transcript(controller)
        else:
            self._name_instructions()
        controller.screen.clear_line()
        await controller.screen.flush()

    def _name_instructions(self) -> None:
        """Name the files that a new session will follow, and each skill that cannot be used."""
        agent = self.controller.repl_session.agent
        told = instruction_files(agent.settings, agent.config, agent.project_root)
        if told.text:
            self.controller.say(told.text, "dim")
        for warning in told.warnings:
            self.controller.say(warning)

    async def _first(self) -> None:
        """Before the user types: ask for pending consents, offer interrupted work, then send the prompt of the command
        line.
        """
        controller = self.controller
        controller.run(controller.tell_assumed_window())
        await arrived(controller)
        await self._say_next()
        if controller.repl_session.start.prompt:
            await self._say(controller.repl_session.start.prompt)

    def _goodbye(self, code: int) -> None:
        session = self.controller.session
        if code == 0 and session.exists:
            print(f"Kept as {session.session_id[:8]}: outlast -c continues it.")

    # --- input

    def submit(self, text: str) -> None:
        self._twice.forget()
        self.controller.run(self._submit(text))

    async def _submit(self, text: str) -> None:
        controller = self.controller
        asked = controller.panel.asked
        if asked is not None and not asked.is_approval and text.strip():
            await controller.answer(text.strip())
        elif _COMMAND.match(text):
            await self._command(text[1:].rstrip())
        elif text.startswith("!") and text[1:].strip():
            await self._own_command(text[1:].strip())
        elif text.strip():
            await self._say(text)

    async def _say(self, text: str, *, is_foreign: bool = False) -> None:
        """Admit a message. If that fails, put the text back into the input line, so that it is not lost."""
        controller = self.controller
        project = controller.repl_session.agent.project_root
        found = attached(text, project, (lambda path: is_readable_unasked(path, project)) if is_foreign else None)
        for problem in found.problems:
            controller.say(problem)
        fresh = not controller.session.exists
        try:
            await self._admit(text, found.parts)
        except (OutlastError, OSError):
            controller.screen.offer(text)
            raise
        if fresh:
            controller.follow_new()
        controller.work.wake()
        controller.refresh(meter=False)
        if controller.repl_session.start.model == NO_MODEL:
            controller.say("stored; no model is set, so there is no answer", "dim")

    async def _admit(self, text: str, parts: tuple[Part, ...]) -> None:
        """Admit with a key. If the outcome is unknown, sending the same text again reuses the key, so it is stored
        once.
        """
        key = self._unsure.pop(text, "") or secrets.token_hex(16)
        try:
            await self.controller.work.admit(parts, key=key)
        except OutcomeUnknown as error:
            self._unsure[text] = key
            raise OutlastError(f"{error.told}; Enter sends it again, and it is stored once") from error

    async def _say_next(self) -> None:
        """Send the message that a command left in `next_input`."""
        said, self.controller.next_input = self.controller.next_input, None
        is_foreign, self.controller.next_is_foreign = self.controller.next_is_foreign, False
        if said is not None:
            await self._say(said, is_foreign=is_foreign)

    async def _command(self, line: str) -> None:
        controller = self.controller
        name, _, arguments = line.partition(" ")
        known = commands_of(controller)
        controller.put(Text())
        controller.put(Text(f"{HERE} /{readable(line)}", style="dim"))
        if name == "help":
            controller.put(help_page(known))
        elif name not in known:
            controller.say(unknown(name, known))
        else:
            await known[name].run(controller, arguments)
            await self._say_next()

    async def _own_command(self, command: str) -> None:
        controller = self.controller
        if self._own is not None:
            raise OutlastError("a command of yours is running; Ctrl-C stops it")
        self._own = BangCommand(command, controller.repl_session.agent.project_root)
        controller.put(Text())
        controller.put(Text(f"! {readable(command)}", style="bold magenta"))
        try:
            ran = await self._own.run()
        finally:
            self._own = None
        controller.view.ran(ran)
        fresh = not controller.session.exists
        await controller.session.append_async(Message(role=Role.USER, content=ran.message()))
        if fresh:
            controller.follow_new()

    # --- stopping and leaving

    def interrupt(self) -> None:
        """Ctrl-C: stops what is running, otherwise clears the input line; a second press within a second leaves."""
        controller = self.controller
        again = self._twice.again()
        if again:
            self._leave(0)
        elif self._own is not None:
            self._own.stop()
        elif controller.work.is_running:
            controller.say("stopping; Ctrl-C again leaves", "dim")
            controller.run(self._stop())
        elif controller.screen.input.text:
            controller.screen.input.reset()
        else:
            controller.say("Ctrl-C again, or Ctrl-D, leaves; the session is kept", "dim")

    async def _stop(self) -> None:
        controller = self.controller
        taken_back = await controller.work.stop()
        controller.panel.drop()
        controller.screen.focus_panel(False)
        if taken_back:
            controller.screen.offer("\n".join(taken_back))

    def _leave(self, code: int) -> None:
        app = self.controller.screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    # --- the live area

    def _live(self, height: int) -> RenderableType | None:
        view = self.controller.view
        if view.stream.is_speaking:
            return markdown(view.stream.end_of_tail(height))
        if view.thinking.strip():
            return Text("\n".join(view.thinking.strip().splitlines()[-3:]), style="dim italic")
        return None

    def _activity(self, width: int) -> StyleAndTextTuples:
        controller, own = self.controller, self._own
        if own is not None:
            return activity("your command runs", own.since, "Ctrl-C stops it", own.tail.lines(), width)
        since = controller.view.turn_since
        if since is None or controller.panel.asked is not None:
            return []
        hint = "type to steer, /queue to queue · Ctrl-C stops"
        return activity(controller.view.activity, since, hint, controller.view.running_lines(), width)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS)
            if self.controller.view.turn_since is not None or self._own is not None:
                self.controller.screen.redraw()
