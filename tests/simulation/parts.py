"""What a simulated worker works with: a model that takes simulated time, a shell whose commands are lines in a list."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

from outlast.core.errors import ModelUnavailable
from outlast.core.events import EffectClass
from outlast.core.messages import Part, TextPart, ToolCall, ToolResult, Usage, text_of
from outlast.models.port import Abilities, CallDelta, Finished, ModelEvent, ModelRequest, TextDelta
from outlast.runtime.tools.builtin.read import READ
from outlast.runtime.tools.builtin.write import WRITE
from outlast.runtime.tools.port import Spawned, Target, ToolContext, ToolOutcome
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.crash.oracle import saying

PIECES = 3


class SimulatedModel:
    """Says what the oracle says, after a while; breaks off now and then."""

    name = "simulated"
    provider = "simulated"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self, dice: random.Random, unreliability: float = 0.05) -> None:
        self._dice, self._unreliability = dice, unreliability

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        said = saying([_spoken(message.role, message.parts) for message in request.messages])
        breaks = self._dice.random() < self._unreliability
        await asyncio.sleep(0.2 + 2 * self._dice.random())
        size = max(1, len(said.text) // PIECES)
        for n in range(0, len(said.text), size):
            yield TextDelta(said.text[n : n + size])
            await asyncio.sleep(0.3 * self._dice.random())
            if breaks and self._dice.random() < 0.5:
                raise ModelUnavailable("a fault of the simulation", status=503)
        calls = [ToolCall(id=call.name, name=call.tool, arguments=call.arguments) for call in said.calls]
        for n, call in enumerate(calls):
            yield CallDelta(n, call.name, "")
        if breaks:
            raise ModelUnavailable("a fault of the simulation", status=500)
        parts: tuple[Part, ...] = (TextPart(said.text), *calls)
        reason = "tool_calls" if calls else "stop"
        yield Finished(
            parts=parts, usage=Usage(input_tokens=100, output_tokens=10), model=self.name, finish_reason=reason
        )

    async def close(self) -> None:
        """Nothing is held open."""


def _spoken(role: str, parts: tuple[Part, ...]) -> dict[str, Any]:
    """A message in OpenAI's words, as far as the oracle looks at it."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    return {"role": "tool" if results else str(role), "content": text_of(parts)}


class SimulatedShell:
    """`bash`: a command that names itself in the witness is one line there, some time after it was started."""

    name = "bash"
    description = "Runs a command."
    parameters: dict[str, Any] = {  # noqa: RUF012 - the port wants it so
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    }
    effect = EffectClass.OTHER

    def __init__(self, witness: list[str], dice: random.Random) -> None:
        self._witness, self._dice = witness, dice
        self._pid = 1000

    def fault(self, arguments: dict[str, Any]) -> str | None:
        return None if isinstance(arguments.get("command"), str) else "argument 'command' is missing"

    async def target(self, arguments: dict[str, Any], context: ToolContext) -> Target | None:
        return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        self._pid += 1
        await context.spawned(Spawned(pid=self._pid, started="1", host="simulated"))
        await asyncio.sleep(self._dice.random())
        words = str(arguments["command"]).split()
        if "echo" in words:
            self._witness.append(words[words.index("echo") + 1])
        await asyncio.sleep(self._dice.random() * 2)
        return ToolOutcome(text=f"ran {words[-1]}", facts={"exit_code": 0})


def tools(witness: list[str], dice: random.Random) -> BuiltinRegistry:
    """Files are real, in the simulation's folder; commands are not."""
    return BuiltinRegistry((READ, WRITE, SimulatedShell(witness, dice)))
