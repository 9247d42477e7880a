"""Catalog of providers: key variables, default models and required packages.

The first providers have a default model and are chosen automatically if their key is set, in order of preference. The
others are used only when named. A provider that is not listed is unknown.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from outlast.core.errors import ConfigError, MissingExtra


class Provider(NamedTuple):
    """Any of `variables` may hold the key; `url_variable` may hold another address. A provider without variables needs
    more than a key (regions, accounts): its SDK reads that itself.

    `module` is the SDK, installed by the extra `extra`.
    """

    name: str
    variables: tuple[str, ...] = ()
    default: str | None = None
    extra: str = "openai"
    module: str = "openai"
    url: str | None = None
    url_variable: str | None = None

    @property
    def variable(self) -> str | None:
        return self.variables[0] if self.variables else None

    @property
    def installed(self) -> bool:
        try:
            return find_spec("pydantic_ai") is not None and find_spec(self.module) is not None
        except ModuleNotFoundError:  # the parent package is missing
            return False


OLLAMA_URL = "http://127.0.0.1:11434"

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            ("ANTHROPIC_API_KEY",),
            "claude-sonnet-5-5",
            extra="anthropic",
            module="anthropic",
            url_variable="ANTHROPIC_BASE_URL",
        ),
        Provider("openai", ("OPENAI_API_KEY",), "gpt-6.1-sol", url_variable="OPENAI_BASE_URL"),
        Provider("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "gemini-3.8-flash", "google", "google.genai"),
        Provider("ollama", ("OLLAMA_API_KEY",), url=f"{OLLAMA_URL}/v1", url_variable="OLLAMA_BASE_URL"),
        Provider("openai-chat", ("OPENAI_API_KEY",), url_variable="OPENAI_BASE_URL"),
        Provider("alibaba", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
        Provider("azure"),
        Provider("bedrock", extra="bedrock", module="boto3"),
        Provider("cerebras", ("CEREBRAS_API_KEY",)),
        Provider("cohere", ("CO_API_KEY",), extra="cohere", module="cohere"),
        Provider("deepseek", ("DEEPSEEK_API_KEY",)),
        Provider("fireworks", ("FIREWORKS_API_KEY",)),
        Provider("google-cloud", extra="google", module="google.genai"),
        Provider("groq", ("GROQ_API_KEY",), extra="groq", module="groq"),
        Provider("heroku", ("HEROKU_INFERENCE_KEY",)),
        Provider("huggingface", ("HF_TOKEN",), extra="huggingface", module="huggingface_hub"),
        Provider("litellm"),
        Provider("mistral", ("MISTRAL_API_KEY",), extra="mistral", module="mistralai"),
        Provider("moonshotai", ("MOONSHOTAI_API_KEY",)),
        Provider("nebius", ("NEBIUS_API_KEY",)),
        Provider("openrouter", ("OPENROUTER_API_KEY",)),
        Provider("ovhcloud", ("OVHCLOUD_API_KEY",)),
        Provider("sambanova", ("SAMBANOVA_API_KEY",)),
        Provider("together", ("TOGETHER_API_KEY",)),
        Provider("vercel", ("VERCEL_AI_GATEWAY_API_KEY",)),
        Provider("vllm", url_variable="VLLM_BASE_URL"),
        Provider("xai", ("XAI_API_KEY",), extra="xai", module="xai_sdk"),
        Provider("zai", ("ZAI_API_KEY",)),
    )
}

VARIABLES: tuple[str, ...] = tuple(dict.fromkeys(name for one in PROVIDERS.values() for name in one.variables))
"""All variables that may hold a key; a tool's environment must not contain them."""

_OURS = frozenset({"openai", "anthropic", "google"})
OTHERS = ("local", "none", "scripted:FILE")


def provider_of(model: str) -> tuple[Provider, str]:
    """Split `provider:model` into provider and model name; raises `ConfigError` if one is unknown or missing."""
    name, colon, rest = model.partition(":")
    provider = PROVIDERS.get(name)
    if provider is None:
        known = ", ".join([*PROVIDERS, *OTHERS])
        what = f"provider '{name}'" if colon else f"model '{model}'"
        raise ConfigError(f"unknown {what}; models are PROVIDER:MODEL or one of these: {known}")
    if not rest:
        example = f"{name}:{provider.default}" if provider.default else f"{name}:NAME"
        raise ConfigError(f"'{model}' does not say which model of {name}; write {example}")
    return provider, rest


def require_installed(provider: Provider) -> None:
    """Raise `MissingExtra` or `ConfigError` if the provider's SDK is not installed; the check imports nothing."""
    if provider.installed:
        return
    if provider.extra in _OURS:
        raise MissingExtra(provider.extra, f"the provider '{provider.name}'")
    raise ConfigError(f"the provider '{provider.name}' needs its SDK: pip install 'pydantic-ai-slim[{provider.extra}]'")


def is_loopback(url: str | None) -> bool:
    """Whether a server at this address runs on this machine."""
    return url is not None and urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
