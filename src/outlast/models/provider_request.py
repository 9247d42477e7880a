"""One HTTP request to a provider: takes a `ModelRequest`, yields deltas and the whole reply. Nothing here retries.

It also creates pydantic-ai's model for a provider, with our key, our address and our HTTP client. The module is
imported only on the first request, because it imports pydantic-ai and the provider's SDK.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

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
from outlast.models.provider_catalog import is_loopback
from outlast.models.reply_stream import ReplyStream, finished
from outlast.models.request_messages import RequestMessages


class ModelEndpoint(NamedTuple):
    """The address of a model. `kind` is the provider's name; `provider` names whose signatures it accepts."""

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
    """The server refuses consecutive user messages; no part of the reply has been yielded yet."""


class ProviderRequest:
    """Sends requests to one model on one event loop."""

    def __init__(self, address: ModelEndpoint) -> None:
        self.address = address
        self._sdk: Sdk = sdk_for(address.kind, address.name, address.key, address.url)
        self._merged = False

    async def ask(self, request: ModelRequest, *, images: bool) -> AsyncGenerator[ModelEvent]:
        """Stream a reply. Raises `AlternatingTurnsNeeded` at most once, otherwise only `outlast.core.errors`."""
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
                self._merged = True  # remembered for later requests
                raise AlternatingTurnsNeeded from error
            raise explained(error, who, with_tools=bool(request.tools)) from error
        except (ValueError, TypeError, AttributeError, LookupError, AssertionError) as error:
            # The SDK failed on a malformed answer: no part of it can be trusted.
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
"""Sent to a server at a custom address if no key is set, because the SDK requires one."""

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
"""Providers that cache only marked content; the others cache automatically."""

# Some SDKs cannot turn their retries off; the user cannot do anything about that warning.
warnings.filterwarnings("ignore", category=x.UnsupportedSettingWarning)
warnings.filterwarnings("ignore", message="invalid escape sequence")  # from Google's SDK, when Python compiles it


_TIMEOUTS = httpx2.Timeout(600, connect=5, read=None)
"""The runtime limits silence: a server's keep-alive comments would reset a limit on bytes."""


class Sdk(NamedTuple):
    """A model bound to one event loop, and its client, which the creator must close."""

    model: SdkModel
    client: httpx2.AsyncClient


def sdk_for(provider: str, name: str, key: str | None, url: str | None) -> Sdk:
    """Create the model `name` of `provider`. With `url`, `openai` uses chat completions: all servers know it."""
    client = _client(url)
    kind = "openai-chat" if provider == "openai" and url is not None else provider
    wanted = {"api_key": key or (NO_KEY if url is not None else None), "base_url": url, "http_client": client}
    if provider in ("openai", "openai-chat") and url is None:
        wanted["base_url"] = OPENAI_URL  # otherwise the SDK reads the environment

    def made(_: str) -> Any:
        known = inspect.signature(infer_provider_class(kind).__init__).parameters
        return infer_provider_class(kind)(**{k: v for k, v in wanted.items() if k in known and v is not None})

    try:
        return Sdk(infer_model(f"{kind}:{name}", made), client)
    except (x.UserError, ValueError) as error:
        raise ConfigError(f"{provider}:{name} cannot be used ({error})") from error


def _client(url: str | None) -> httpx2.AsyncClient:
    if is_loopback(url):  # never through a proxy
        return create_async_httpx2_client(timeout=_TIMEOUTS, transport=httpx2.AsyncHTTPTransport())
    return create_async_httpx2_client(timeout=_TIMEOUTS)


def settings_for(provider: str, request: ModelRequest, *, official: bool) -> ModelSettings:
    """Convert the options of a request to the provider's settings."""
    wanted: dict[str, Any] = {"max_retries": 0}
    if request.answer_only and request.tools:
        wanted["tool_choice"] = "none"
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
        wanted["openai_store"] = False  # our log holds the session; the provider need not store it
        if request.session_id:
            wanted["openai_prompt_cache_key"] = request.session_id
    return ModelSettings(**wanted)
