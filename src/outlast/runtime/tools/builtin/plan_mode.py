"""enter_plan: switches the session to plan mode, in which only reading is allowed.

exit_plan: shows the plan to the user and asks for approval; an approved plan is recorded, and plan mode is off. The
wait is durable: after a restart the plan is shown again. Where nobody can be asked, and in a sub-agent, the plan is the
answer of the turn.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass, RuntimeStateChanged
from outlast.core.workflow_mode import PLAN_TEXT, WorkflowMode, plan_mode_values
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.port import ToolContext, ToolOutcome

MAX_PLAN = 64 * 1024
"""Characters of a plan. An approved plan is part of the session's state, which stays small."""

ENTERED = "Plan mode is on: only reading is allowed. When the plan is ready, call exit_plan(plan)."
IS_ON = "Plan mode is on already. When the plan is ready, call exit_plan(plan)."
IS_OFF = "plan mode is not on; there is nothing to leave"
APPROVED = "The user approved the plan. Plan mode is off: carry the plan out now."
DECLINED = "The user declined the plan. Plan mode stays on: ask what should be different, or change the plan."
NOBODY = "Nobody can approve the plan here, so plan mode stays on: give the plan as your answer."
QUESTION = "the plan is ready; if you approve it, plan mode ends and the work starts"


class EnterPlanArguments(ToolArguments, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(description="Why a plan is needed first, in one sentence.")] | None = None


async def enter_plan(arguments: EnterPlanArguments, context: ToolContext) -> ToolOutcome:
    if _is_on(context):
        return ToolOutcome(text=IS_ON)
    facts = {"reason": arguments.reason} if arguments.reason else {}
    return ToolOutcome(text=ENTERED, facts=facts, events=(RuntimeStateChanged(changes=plan_mode_values(True)),))


ENTER_PLAN = BuiltinTool(
    "enter_plan",
    "Switch to plan mode: from then on you only read, until the user approves the plan you give to exit_plan. "
    "Use it for work whose approach the user should agree to first.",
    EnterPlanArguments,
    EffectClass.READ,
    enter_plan,
)


class ExitPlanArguments(ToolArguments, frozen=True, kw_only=True):
    plan: Annotated[
        str, Meta(description="The whole plan, as Markdown; the user reads it.", min_length=1, max_length=MAX_PLAN)
    ]


async def exit_plan(arguments: ExitPlanArguments, context: ToolContext) -> ToolOutcome:
    if not _is_on(context):
        return ToolOutcome(text=IS_OFF, is_error=True)
    approved = await context.approve(QUESTION)
    facts = {"approved": approved}
    if approved is None:
        return ToolOutcome(text=NOBODY, is_error=True, facts=facts)
    if not approved:
        return ToolOutcome(text=DECLINED, is_error=True, facts=facts)
    changes = {**plan_mode_values(False), PLAN_TEXT: arguments.plan}
    return ToolOutcome(text=APPROVED, facts=facts, events=(RuntimeStateChanged(changes=changes),))


EXIT_PLAN = BuiltinTool(
    "exit_plan",
    "In plan mode: show the finished plan to the user and ask for approval. If it is approved, plan mode ends and you "
    "carry the plan out.",
    ExitPlanArguments,
    EffectClass.READ,
    exit_plan,
)


def _is_on(context: ToolContext) -> bool:
    return context.runtime.get("workflow_mode") == WorkflowMode.PLAN
