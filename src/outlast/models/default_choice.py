"""Chooses the model when the user has not named one, and gives the reason.

A key is preferred over Ollama, and Ollama over `local`. With several keys, `Choice.options` lets the caller ask the
user once; the default is the first in the catalog, and the reason says so. `chosen` is pure: the available models are
arguments. `ollama_models` asks an Ollama server for its models.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from outlast._version import DISTRIBUTION
from outlast.models.provider_catalog import PROVIDERS

LOCAL_NOTE = "a demo model: it talks, but it cannot work; set a key or start Ollama for a real one"


class AvailableModels(NamedTuple):
    """What is available: keys by provider, the models of a reachable Ollama (None: not reachable), and `local`,
    with the path of the user's own file for it."""

    keys: Mapping[str, str]
    ollama: Sequence[str] | None = None
    local: bool = False
    local_model: str | None = None


class Choice(NamedTuple):
    """`model` is None if no model is available. `options` lists all candidates if the user should be asked once."""

    model: str | None
    reason: str
    options: tuple[str, ...] = ()


def chosen(found: AvailableModels) -> Choice:
    """Return the model to use if the user has not named one."""
    keyed = [one for one in PROVIDERS.values() if one.default and one.name in found.keys]
    if keyed:
        options = tuple(f"{one.name}:{one.default}" for one in keyed)
        first = f"{keyed[0].variable} is set"
        if len(keyed) == 1:
            return Choice(options[0], first)
        others = ", ".join(options[1:])
        return Choice(
            options[0], f"several keys are set, this is the first; --model chooses another ({others})", options
        )
    if found.ollama:
        return Choice(f"ollama:{found.ollama[0]}", "Ollama runs on this machine")
    if found.local:
        return Choice("local", LOCAL_NOTE if found.local_model is None else f"local_model is {found.local_model}")
    return Choice(
        None,
        "no model is available: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GOOGLE_API_KEY, start Ollama, "
        f"or pip install '{DISTRIBUTION}[local]'",
    )


PROBE_SECONDS = 0.2


class _Tag(msgspec.Struct, frozen=True):
    name: str


class _Tags(msgspec.Struct, frozen=True):
    models: list[_Tag] = []


def ollama_models(url: str, seconds: float = PROBE_SECONDS) -> list[str] | None:
    """Return the models of the Ollama server at `url`, newest first; None if it does not answer."""
    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    try:
        link = kind(place.hostname or "", place.port, timeout=seconds)
        try:
            link.request("GET", "/api/tags")
            answer = link.getresponse()
            body = answer.read(1_000_000)
        finally:
            link.close()
        if answer.status != 200:
            return None
        return [tag.name for tag in msgspec.json.decode(body, type=_Tags).models]
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError):
        return None
