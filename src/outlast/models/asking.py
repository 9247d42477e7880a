"""One HTTP request to a provider: a request of ours in, deltas and the whole reply out.

Loaded with the first request only: it imports pydantic-ai and the provider's SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

import httpx2
from pydantic_ai import exceptions as x
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from outlast.core.errors import ModelUnavailable
from outlast.models.faults import Asked, explained, wants_turns
from outlast.models.incoming import Incoming, finished
from outlast.models.outgoing import Outgoing
from outlast.models.port import Finished, ModelEvent, ModelRequest
from outlast.models.sdk import Sdk, sdk_for, settings_for


class Address(NamedTuple):
    """Where a model is. `kind` is the provider's name, `provider` says whose signatures it takes."""

    shown: str
    kind: str
    name: str
    provider: str
    key: str | None
    url: str | None
    variable: str | None

    @property
    def who(self) -> Asked:
        return Asked(self.shown, self.variable, self.url, (self.key,) if self.key else ())


class TurnsWanted(Exception):
    """The server does not take two user messages in a row, and nothing was said yet."""


class Asking:
    """A model on one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._sdk: Sdk = sdk_for(address.kind, address.name, address.key, address.url)
        self._merged = False

    async def ask(self, request: ModelRequest, *, images: bool) -> AsyncGenerator[ModelEvent]:
        """The events of a reply. `TurnsWanted` at most once; every other fault is one of `outlast.core.errors`."""
        kind, who = self.address.kind, self.address.who
        settings = settings_for(kind, request, official=self.address.url is None)
        system = self._sdk.model.system
        out = Outgoing(self.address.provider, system, tools=bool(request.tools), images=images, merged=self._merged)
        messages = out.messages(request.messages)
        incoming = Incoming()
        whole: Finished | None = None
        spoke = False
        try:
            async with model_request_stream(
                self._sdk.model,
                messages,
                model_settings=settings,
                model_request_parameters=_parameters(request),
                instrument=False,
            ) as stream:
                async for event in stream:
                    delta = incoming.delta(event)
                    if delta is not None:
                        spoke = True
                        yield delta
                whole = finished(stream.get(), provider=self.address.provider, model=who.model)
        except (x.AgentRunError, x.UserError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            if wants_turns(error) and not self._merged and not spoke:
                self._merged = True  # found out once
                raise TurnsWanted from error
            raise explained(error, who) from error
        except (ValueError, TypeError, AttributeError, LookupError, AssertionError) as error:
            # An SDK tripped over an answer that is none: nothing of it can be trusted.
            raise ModelUnavailable(f"the answer of {who.model} cannot be read ({type(error).__name__})") from error
        if whole is None:
            raise ModelUnavailable(f"the reply of {who.model} broke off before it was complete")
        yield whole

    async def close(self) -> None:
        await self._sdk.client.aclose()


def _parameters(request: ModelRequest) -> ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters, strict=False
        )
        for tool in request.tools
    ]
    system = [InstructionPart(content=request.system)] if request.system else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=system)
