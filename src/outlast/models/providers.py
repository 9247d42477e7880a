"""Real providers, through pydantic-ai's `direct` interface.

One request is one HTTP request; the runtime does retries. The SDKs are imported by `load` or the first request, in a
thread, so that the event loop can keep renewing leases. Clients belong to an event loop, so each loop gets its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from outlast.models import prices
from outlast.models.context_window import WindowLookup, window_lookup
from outlast.models.port import UNKNOWN_WINDOW, Abilities, ModelEvent, ModelRequest, WindowSource
from outlast.models.provider_catalog import is_loopback

if TYPE_CHECKING:
    from outlast.models.provider_request import ProviderRequest


class ProviderModel:
    """`provider:model` at its provider's address, or at `url`. `variable` is the environment variable of the key.

    `shown` is the name in the log and in error messages, if it differs from the server's name.
    """

    def __init__(
        self,
        name: str,
        *,
        key: str | None = None,
        url: str | None = None,
        variable: str | None = None,
        abilities: Abilities | None = None,
        context_window: int | None = None,
        shown: str | None = None,
    ) -> None:
        self.name = shown or name
        self._kind, _, self._model = name.partition(":")
        self._key = key
        self._url = url
        self._variable = variable
        self._abilities = abilities
        self._window = context_window
        self._lookup: WindowLookup | None = None
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, ProviderRequest] = WeakKeyDictionary()

    @property
    def provider(self) -> str:
        """The provider whose signatures the model accepts. A compatible server does not know the provider's proofs."""
        return self._kind if self._url is None else f"{self._kind}-compatible"

    @property
    def abilities(self) -> Abilities:
        """What the model supports. While its server is asked for the window, the window is the assumed one."""
        if self._abilities is not None:
            return self._abilities
        tokens, source = self._context_window()
        abilities = Abilities(
            context_window=tokens,
            window_source=source,
            on_this_machine=is_loopback(self._url),
            reasoning=self._url is None and self._kind in ("anthropic", "openai", "google"),
        )
        if self._lookup is None:  # with a lookup the next call may know more
            self._abilities = abilities
        return abilities

    def _context_window(self) -> tuple[int, WindowSource]:
        if self._window:
            return self._window, WindowSource.SETTING
        if self._lookup is None:
            known = prices.context_window(self.name) if self._url is None else None
            if known:
                return known, WindowSource.KNOWN_MODEL
            self._lookup = window_lookup(self._kind, self._url, self._model, self._key)
        if self._lookup is not None and self._lookup.tokens:
            return self._lookup.tokens, WindowSource.PROVIDER
        return UNKNOWN_WINDOW, WindowSource.ASSUMED

    def settle_window(self) -> None:
        """Wait until the size of the window is known, or two seconds."""
        if self.abilities.window_source == WindowSource.ASSUMED and self._lookup is not None:
            self._lookup.wait()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the reply. Raises only `outlast.core.errors`; a reply that breaks off raises `ModelUnavailable`."""
        asking = await self._opened()
        from outlast.models.provider_request import AlternatingTurnsNeeded

        images = self.abilities.images
        try:
            async with aclosing(asking.ask(request, images=images)) as events:
                async for event in events:
                    yield event
        except AlternatingTurnsNeeded:
            async with aclosing(asking.ask(request, images=images)) as events:
                async for event in events:
                    yield event
        finally:
            if self._lookup is not None:
                self._lookup.after_reply()

    async def load(self) -> None:
        """Import the SDK and make the client, so that a recorded request is sent without delay."""
        await self._opened()

    async def close(self) -> None:
        asking = self._open.pop(asyncio.get_running_loop(), None)
        if asking is not None:
            await asking.close()

    async def _opened(self) -> ProviderRequest:
        loop = asyncio.get_running_loop()
        asking = self._open.get(loop)
        if asking is None:
            made = await asyncio.to_thread(self._make)
            asking = self._open.setdefault(loop, made)
            if asking is not made:
                await made.close()
        return asking

    def _make(self) -> ProviderRequest:
        from outlast.models.provider_request import ModelEndpoint, ProviderRequest

        return ProviderRequest(
            ModelEndpoint(self.name, self._kind, self._model, self.provider, self._key, self._url, self._variable)
        )
