"""Creates sessions for doors, after checking the persona and the model."""

from __future__ import annotations

from pathlib import Path

from outlast.app.settings import Settings, in_project
from outlast.core.errors import ConfigError, ConflictError
from outlast.models.provider_catalog import provider_of
from outlast.runtime.prompt.personas import load_personas
from outlast.runtime.service import SessionService
from outlast.store.log_store import LogStore

OWN_MODELS = ("none", "local", "scripted:")


def create(
    store: LogStore,
    settings: Settings,
    root: Path | None,
    *,
    door: str,
    title: str | None = None,
    model: str | None = None,
    persona: str | None = None,
    owner_id: str = "local",
    place: str | None = None,
) -> str:
    """Create a session, durably, and return its id. Raises `ConflictError` for an unknown persona or provider. Without
    `root` the project is not on this machine, but at `place`."""
    check_persona(settings, root or settings.project_root, persona)
    check_model(model)
    return SessionService(store, door).create(
        root=root, title=title, model=model, persona=persona, owner_id=owner_id, place=place
    )


def check_persona(settings: Settings, root: Path, persona: str | None) -> None:
    try:
        load_personas(settings.home, in_project(settings, root).project_root).get(persona)
    except ConfigError as error:
        raise ConflictError(str(error)) from error


def check_model(model: str | None) -> None:
    """Raise `ConflictError` if the provider is unknown. Whether the model answers is only known when it is called."""
    if model is None or model.startswith(OWN_MODELS):
        return
    try:
        provider_of(model)
    except ConfigError as error:
        raise ConflictError(str(error)) from error
