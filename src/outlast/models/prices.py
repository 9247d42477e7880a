"""What a reply costs, from the table that genai-prices ships. Unknown is None, never nothing.

`Usage.input_tokens` counts all input, cached input too, as the providers' bills do; the table knows the discounts.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from types import ModuleType

from outlast.core.messages import Usage

FREE = ("local",)
"""What really costs nothing: it runs on this machine, and nobody bills for it."""

_IDS = {
    "xai": "x-ai",
    "bedrock": "aws",
    "google-cloud": "google",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
"""Providers that the table calls by another name."""


def cost_micros(model: str, usage: Usage) -> int | None:
    """Millionths of a US dollar for one reply of `provider:model`; None when the price is not known."""
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
    """How many tokens `provider:model` takes; None when the table does not say."""
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
