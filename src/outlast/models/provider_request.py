"""One HTTP request to a provider: a request of ours in, deltas and the whole reply out.

Loaded with the first request only: it imports pydantic-ai and the provider's SDK.

pydantic-ai's model for a provider, made with our key, our address and our HTTP client. Nothing here retries.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions as x
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model as SdkModel
from pydantic_ai.models import ModelRequestParameters, create_async_httpx2_client, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from outlast.core.errors import ConfigError, ModelRefused, ModelUnavailable
from outlast.models.errors import RequestedModel, explained, wants_turns
from outlast.models.port import Finished, ModelEvent, ModelRequest
from outlast.models.reply_stream import ReplyStream, finished
from outlast.models.request_messages import RequestMessages


class ModelEndpoint(NamedTuple):
    """Where a model is. `kind` is the provider's name, `provider` says whose signatures it takes."""

    shown: str
    kind: str
    name: str
    provider: str
    key: str | None
    url: str | None
    variable: str | None

    @property
    def who(self) -> RequestedModel:
        return RequestedModel(self.shown, self.variable, self.url, (self.key,) if self.key else ())


class AlternatingTurnsNeeded(Exception):
    """The server does not take two user messages in a row, and nothing was said yet."""


class ProviderRequest:
    """A model on one event loop."""

    def __init__(self, address: ModelEndpoint) -> None:
        self.address = address
        self._sdk: Sdk = sdk_for(address.kind, address.name, address.key, address.url)
        self._merged = False

    async def ask(self, request: ModelRequest, *, images: bool) -> AsyncGenerator[ModelEvent]:
        """The events of a reply. `TurnsWanted` at most once; every other fault is one of `outlast.core.errors`."""
        kind, who = self.address.kind, self.address.who
        settings = settings_for(kind, request, official=self.address.url is None)
        system = self._sdk.model.system
        out = RequestMessages(
            self.address.provider, system, tools=bool(request.tools), images=images, merged=self._merged
        )
        messages = out.messages(request.messages)
        incoming = ReplyStream()
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
                raise AlternatingTurnsNeeded from error
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


OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no-key"
"""Sent where a server on this machine wants none and its SDK insists on one."""

EFFORTS: dict[str, Any] = {
    "none": False,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_CACHED = frozenset({"anthropic", "bedrock", "openrouter"})
"""Who caches only what is marked; the others do it by themselves."""

# A provider that cannot turn its retries off is asked anyway; its user can do nothing about the warning.
warnings.filterwarnings("ignore", category=x.UnsupportedSettingWarning)
warnings.filterwarnings("ignore", message="invalid escape sequence")  # Google's SDK, when it is compiled


class Sdk(NamedTuple):
    """A model bound to one event loop, and the client that whoever made it closes."""

    model: SdkModel
    client: httpx2.AsyncClient


def sdk_for(provider: str, name: str, key: str | None, url: str | None) -> Sdk:
    """The model `name` of `provider`. With `url`, `openai` speaks chat completions, which every server knows."""
    client = _client(url)
    kind = "openai-chat" if provider == "openai" and url is not None else provider
    wanted = {"api_key": key or (NO_KEY if url is not None else None), "base_url": url, "http_client": client}
    if provider in ("openai", "openai-chat") and url is None:
        wanted["base_url"] = OPENAI_URL  # the SDK would ask the environment

    def made(_: str) -> Any:
        known = inspect.signature(infer_provider_class(kind).__init__).parameters
        return infer_provider_class(kind)(**{k: v for k, v in wanted.items() if k in known and v is not None})

    try:
        return Sdk(infer_model(f"{kind}:{name}", made), client)
    except (x.UserError, ValueError) as error:
        raise ConfigError(f"{provider}:{name} cannot be used ({error})") from error


def _client(url: str | None) -> httpx2.AsyncClient:
    host = urlsplit(url).hostname if url else None
    if host in ("127.0.0.1", "localhost", "::1"):  # never through a proxy
        return create_async_httpx2_client(transport=httpx2.AsyncHTTPTransport())
    return create_async_httpx2_client()


def settings_for(provider: str, request: ModelRequest, *, official: bool) -> ModelSettings:
    """What a request asks for, in the provider's terms."""
    wanted: dict[str, Any] = {"max_retries": 0}
    if request.max_output_tokens is not None:
        wanted["max_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        wanted["temperature"] = request.temperature
    if request.effort is not None:
        if request.effort not in EFFORTS:
            raise ModelRefused(f"unknown effort '{request.effort}'; use one of {', '.join(EFFORTS)}")
        wanted["thinking"] = EFFORTS[request.effort]
    if provider in _CACHED:
        wanted["cache"] = True
    if provider == "openai" and official:
        wanted["openai_store"] = False  # the session is ours; nothing depends on what the provider keeps
        if request.session_id:
            wanted["openai_prompt_cache_key"] = request.session_id
    return ModelSettings(**wanted)
