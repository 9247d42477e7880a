"""Commands that choose the model, the persona, the workflow and the permission mode."""

from __future__ import annotations

from rich.text import Text

from outlast.app.models import model_for, overview
from outlast.app.permissions import modes_under
from outlast.app.sandbox import sandbox_word
from outlast.app.sessions.context_usage import context_use
from outlast.app.sessions.pending_approvals import opened_walls, session_walls
from outlast.app.turn_setup import personas_here
from outlast.core.errors import OutlastError
from outlast.core.workflow_mode import Workflow
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.commands.turn_control import PLAN_ON
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.render.style import HERE
from outlast.doors.terminal_text import readable

FRESH = "--fresh"


async def model(controller: ReplController, arguments: str) -> None:
    """Show the available models, or switch; with --fresh the new model does not see the earlier messages."""
    words = [word for word in arguments.split() if word != FRESH]
    settings = controller.repl_session.agent.settings
    if not words:
        found = overview(settings)
        for row in found.rows:
            names = ", ".join(row.models) or row.default or row.name
            line = Text(f"  {'ready' if row.ready else '-':<6} {readable(names)}", style="" if row.ready else "dim")
            line.append(f"  {readable(row.note)}", style="dim")
            controller.put(line)
        use = context_use(controller.repl_session.agent.turn_setup(), [], controller.session.state)
        window = f", window of {use.window:,} tokens (source: {use.source})" if use.window else ""
        controller.say(f"now {controller.status.model}{window}; /model NAME switches", "dim")
        return
    model_for(settings, words[0])  # raises if the name is wrong
    await _persisted(controller)
    if FRESH in arguments.split():
        await controller.boundary("clear")
    controller.repl_session.recorded = True
    await controller.repl_session.service.update_async(controller.session.session_id, model=words[0])


async def agent(controller: ReplController, arguments: str) -> None:
    words = [word for word in arguments.split() if word != FRESH]
    found = {persona.name: persona for persona in personas_here(controller.repl_session.agent.settings)}
    now = controller.repl_session.agent.config.persona or controller.session.state.persona or "default-interactive"
    if not words:
        for persona in found.values():
            mark = HERE if persona.name == now else " "
            line = Text(f"{mark} {persona.name}  ")
            line.append(readable(f"{persona.description} ({persona.source})"), style="dim")
            controller.put(line)
        return
    if words[0] not in found:
        raise OutlastError(f"there is no persona '{words[0]}'; choose one of {', '.join(sorted(found))}")
    await _persisted(controller)
    if FRESH in arguments.split():
        await controller.boundary("clear")
    controller.change_config(persona=None)
    await controller.repl_session.service.update_async(controller.session.session_id, persona=words[0])


async def _persisted(controller: ReplController) -> None:
    if not controller.session.exists:
        controller.session.persist()
        controller.follow_new()


async def permissions(controller: ReplController, arguments: str) -> None:
    """Show the mode and the rules in force, or change the mode; never above the mode the process was started with."""
    ceiling = controller.repl_session.agent.settings.permission_mode
    allowed = modes_under(ceiling)
    wanted = arguments.strip()
    if wanted:
        if wanted not in allowed:
            told = ", ".join(allowed)
            raise OutlastError(
                f"'{wanted}' cannot be chosen here; choose one of {told}, or start with --permission-mode"
            )
        choose_mode(controller, wanted)
        return
    await _show_rights(controller, ceiling)


async def _show_rights(controller: ReplController, ceiling: str) -> None:
    facts = controller.turn_context().gate.facts()
    controller.put(Text(f"  mode     {facts['permission_mode']}  (at most {ceiling}; Shift-Tab changes it)"))
    counts: dict[str, int] = facts.get("permission_rule_counts") or {}
    controller.put(Text(f"  rules    {', '.join(f'{n} {kind}' for kind, n in counts.items()) or 'none'}"))
    controller.put(Text(f"  from     {readable(str(facts.get('permission_rules_source') or '-'))}"))
    grants: list[object] = controller.session.state.runtime.get("grants") or []
    controller.put(Text(f"  granted  {len(grants)} for this session"))
    settings = controller.repl_session.agent.settings
    word = sandbox_word(settings, str(facts["permission_mode"]))
    controller.put(Text(f"  sandbox  {word}  (network: {settings.network})"))
    walls = opened_walls(session_walls(controller.session.state))
    controller.put(Text(f"  lifted   {readable(walls) or 'no wall'}, for this session"))
    planning = "on: nothing may be changed" if controller.repl_session.plan_mode else "off"
    controller.put(Text(f"  planning {planning}  (/plan or Shift-Tab)"))
    controller.put(Text(f"  workflow {controller.workflow}  (/workflow)"))


async def workflow(controller: ReplController, arguments: str) -> None:
    """Show who leads the turns of this session, the model alone or the guided workflow; or choose it for good."""
    wanted = arguments.strip()
    if not wanted:
        controller.say(f"workflow: {controller.workflow}; /workflow plain or /workflow guided changes it", "dim")
        return
    if wanted not in set(Workflow):
        raise OutlastError(f"'{wanted}' is not a workflow; choose one of {', '.join(Workflow)}")
    await controller.choose({"workflow": wanted})
    controller.say(f"workflow: {wanted}, from the next message on", "dim")


def choose_mode(controller: ReplController, mode: str) -> None:
    """Change the permission mode at once, also in a running turn."""
    controller.change_config(permission_mode=mode)
    controller.change_running_mode(mode)
    controller.say(f"permission mode: {mode}", "dim")


async def next_mode(controller: ReplController) -> None:
    """Go to the next mode of the ring: the permission modes that may be chosen here, then plan mode."""
    allowed = [str(mode) for mode in modes_under(controller.repl_session.agent.settings.permission_mode)]
    now = controller.repl_session.agent.active_permission_mode
    if controller.repl_session.plan_mode:
        controller.say("plan mode is off", "dim")
        choose_mode(controller, allowed[0])
        await controller.set_plan_mode(False)
    elif now == allowed[-1]:
        controller.say(PLAN_ON, "dim")
        await controller.set_plan_mode(True)
    else:
        choose_mode(controller, allowed[allowed.index(now) + 1] if now in allowed else allowed[0])


MODES = ("read-only", "prompt", "workspace-write", "danger-full-access", "allow")
RIGHTS = (
    ReplCommand("model", "show the models, or switch", model, "[P:M] [--fresh]", (FRESH,)),
    ReplCommand("agent", "show the personas, or switch", agent, "[NAME] [--fresh]", (FRESH,)),
    ReplCommand("workflow", "show or choose the workflow: plain or guided", workflow, "[NAME]", tuple(Workflow)),
    ReplCommand("permissions", "show or change the permissions", permissions, "[MODE]", MODES),
)
