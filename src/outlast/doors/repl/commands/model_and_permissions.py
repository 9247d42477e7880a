"""Who answers and what it may do: model, persona, permissions."""

from __future__ import annotations

from rich.text import Text

from outlast.app.models import model_for, overview
from outlast.app.terminal import modes_under, personas_here
from outlast.core.errors import OutlastError
from outlast.doors.repl.commands.port import Command
from outlast.doors.repl.controller import Room
from outlast.doors.repl.render.escape import readable
from outlast.doors.repl.render.style import HERE

FRESH = "--fresh"


async def model(room: Room, arguments: str) -> None:
    """Show what can answer, or switch; with --fresh the new one starts without what was said before."""
    words = [word for word in arguments.split() if word != FRESH]
    settings = room.desk.agent.settings
    if not words:
        found = overview(settings)
        for row in found.rows:
            names = ", ".join(row.models) or row.default or row.name
            line = Text(f"  {'ready' if row.ready else '-':<6} {readable(names)}", style="" if row.ready else "dim")
            line.append(f"  {readable(row.note)}", style="dim")
            room.put(line)
        room.say(f"now {room.status.model}; /model NAME switches", "dim")
        return
    model_for(settings, words[0])  # a wrong name is refused here
    await _persisted(room)
    if FRESH in arguments.split():
        await room.boundary("clear")
    room.desk.recorded = True
    await room.desk.service.choose_model(room.session.session_id, words[0])


async def agent(room: Room, arguments: str) -> None:
    words = [word for word in arguments.split() if word != FRESH]
    found = {persona.name: persona for persona in personas_here(room.desk.agent.settings)}
    now = room.desk.agent.config.persona or room.session.state.persona or "default-interactive"
    if not words:
        for persona in found.values():
            mark = HERE if persona.name == now else " "
            line = Text(f"{mark} {persona.name}  ")
            line.append(readable(f"{persona.description} ({persona.source})"), style="dim")
            room.put(line)
        return
    if words[0] not in found:
        raise OutlastError(f"there is no persona '{words[0]}'; choose one of {', '.join(sorted(found))}")
    await _persisted(room)
    if FRESH in arguments.split():
        await room.boundary("clear")
    room.change_config(persona=None)
    await room.desk.service.choose_persona(room.session.session_id, words[0])


async def _persisted(room: Room) -> None:
    if not room.session.exists:
        room.session.persist()
        room.follow_new()


async def permissions(room: Room, arguments: str) -> None:
    """Show the mode and the rules in force, or change the mode; never above what the process was started with."""
    ceiling = room.desk.agent.settings.permission_mode
    allowed = modes_under(ceiling)
    wanted = arguments.strip()
    if wanted:
        if wanted not in allowed:
            told = ", ".join(allowed)
            raise OutlastError(
                f"'{wanted}' cannot be chosen here; choose one of {told}, or start with --permission-mode"
            )
        choose_mode(room, wanted)
        return
    facts = room.kit().gate.facts()
    room.put(Text(f"  mode     {facts['permission_mode']}  (at most {ceiling}; Shift-Tab changes it)"))
    counts: dict[str, int] = facts.get("permission_rule_counts") or {}
    room.put(Text(f"  rules    {', '.join(f'{n} {kind}' for kind, n in counts.items()) or 'none'}"))
    room.put(Text(f"  from     {readable(str(facts.get('permission_rules_source') or '-'))}"))
    grants: list[object] = room.session.state.runtime.get("grants") or []
    room.put(Text(f"  granted  {len(grants)} for this session"))


def choose_mode(room: Room, mode: str) -> None:
    """In force at once, in a turn that runs too."""
    room.change_config(permission_mode=mode)
    room.change_running_mode(mode)
    room.say(f"permission mode: {mode}", "dim")


def next_mode(room: Room) -> str:
    allowed = [str(mode) for mode in modes_under(room.desk.agent.settings.permission_mode)]
    now = room.desk.agent.active_permission_mode
    return allowed[(allowed.index(now) + 1) % len(allowed)] if now in allowed else allowed[0]


MODES = ("read-only", "prompt", "workspace-write", "danger-full-access", "allow")
RIGHTS = (
    Command("model", "show what can answer, or switch", model, "[P:M] [--fresh]", (FRESH,)),
    Command("agent", "show the personas, or switch", agent, "[NAME] [--fresh]", (FRESH,)),
    Command("permissions", "show or change what may be done", permissions, "[MODE]", MODES),
)
