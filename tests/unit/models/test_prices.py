"""What a reply costs."""

import pytest

from outlast.core.messages import Usage
from outlast.models.port import UNKNOWN_WINDOW
from outlast.models.prices import context_window, cost_micros
from outlast.models.providers import ProviderModel

MILLION = Usage(input_tokens=1_000_000, output_tokens=0)


def test_a_known_model_has_a_price_in_millionths_of_a_dollar() -> None:
    assert cost_micros("openai:gpt-4o", MILLION) == 2_500_000
    assert cost_micros("anthropic:claude-sonnet-5", Usage(output_tokens=1000)) == 10_000


def test_cached_input_is_cheaper_and_counted_once() -> None:
    cached = Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000)
    full, less = cost_micros("anthropic:claude-sonnet-5", MILLION), cost_micros("anthropic:claude-sonnet-5", cached)
    assert full is not None
    assert less is not None
    assert less == pytest.approx(full / 10)


@pytest.mark.parametrize(
    "model", ["openai:no-such-model", "scripted", "scripted:gpt-4o", "nobody:gpt-4o", "", "ollama:x"]
)
def test_an_unknown_price_is_none_and_never_nothing(model: str) -> None:
    assert cost_micros(model, MILLION) is None


def test_only_what_runs_here_is_free() -> None:
    assert cost_micros("local", MILLION) == 0


def test_windows_of_common_models_are_known() -> None:
    assert context_window("anthropic:claude-sonnet-4-5") == 200_000
    assert context_window("openai:no-such-model") is None


def test_an_unknown_window_is_32k_unless_it_is_set() -> None:
    assert ProviderModel("openai:no-such-model").abilities.context_window == UNKNOWN_WINDOW
    assert ProviderModel("openai:no-such-model", context_window=64_000).abilities.context_window == 64_000
    assert ProviderModel("openai:gpt-4o", url="http://127.0.0.1:9/v1").abilities.context_window == UNKNOWN_WINDOW
    assert ProviderModel("openai:gpt-4o").abilities.context_window == 128_000
