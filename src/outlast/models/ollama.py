"""Ollama on this machine: whether it is there, and what it can run."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import msgspec

PROBE_SECONDS = 0.2


class _Tag(msgspec.Struct, frozen=True):
    name: str


class _Tags(msgspec.Struct, frozen=True):
    models: list[_Tag] = []


def ollama_models(url: str, seconds: float = PROBE_SECONDS) -> list[str] | None:
    """The models of the Ollama at `url`, newest first; None when none answers there."""
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
