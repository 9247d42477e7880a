"""Cost of a reply, from the table in genai-prices. An unknown price is None, never zero.

`Usage.input_tokens` counts all input including cached input, as providers bill it; the table knows the discounts.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from types import ModuleType

from outlast.core.messages import Usage

FREE = ("local",)
"""Providers that are free: they run on this machine."""

_IDS = {
    "xai": "x-ai",
    "bedrock": "aws",
    "google-cloud": "google",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
"""Providers that have another name in the table."""


def cost_micros(model: str, usage: Usage) -> int | None:
    """Return the cost of one reply of `provider:model` in millionths of a US dollar; None if the price is unknown."""
    provider, _, name = model.partition(":")
    if provider in FREE:
        return 0
    table = _table()
    if table is None or not name:
        return None
    counted = table.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        found = table.calc_price(counted, name, provider_id=_IDS.get(provider, provider))
    except (LookupError, ValueError):
        return None
    return int((Decimal(found.total_price) * 1_000_000).to_integral_value(ROUND_HALF_EVEN))


def context_window(model: str) -> int | None:
    """Return the context window of `provider:model` in tokens; None if the table has none."""
    provider, _, name = model.partition(":")
    table = _table()
    if table is None or not name:
        return None
    snapshot = table.data_snapshot.get_snapshot()
    try:
        _, found = snapshot.find_provider_model(name, None, _IDS.get(provider, provider), None)
    except (LookupError, ValueError):
        return None
    window: int | None = found.context_window
    return window


@lru_cache(maxsize=1)
def _table() -> ModuleType | None:
    try:
        import genai_prices
    except ModuleNotFoundError:
        return None
    return genai_prices
