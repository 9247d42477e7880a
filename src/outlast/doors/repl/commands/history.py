"""Commands that change which history the model sees: compact, rewind, undo, retry; and diff. They delete nothing."""

from __future__ import annotations

from rich.text import Text

from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.messages import Message, Role
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.input.attachments import typed
from outlast.doors.repl.render.tool_call_line import one_line
from outlast.doors.repl.session_picker import PickerOption, age

OFFERED = 200
FILES = "--files"


async def compact(controller: ReplController, arguments: str) -> None:
    controller.say("summarising the older messages; appends go on meanwhile", "dim")
    await controller.boundary("compact", instructions=arguments.strip() or None)


async def uncompact(controller: ReplController, arguments: str) -> None:
    await controller.boundary("uncompact")


async def rewind(controller: ReplController, arguments: str) -> None:
    """Rewind to before a user message, and put that message into the input line for editing."""
    words = [word for word in arguments.split() if word != FILES]
    said = _inputs(controller)
    if words:
        message = next((one for one in said if str(one.seq) == words[0]), None)
        if message is None:
            raise OutlastError(f"event {words[0]} is not a message of yours that can be rewound to; /rewind shows them")
    else:
        message = await controller.pick("Rewind to before", [_option(one) for one in reversed(said)])
    if message is None:
        return
    files = FILES in arguments.split()
    if not files and not words and _changed_files(controller, message):
        files = await controller.confirm(
            "Put the files back too?", yes="Conversation and files", no="Conversation only", first=False
        )
    await _rewound(controller, message, files=files)
    controller.screen.offer(typed(message.parts))


def _option(message: Message) -> PickerOption[Message]:
    return PickerOption(
        message, one_line(typed(message.parts), 80), f"event {message.seq} · {age(message.at or 0)} ago"
    )


def _inputs(controller: ReplController) -> list[Message]:
    if not controller.session.exists:
        raise OutlastError("this session has no messages yet")
    said = [one for one in controller.session.history(OFFERED) if one.role is Role.USER and one.seq]
    if not said:
        raise OutlastError("this session has no messages yet")
    return said


def _changed_files(controller: ReplController, since: Message) -> bool:
    """Whether the file tools, of this session or a sub-agent, changed anything after that message."""
    store, session = controller.repl_session.agent.store, controller.session
    kinds = frozenset({"ToolCallStarted", "ToolCallFinished"})
    for stored in store.read(session.session_id, after=since.seq or 0, kinds=kinds):
        changed = b'"effect":"V"' if stored.kind == "ToolCallStarted" else b'"touched_files":'
        if changed in stored.body or stored.enc != "plain":
            return True
    return False


async def _rewound(controller: ReplController, message: Message, *, files: bool) -> None:
    if controller.work.is_running:
        await controller.work.stop()
    await controller.boundary("rewind", seq=message.seq, keep=False, files=files)


async def undo(controller: ReplController, arguments: str) -> None:
    """Undo the last exchange and the file changes of its tools; `/undo rewind` undoes a rewind instead."""
    if arguments.strip() == "rewind":
        await controller.boundary("unrewind")
        return
    message = _inputs(controller)[-1]
    await _rewound(controller, message, files=_changed_files(controller, message))
    controller.say(
        f"taken back with its files: {one_line(typed(message.parts), 60)}; /undo rewind brings it back", "dim"
    )


async def retry(controller: ReplController, arguments: str) -> None:
    """Send the last message again; files stay as they are."""
    message = _inputs(controller)[-1]
    await _rewound(controller, message, files=False)
    await controller.work.admit(message.parts, e.Delivery.QUEUE)
    controller.work.wake()


async def diff(controller: ReplController, arguments: str) -> None:
    """Show what the file tools changed, in the last turn or in the whole session."""
    from outlast.app.streams.event_feed import rows_of
    from outlast.doors.repl.render.renderables import diff as drawn_diff

    if not controller.session.exists:
        raise OutlastError("this session has no messages yet")
    changes: list[str] = []
    for _, event in rows_of(controller.repl_session.agent.store, controller.session.session_id):
        if isinstance(event, e.TurnStarted) and arguments.strip() != "all":
            changes = []
        # A failed sub-agent may have changed files too, so an error does not matter here.
        if isinstance(event, e.ToolCallFinished) and event.facts.get("diff"):
            changes.append(str(event.facts["diff"]))
    if not changes:
        controller.say("the file tools changed nothing; /diff all looks at the whole session", "dim")
    for change in changes:
        controller.put(drawn_diff(change))
        controller.put(Text())


HISTORY = (
    ReplCommand("compact", "summarise the older messages", compact, "[INSTRUCTIONS]"),
    ReplCommand("uncompact", "undo the last compaction", uncompact),
    ReplCommand(
        "rewind", "go back to before a message, with its files if you like", rewind, "[SEQ] [--files]", (FILES,)
    ),
    ReplCommand("undo", "undo the last exchange and its files, or a rewind", undo, "[rewind]", ("rewind",)),
    ReplCommand("retry", "retry the last message", retry),
    ReplCommand("diff", "show the changes in files", diff, "[all]", ("all",)),
)
