"""Coming to a session: what its project brings along is asked about, what was interrupted is told and offered."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from outlast.app.terminal import Pending, consent, pending_consents
from outlast.doors.repl.escaping import exact
from outlast.doors.repl.interruption import CONTINUE, interruption
from outlast.doors.repl.picker import Option
from outlast.doors.repl.room import Room


async def arrived(room: Room) -> None:
    """Settle what has to be settled before the user goes on here. `next_input` may hold what is to be said then."""
    for pending in pending_consents(room.desk.agent.settings):
        await _consent(room, pending)
    await _go_on(room)


async def _consent(room: Room, pending: Pending) -> None:
    """Rules and hooks of a project count only once the user has seen these very bytes and wants them."""
    name = pending.path.name
    what = "It may run programs of its own." if "hooks" in name else "It allows things without asking you."
    room.put(Text())
    room.put(Text(f"This project brings along {exact(str(pending.path))}, which is not in force:"))
    room.put(Padding(Text(exact(pending.content.decode("utf-8", "replace").rstrip("\n"))), (1, 0, 1, 4)))
    room.put(Text(f"{what} It stays out of force unless you say so, and is asked about again when it changes."))
    options = [Option(False, "No, leave it out"), Option(True, "Yes, I have read it and want it to count")]
    if await room.pick("Use it?", options, "Enter chooses · Esc is no"):
        consent(room.desk.agent.settings, pending)
        room.say(f"{name} of this project is in force", "dim")
    else:
        room.say(f"{name} of this project is left out", "dim")


async def _go_on(room: Room) -> None:
    found = interruption(room.desk.agent)
    if found is None:
        return
    room.say(found.text)
    go_on = await room.confirm("Go on with it?", yes="Go on", no="Not now")
    if go_on and found.is_open:
        room.work.wake()
        await room.ask_again()
    elif go_on:
        room.next_input = CONTINUE
    else:
        left = "it stays open, and goes on with your next message" if found.is_open else "left as it is"
        room.say(left, "dim")
