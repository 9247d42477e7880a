"""Which model answers when nobody named one; and which names are known."""

from importlib.util import find_spec

import pytest

from outlast.core.errors import ConfigError, MissingExtra
from outlast.models.default_choice import AvailableModels, chosen
from outlast.models.prices import context_window
from outlast.models.provider_catalog import PROVIDERS, Provider, provider_of, require_installed


def test_a_key_wins_over_everything_else() -> None:
    choice = chosen(AvailableModels({"openai": "k"}, ["llama"], True))
    assert choice.model == f"openai:{PROVIDERS['openai'].default}"
    assert choice.reason == "OPENAI_API_KEY is set"
    assert choice.options == ()


def test_several_keys_are_the_users_to_choose_from_and_the_first_is_taken_meanwhile() -> None:
    choice = chosen(AvailableModels({"google": "k", "anthropic": "k"}))
    assert choice.model is not None
    assert choice.model.startswith("anthropic:")
    assert [option.partition(":")[0] for option in choice.options] == ["anthropic", "google"]
    assert "--model" in choice.reason


def test_a_key_of_a_provider_without_a_default_model_chooses_nothing() -> None:
    assert chosen(AvailableModels({"groq": "k"}, None, True)).model == "local"


def test_ollama_comes_before_the_local_model() -> None:
    assert chosen(AvailableModels({}, ["qwen3:8b", "x"], True)).model == "ollama:qwen3:8b"
    assert chosen(AvailableModels({}, [], True)).model == "local"


def test_the_local_model_says_that_it_is_for_trying() -> None:
    assert "demo model" in chosen(AvailableModels({}, None, True)).reason


def test_when_nothing_can_answer_the_reason_says_what_to_do() -> None:
    choice = chosen(AvailableModels({}))
    assert choice.model is None
    assert "ANTHROPIC_API_KEY" in choice.reason


@pytest.mark.parametrize("name", ["gpt-4o", "nobody:gpt", ":", ""])
def test_an_unknown_name_is_one_sentence_that_names_what_exists(name: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown .*anthropic, openai, google.*local, none"):
        provider_of(name)


def test_a_provider_alone_is_not_a_model() -> None:
    with pytest.raises(ConfigError, match="which model of anthropic; write anthropic:"):
        provider_of("anthropic")


def test_models_may_have_colons_in_their_names() -> None:
    assert provider_of("ollama:qwen3:8b")[1] == "qwen3:8b"


def test_a_missing_sdk_is_one_line_with_the_command() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'outlast\[anthropic\]'"):
        require_installed(PROVIDERS["anthropic"]._replace(module="no_such_sdk"))
    with pytest.raises(ConfigError, match=r"pip install 'pydantic-ai-slim\[groq\]'"):
        require_installed(Provider("groq", extra="groq", module="no_such.sdk"))


def test_default_models_exist() -> None:
    names = find_spec("pydantic_ai.models._known_model_names")
    assert names is not None
    assert names.origin is not None
    with open(names.origin) as file:
        known = file.read()
    for provider in PROVIDERS.values():
        if provider.default:
            assert f"'{provider.name}:{provider.default}'" in known
            assert context_window(f"{provider.name}:{provider.default}") is not None
