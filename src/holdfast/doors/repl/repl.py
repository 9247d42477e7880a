"""The REPL: what is typed is admitted, what happens is shown, until the user leaves. Leaving loses nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import Message, Role
from holdfast.doors.repl.attachment import attached
from holdfast.doors.repl.commands import commands_of, unknown
from holdfast.doors.repl.escaping import readable
from holdfast.doors.repl.interruption import CONTINUE, interruption
from holdfast.doors.repl.keys import KeyTable, Twice
from holdfast.doors.repl.own_command import OwnCommand
from holdfast.doors.repl.picture import markdown
from holdfast.doors.repl.room import Room
from holdfast.doors.repl.screen import REDRAW_SECONDS, Screen
from holdfast.doors.repl.session_row import choose_session, session_rows
from holdfast.doors.repl.start import NO_MODEL, PICK, REPL, Desk, Start, desk_for
from holdfast.doors.repl.status import elapsed, spinner
from holdfast.doors.repl.transcript import show_transcript
from holdfast.doors.repl.welcome import first_screen, settle_consents, settle_model
from holdfast.doors.repl.words import Words

LEFT_BY_SIGNAL = {signal.SIGHUP: 129, signal.SIGTERM: 143}


def converse(start: Start) -> int:
    """Open the REPL; its exit code."""
    return asyncio.run(_converse(start))


async def _converse(start: Start) -> int:
    import msgspec

    from holdfast.app.stores import store_at

    settings = start.settings()
    await settle_model(start, settings)
    notes = await settle_consents(settings)
    if start.resume == PICK:
        store = store_at(start.store)
        try:
            picked = await choose_session(None, store, settings.project_root)
        finally:
            store.close()
        if picked is None:
            return 0
        start = msgspec.structs.replace(start, resume=picked)
    desk = desk_for(start, REPL)
    try:
        return await Repl(desk).run(notes)
    finally:
        desk.agent.store.close()


class Repl:
    """One REPL. Everything that runs in it runs in one event loop."""

    def __init__(self, desk: Desk) -> None:
        self.room = room = Room(desk)
        self._twice = Twice()
        self._own: OwnCommand | None = None
        keys = KeyTable(room, self.submit, self.interrupt)
        agent = desk.agent
        words = Words(
            agent.project_root,
            lambda: {name: command.about for name, command in commands_of(room).items()} | {"help": "show all of this"},
            lambda: [(row.session_id, row.title or "") for row in session_rows(agent.store, None)],
            lambda name: list(commands_of(room)[name].words) if name in commands_of(room) else [],
        )
        room.screen = Screen(
            live=self._live,
            activity=self._activity,
            status=room.status.line,
            panel=room.panel,
            completer=words,
            keys=keys.bindings,
            history=agent.settings.home / "repl_history",
        )

    async def run(self, notes: list[str]) -> int:
        room = self.room
        loop = asyncio.get_running_loop()
        for number, code in LEFT_BY_SIGNAL.items():
            loop.add_signal_handler(number, self._leave, code)
        room.refresh()
        await self._greet(notes)
        ticking = asyncio.ensure_future(self._tick())
        room.follow()
        try:
            code = await room.screen.app.run_async(pre_run=self._begin)
        except EOFError:  # the terminal is gone
            code = LEFT_BY_SIGNAL[signal.SIGHUP]
        finally:
            ticking.cancel()
            if self._own is not None:
                self._own.stop()
            await room.work.close()
            await room.leave()
        self._goodbye(code)
        return code

    def _begin(self) -> None:
        self.room.run(self._first())

    async def _greet(self, notes: list[str]) -> None:
        room = self.room
        for line in first_screen(room.desk.agent.settings, room.status.model, room.desk.agent.store.url):
            room.put(line)
        for note in (*notes, *([room.desk.came_from] if room.desk.came_from else [])):
            room.say(note, "dim")
        if room.session.exists:
            show_transcript(room)
        await room.screen.flush()

    async def _first(self) -> None:
        """What has to be done before the user types: go on with what was interrupted, say what was given."""
        room = self.room
        found = interruption(room.desk.agent)
        if found is not None:
            room.say(found.text)
            go_on = await room.confirm("Go on with it?", yes="Go on", no="Not now")
            if go_on and found.is_open:
                room.work.wake()
                await room.ask_again()
            elif go_on:
                await self._say(CONTINUE)
            else:
                left = "it stays open, and goes on with your next message" if found.is_open else "left as it is"
                room.say(left, "dim")
        if room.desk.start.prompt:
            await self._say(room.desk.start.prompt)

    def _goodbye(self, code: int) -> None:
        session = self.room.session
        if code == 0 and session.exists:
            print(f"Kept as {session.session_id[:8]}: holdfast -c goes on with it.")
        sys.stdout.flush()

    # --- what is typed

    def submit(self, text: str) -> None:
        self._twice.forget()
        self.room.run(self._submit(text))

    async def _submit(self, text: str) -> None:
        room = self.room
        asked = room.panel.asked
        if asked is not None and not asked.is_approval and text.strip():
            await room.answer(text.strip())
        elif text.startswith("/") and text[1:2].isalpha():
            await self._command(text[1:])
        elif text.startswith("!") and text[1:].strip():
            await self._own_command(text[1:].strip())
        elif text.strip():
            await self._say(text)

    async def _say(self, text: str) -> None:
        room = self.room
        found = attached(text, room.desk.agent.project_root)
        for problem in found.problems:
            room.say(problem)
        fresh = not room.session.exists
        await room.work.admit(found.parts)
        if fresh:
            room.follow_new()
        room.work.wake()
        room.refresh(meter=False)
        if room.desk.start.model == NO_MODEL:
            room.say("stored; no model is set, so nothing answers here", "dim")

    async def _command(self, line: str) -> None:
        room = self.room
        name, _, arguments = line.partition(" ")
        known = commands_of(room)
        if name == "help":
            self._help()
        elif name not in known:
            room.say(unknown(name, known))
        else:
            await known[name].run(room, arguments)
            if room.next_input is not None:
                said, room.next_input = room.next_input, None
                await self._say(said)

    def _help(self) -> None:
        room = self.room
        for name, command in sorted(commands_of(room).items()):
            line = Text(f"  /{name} {command.usage}".ljust(34), style="cyan")
            line.append(command.about)
            room.put(line)
        room.put(
            Text(
                "  @file attaches a file or picture · !command runs it yourself · Alt-Enter or \\ at the end: a line\n"
                "  Shift-Tab permission mode · Esc Esc rewind · Ctrl-O expand · Ctrl-X Ctrl-E editor · "
                "Ctrl-C stop · Ctrl-D leave",
                style="dim",
            )
        )

    async def _own_command(self, command: str) -> None:
        room = self.room
        if self._own is not None:
            raise HoldfastError("a command of yours is running; Ctrl-C stops it")
        self._own = OwnCommand(command, room.desk.agent.project_root)
        room.put(Text(f"! {readable(command)}", style="bold magenta"))
        try:
            ran = await self._own.run()
        finally:
            self._own = None
        room.put(Padding(Text(readable(ran.output).rstrip() or "(no output)"), (0, 0, 0, 2)))
        if ran.code:
            room.say(f"exit code {ran.code}" if ran.code > 0 else "stopped", "red")
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
            room.screen.input.text = "\n".join(taken_back)

    def _leave(self, code: int) -> None:
        app = self.room.screen.app
        if app.is_running and not app.is_done:
            app.exit(result=code)

    # --- what is drawn below

    def _live(self, height: int) -> RenderableType | None:
        view = self.room.view
        if view.stream.tail.strip():
            return markdown(view.stream.tail)
        if view.thinking.strip():
            return Text("\n".join(view.thinking.strip().splitlines()[-3:]), style="dim italic")
        return None

    def _activity(self) -> StyleAndTextTuples:
        room, now = self.room, time.monotonic()
        if self._own is not None:
            return [("class:spinner", f"{spinner(0)} "), ("class:note", "your command runs · Ctrl-C stops it")]
        since = room.view.turn_since
        if since is None or room.panel.asked is not None:
            return []
        doing = room.view.doing or "working"
        took = f"{elapsed(now - since)}"
        hint = "type to steer, /queue to queue · Ctrl-C stops"
        return [("class:spinner", f"{spinner(since)} "), ("", f"{doing} "), ("class:note", f"{took} · {hint}")]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS)
            if self.room.view.turn_since is not None or self._own is not None:
                self.room.screen.redraw()
