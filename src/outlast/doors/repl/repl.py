"""The REPL: what is typed is admitted, what happens is shown, until the user leaves. Leaving loses nothing."""

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

from outlast.app.stores import store_at
from outlast.core.errors import OutcomeUnknown, OutlastError
from outlast.core.messages import Message, Part, Role
from outlast.doors.repl.commands import commands_of, help_page, unknown
from outlast.doors.repl.controller import Room
from outlast.doors.repl.input.attachments import attached
from outlast.doors.repl.input.bang_command import OwnCommand
from outlast.doors.repl.input.completer import Words
from outlast.doors.repl.key_bindings import KeyTable, Twice
from outlast.doors.repl.launch import NO_MODEL, PICK, REPL, Desk, Start, desk_for
from outlast.doors.repl.render.escape import readable
from outlast.doors.repl.render.renderables import markdown
from outlast.doors.repl.render.status import activity
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.resume_prompt import arrived
from outlast.doors.repl.screen import REDRAW_SECONDS, Screen
from outlast.doors.repl.session_picker import choose_session, session_rows
from outlast.doors.repl.transcript import show_transcript
from outlast.doors.repl.welcome import first_screen, settle_model

_COMMAND = re.compile(r"/[^\W\d_][^\s/]*(\s|\Z)")
"""A path at the beginning of a message is no command."""

LEFT_BY_SIGNAL = {signal.SIGHUP: 129, signal.SIGTERM: 143}


def converse(start: Start) -> int:
    """Open the REPL; its exit code."""
    return asyncio.run(_converse(start))


async def _converse(start: Start) -> int:
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
    desk = desk_for(start, REPL)
    with closing(desk.agent.store):
        return await Repl(desk).run()


class Repl:
    """One REPL. Everything that runs in it runs in one event loop."""

    def __init__(self, desk: Desk) -> None:
        self.room = room = Room(desk)
        self._twice = Twice()
        self._own: OwnCommand | None = None
        self._unsure: dict[str, str] = {}
        keys = KeyTable(room, self.submit, self.interrupt)
        words = Words(
            lambda: desk.agent.project_root,
            lambda: {name: command.about for name, command in commands_of(room).items()} | {"help": "show all of this"},
            lambda: [(row.session_id, row.title or "") for row in session_rows(desk.agent.store, None)],
            lambda name: list(commands_of(room)[name].words) if name in commands_of(room) else [],
        )
        room.screen = Screen(
            live=self._live,
            activity=self._activity,
            status=room.status.line,
            panel=room.panel,
            completer=words,
            keys=keys.bindings,
            history=desk.agent.settings.home / "repl_history",
        )

    async def run(self) -> int:
        room = self.room
        loop = asyncio.get_running_loop()
        for number, code in LEFT_BY_SIGNAL.items():
            loop.add_signal_handler(number, self._leave, code)
        room.refresh()
        await self._greet()
        ticking = asyncio.ensure_future(self._tick())
        room.follow()
        try:
            code = await room.screen.app.run_async(pre_run=self._begin)
        except (EOFError, OSError):  # the terminal is gone
            code = LEFT_BY_SIGNAL[signal.SIGHUP]
        finally:
            ticking.cancel()
            if self._own is not None:
                self._own.stop()
            await room.work.close()
            await room.leave()
            for path in room.pasted:  # the log has those that were sent
                path.unlink(missing_ok=True)
        if code != LEFT_BY_SIGNAL[signal.SIGHUP]:
            await room.screen.flush()
        self._goodbye(code)
        return code

    def _begin(self) -> None:
        self.room.run(self._first())

    async def _greet(self) -> None:
        room = self.room
        for line in first_screen(room.desk.agent.settings, room.status.model, room.desk.agent.store.url):
            room.put(line)
        if room.desk.came_from:
            room.say(room.desk.came_from, "dim")
        if room.desk.moved:
            room.say(room.desk.moved)
        if room.session.exists:
            show_transcript(room)
        room.screen.clear_line()
        await room.screen.flush()

    async def _first(self) -> None:
        """What has to be done before the user types: settle what is open here, say what was given."""
        room = self.room
        await arrived(room)
        await self._say_next()
        if room.desk.start.prompt:
            await self._say(room.desk.start.prompt)

    def _goodbye(self, code: int) -> None:
        session = self.room.session
        if code == 0 and session.exists:
            print(f"Kept as {session.session_id[:8]}: outlast -c goes on with it.")

    # --- what is typed

    def submit(self, text: str) -> None:
        self._twice.forget()
        self.room.run(self._submit(text))

    async def _submit(self, text: str) -> None:
        room = self.room
        asked = room.panel.asked
        if asked is not None and not asked.is_approval and text.strip():
            await room.answer(text.strip())
        elif _COMMAND.match(text):
            await self._command(text[1:].rstrip())
        elif text.startswith("!") and text[1:].strip():
            await self._own_command(text[1:].strip())
        elif text.strip():
            await self._say(text)

    async def _say(self, text: str) -> None:
        """Admit a message. If that fails, it stands in the input line again: what was typed is not lost."""
        room = self.room
        found = attached(text, room.desk.agent.project_root)
        for problem in found.problems:
            room.say(problem)
        fresh = not room.session.exists
        try:
            await self._admit(text, found.parts)
        except (OutlastError, OSError):
            room.screen.offer(text)
            raise
        if fresh:
            room.follow_new()
        room.work.wake()
        room.refresh(meter=False)
        if room.desk.start.model == NO_MODEL:
            room.say("stored; no model is set, so nothing answers here", "dim")

    async def _admit(self, text: str, parts: tuple[Part, ...]) -> None:
        """Where it is not known whether a message was stored, saying the same again stores it once."""
        key = self._unsure.pop(text, "") or secrets.token_hex(16)
        try:
            await self.room.work.admit(parts, key=key)
        except OutcomeUnknown as error:
            self._unsure[text] = key
            raise OutlastError(f"{error.told}; Enter sends it again, and it is stored once") from error

    async def _say_next(self) -> None:
        """What a command left to be said."""
        said, self.room.next_input = self.room.next_input, None
        if said is not None:
            await self._say(said)

    async def _command(self, line: str) -> None:
        room = self.room
        name, _, arguments = line.partition(" ")
        known = commands_of(room)
        room.put(Text())
        room.put(Text(f"{HERE} /{readable(line)}", style="dim"))
        if name == "help":
            room.put(help_page(known))
        elif name not in known:
            room.say(unknown(name, known))
        else:
            await known[name].run(room, arguments)
            await self._say_next()

    async def _own_command(self, command: str) -> None:
        room = self.room
        if self._own is not None:
            raise OutlastError("a command of yours is running; Ctrl-C stops it")
        self._own = OwnCommand(command, room.desk.agent.project_root)
        room.put(Text())
        room.put(Text(f"! {readable(command)}", style="bold magenta"))
        try:
            ran = await self._own.run()
        finally:
            self._own = None
        room.view.ran(ran)
        fresh = not room.session.exists
        await room.session.append_async(Message(role=Role.USER, content=ran.message()))
        if fresh:
            room.follow_new()

    # --- stopping and leaving

    def interrupt(self) -> None:
        """Ctrl-C: stops what runs; else empties the line; a second one within a second leaves."""
        room = self.room
        again = self._twice.again()
        if again:
            self._leave(0)
        elif self._own is not None:
            self._own.stop()
        elif room.work.is_running:
            room.say("stopping; Ctrl-C again leaves", "dim")
            room.run(self._stop())
        elif room.screen.input.text:
            room.screen.input.reset()
        else:
            room.say("Ctrl-C again, or Ctrl-D, leaves; the session is kept", "dim")

    async def _stop(self) -> None:
        room = self.room
        taken_back = await room.work.stop()
        room.panel.drop()
        room.screen.focus_panel(False)
        if taken_back:
            room.screen.offer("\n".join(taken_back))

    def _leave(self, code: int) -> None:
        app = self.room.screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    # --- what is drawn below

    def _live(self, height: int) -> RenderableType | None:
        view = self.room.view
        if view.stream.is_speaking:
            return markdown(view.stream.end_of_tail(height))
        if view.thinking.strip():
            return Text("\n".join(view.thinking.strip().splitlines()[-3:]), style="dim italic")
        return None

    def _activity(self, width: int) -> StyleAndTextTuples:
        room, own = self.room, self._own
        if own is not None:
            return activity("your command runs", own.since, "Ctrl-C stops it", own.tail.lines(), width)
        since = room.view.turn_since
        if since is None or room.panel.asked is not None:
            return []
        hint = "type to steer, /queue to queue · Ctrl-C stops"
        return activity(room.view.doing or "working", since, hint, room.view.running_lines(), width)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS)
            if self.room.view.turn_since is not None or self._own is not None:
                self.room.screen.redraw()
