"""Any `outlast` command with a model that holds a turn in a state: `python -m tests.faults.stop_process WORDS`.

The state is the first word of the session's first message, after `STATE:`. With OUTLAST_TEST_HOLD=0 nothing is held.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from outlast.core.messages import Role, TextPart, ToolCall
from outlast.doors.cli import main
from outlast.models.port import Finished, ModelEvent, ModelRequest, TextDelta
from outlast.models.scripted import ScriptedFile

HOLDS = os.environ.get("OUTLAST_TEST_HOLD") != "0"


def _call(name: str, **arguments: object) -> Finished:
    return Finished(parts=(ToolCall(id="c1", name=name, arguments=arguments),), finish_reason="tool_calls")


def _said(request: ModelRequest) -> str:
    texts = [message.content for message in request.messages if message.role is Role.USER]
    return next(text for text in texts if text.startswith("STATE:")).removeprefix("STATE:").split()[0]


async def stream(self: ScriptedFile, request: ModelRequest) -> AsyncIterator[ModelEvent]:
    state = _said(request)
    if request.replies == 0 and state in {"waiting", "queued", "streaming"}:
        if state == "streaming":
            yield TextDelta("The beginning of ")
        await asyncio.sleep(3600 if HOLDS else 0)
    elif request.replies == 0 and state == "tool":
        yield _call("bash", command="echo ran >> witness.txt; sleep 3600")
        return
    elif request.replies == 0 and state == "approval":
        yield _call("bash", command="echo ran >> approved.txt", needs=["network:example.org"])
        return
    elif request.replies == 0 and state == "child":
        yield _call("task", prompt="STATE:approval of a sub-agent")
        return
    yield Finished(parts=(TextPart(f"The answer to {state} number {request.replies}."),), finish_reason="stop")


if __name__ == "__main__":
    setattr(ScriptedFile, "stream", stream)  # noqa: B010
    main(sys.argv[1:])
