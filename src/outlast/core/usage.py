"""Token and cost totals of a session."""

from __future__ import annotations

import msgspec

from outlast.core.messages import Usage

MODELS = 32
OTHER_MODELS = "other"


class ModelUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sums over replies. `cost_micros` adds up the known costs; `unpriced` counts replies with an unknown price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0

    def add(self, usage: Usage) -> None:
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cache_read_tokens += usage.cache_read_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        self.cost_micros += usage.cost_micros or 0
        self.unpriced += usage.cost_micros is None


class UsageTotals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session's own usage: a fork starts at zero. Past `MODELS` models, the others share one sum."""

    total: ModelUsage = msgspec.field(default_factory=ModelUsage)
    models: dict[str, ModelUsage] = {}
    turns: int = 0
    replies: int = 0
    tool_calls: int = 0

    def add(self, usage: Usage, model: str | None) -> None:
        self.total.add(usage)
        name = model or "unknown"
        if name not in self.models and len(self.models) >= MODELS:
            name = OTHER_MODELS
        self.models.setdefault(name, ModelUsage()).add(usage)
