"""Boundaries that the driver applies under its lease: clear, compact, rewind, rotate, uncompact, unrewind.

While a driver runs the session, doors send requests, which the driver carries out between two steps. The summary of a
compaction may take minutes. It covers the log up to a watermark, so appends continue during that time, but another
boundary after the watermark makes the plan void.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outlast.core.errors import ConflictError, InvalidInput
from outlast.core.events import AssistantReplied, CompactionUndone, HistoryCleared, RuntimeStateChanged
from outlast.core.fold import Row
from outlast.core.header import ENDED
from outlast.core.ids import id_from
from outlast.core.state import BoundaryRequest
from outlast.models.port import UNKNOWN_WINDOW, Model, ModelRequest, ToolSpec, WindowSettler, WindowSource
from outlast.runtime.commit_retry import RACES
from outlast.runtime.current_session import current
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.history import compaction
from outlast.runtime.history.compaction import CompactionPlan
from outlast.runtime.history.model_summary import summary_of
from outlast.runtime.history.rewind import rewind, unrewind
from outlast.runtime.history.window_tokens import CompactionSettings, limits, request_tokens
from outlast.runtime.session_recall import RECALL
from outlast.runtime.turn.context import RequestSetup, TurnContext
from outlast.runtime.turn.recovery import closing_events, stored_partial_reply
from outlast.store.lineage import rotate
from outlast.store.port import NewEvent
from outlast.store.process_identity import holder


async def apply_boundary_requests(driver: Driver, context: TurnContext) -> bool:
    """Carry out the requests of doors, oldest first; False if there are none. A request that fails is dropped and
    noted in the runtime state."""
    between = driver.state.turn is None  # a rotation waits until no turn runs
    requests = [one for one in driver.state.requests if between or one.what != "rotate"]
    for request in requests:
        await _requested(driver, context, request)
    return bool(requests)


async def _requested(driver: Driver, context: TurnContext, request: BoundaryRequest) -> None:
    try:
        await apply_boundary(driver, context, request.what, request.arguments)
    except (InvalidInput, ConflictError) as error:
        note = {"what": request.what, "why": str(error)}
        await driver.write(RuntimeStateChanged(changes={"boundary_refused": note}))
    driver.state.requests = [one for one in driver.state.requests if one.seq != request.seq]


async def apply_boundary(driver: Driver, context: TurnContext, what: str, arguments: dict[str, Any]) -> None:
    """Apply one boundary. Raises `InvalidInput` if there is nothing to apply it to."""
    match what:
        case "clear":
            partial = await stored_partial_reply(driver)
            closed = closing_events(driver.state, "interrupted", "the history was cleared", partial)
            await driver.write(*closed, HistoryCleared())
        case "rewind":
            await rewind(
                driver,
                context,
                int(arguments.get("seq", 0)),
                files=bool(arguments.get("files", False)),
                keep=bool(arguments.get("keep", True)),
                anyway=arguments.get("anyway") or (),
            )
        case "unrewind":
            await unrewind(driver, context)
        case "compact":
            if not await compact(driver, context, instructions=arguments.get("instructions"), reason="manual"):
                raise InvalidInput("there is nothing to compact yet: the newest messages are kept as they are")
        case "uncompact":
            await uncompact(driver)
        case "rotate":
            if not await rotated(driver, context, "", (), now=True):
                raise InvalidInput("there is nothing to leave behind yet: the newest messages are kept as they are")
        case _:
            raise InvalidInput(f"'{what}' is not a boundary that this Outlast knows")


async def uncompact(driver: Driver) -> None:
    at = driver.state.view.compacted_at
    if not at:
        raise InvalidInput("the session is not compacted, so there is nothing to undo")
    await driver.write(CompactionUndone(compacted_seq=at))


# --- compaction


async def compact_if_needed(driver: Driver, context: TurnContext, request: ModelRequest) -> bool:
    """Compact if this request approaches the limit of the model's window; return whether it did."""
    rows, settings = await driver.rows(), settings_of(context)
    if not context.config.auto_compaction or _about(request, rows) < _trigger(context, settings):
        return False
    await settled_window(context)  # only now: a request that fits the assumed window waits for nothing
    if _about(request, rows) < _trigger(context, settings):
        return False
    max_output = context.config.max_output_tokens or 0
    plan = compaction.due(
        rows,
        driver.state,
        settings,
        context_window=window_of(context),
        max_output=max_output,
        system=request.system,
        tools=request.tools,
    )
    return plan is not None and await _compacted(driver, context, plan, None)


def _trigger(context: TurnContext, settings: CompactionSettings) -> int:
    """Return the size of a request from which a compaction is considered."""
    if context.config.compaction_mode == "rotate":  # within a turn it compacts only if it must
        return window_of(context) * 19 // 20
    return limits(settings, window_of(context), context.config.max_output_tokens or 0).threshold


def _about(request: ModelRequest, rows: Sequence[Row]) -> int:
    """Return an upper estimate of the request's size as `due` counts it, without building the window again."""
    estimate = request_tokens(request.messages, request.system, request.tools)
    for stored, event in reversed(rows):
        if isinstance(event, AssistantReplied) and event.usage.input_tokens:
            since = [message for message in request.messages if (message.seq or stored.seq + 1) > stored.seq]
            counted = event.usage.input_tokens + event.usage.output_tokens
            return max(estimate, counted + request_tokens(since))
    return estimate


async def compact(
    driver: Driver, context: TurnContext, *, instructions: str | None = None, reason: str = "manual"
) -> bool:
    """Compact now, whatever the size; False if there is nothing to summarise or the plan became void."""
    settings = settings_of(context)
    most = limits(settings, window_of(context), context.config.max_output_tokens or 0)
    plan = compaction.planned(await driver.rows(), driver.state, settings, limits=most, reason=reason)
    return plan is not None and await _compacted(driver, context, plan, instructions)


async def _compacted(driver: Driver, context: TurnContext, plan: CompactionPlan, instructions: str | None) -> bool:
    summary = await summary_of(
        plan,
        summariser(context),
        instructions,
        replies=driver.state.usage.replies,
        session_id=driver.session_id,
    )
    reach("compaction.summarised")
    await driver.catch_up()
    if not compaction.still_fits(plan, await driver.rows()):
        return False
    await driver.write(compaction.compacted_event(plan, summary))
    reach("compaction.recorded")
    return True


def settings_of(context: RequestSetup) -> CompactionSettings:
    """Return the settings of this agent. Outputs are pruned only for a model that has the tool to recall them."""
    model = context.model
    return CompactionSettings(
        input_tokens_threshold=context.config.auto_compaction_input_tokens_threshold,
        keep_last=context.config.compaction_keep_last_messages,
        recall=context.tools.get(RECALL) is not None and model is not None and not model.abilities.chat_profile,
    )


def window_of(context: RequestSetup) -> int:
    assert context.model is not None
    return context.config.context_window or context.model.abilities.context_window


def window_source(context: RequestSetup) -> WindowSource:
    """Return where the size of the window comes from. The default of a model that does not say so is a guess."""
    assert context.model is not None
    if context.config.context_window:
        return WindowSource.SETTING
    abilities = context.model.abilities
    if abilities.window_source is not None:
        return abilities.window_source
    return WindowSource.ASSUMED if abilities.context_window == UNKNOWN_WINDOW else WindowSource.KNOWN_MODEL


async def settled_window(context: RequestSetup) -> None:
    """Wait, at most two seconds, for a server that was asked for the size of the model's window."""
    if isinstance(context.model, WindowSettler) and window_source(context) is WindowSource.ASSUMED:
        await asyncio.to_thread(context.model.settle_window)


def summariser(context: TurnContext) -> Model | None:
    """Return the model that summarises, or None for a structural summary: a demo model cannot summarise, and a scripted
    model has no line for such a request."""
    model = context.model
    return None if model is None or not model.abilities.summarises or model.abilities.chat_profile else model


# --- rotation


async def rotated(
    driver: Driver, context: TurnContext, system: str, tools: tuple[ToolSpec, ...], *, now: bool = False
) -> bool:
    """Continue in a new session that starts with a summary of this one. One commit holds the fork, the compaction, the
    routes, the lease and the waiting inputs; the driver then drives the new session. Only between turns. False if no
    rotation is due (or, with `now`, there is nothing to summarise), or if other writes prevented it."""
    assert driver.lease is not None
    assert driver.state.turn is None
    settings = settings_of(context)
    rows = await driver.rows()
    if now:
        most = limits(settings, window_of(context))
        plan = compaction.planned(rows, driver.state, settings, limits=most, reason="manual")
    else:
        plan = compaction.due(
            rows,
            driver.state,
            settings,
            context_window=window_of(context),
            system=system,
            tools=tools,
            summarise=True,
        )
    if plan is None:
        return False
    summary = await summary_of(plan, summariser(context), session_id=driver.session_id)
    reach("compaction.summarised")
    compacted = compaction.compacted_event(plan, summary)
    for _ in range(RACES):
        if not await _may_leave(driver, plan, now=now):
            return False
        with suppress(ConflictError):  # a door wrote at the same moment: catch up and retry
            await _leave(driver, NewEvent(event=compacted, actor="system/runtime"))
            return True
    return False


async def _may_leave(driver: Driver, plan: CompactionPlan, *, now: bool) -> bool:
    """Whether the session may still be rotated after catching up with other writers. Inputs move along; an interrupt,
    an end or another boundary is handled first. Deliveries and notices do not matter."""
    await driver.catch_up()
    state = driver.state
    others = [request for request in state.requests if not (now and request.what == "rotate")]
    stopped = state.interrupt is not None or state.life == ENDED
    return not others and not stopped and compaction.still_fits(plan, await driver.rows())


async def _leave(driver: Driver, compacted: NewEvent) -> None:
    """Make the single commit of a rotation. Raises `ConflictError` if the log has grown since the driver caught up."""
    parent = await asyncio.to_thread(driver.store.head, driver.session_id)
    if parent.last_seq != driver.state.last_seq:
        raise ConflictError(f"session {driver.session_id} has moved on")
    child, token = id_from(driver.clock.token()), id_from(driver.clock.token())
    writes = rotate(
        parent,
        child,
        token=token,
        holder=holder(),
        lease=driver.lease,
        carried=driver.state.unanswered,
        events=(compacted,),
        ttl_ms=driver.ttl_ms,
    )
    receipts = await driver.store.commit_async(*writes)
    reach("compaction.recorded")
    lease = next(receipt.lease for receipt in receipts if receipt.lease is not None)
    if current.get() == driver.session_id:
        current.set(child)  # code in this context now sees the session that continues
    await driver.move(child, token, lease)
