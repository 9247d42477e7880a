"""Making a session, as a door does it: with its project, its persona and its model, and nothing said in it yet."""

from __future__ import annotations

import secrets
from pathlib import Path

from outlast.app.placement import bound_to
from outlast.app.settings import Settings, in_project
from outlast.core.errors import ConfigError, ConflictError
from outlast.core.event_row import Actor
from outlast.core.events import SessionCreated
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.models.provider_catalog import provider_of
from outlast.runtime.prompt.personas import load_personas
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store.log_store import LogStore
from outlast.store.port import Create, NewEvent

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
    """A new session; its id. Durable on return. `ConflictError` for a persona or a provider that there is not. Without
    `root` its project is not on this machine, but at its `place`."""
    session_id = id_from(secrets.token_bytes(16))
    check_persona(settings, root or settings.project_root, persona)
    check_model(model)
    header = Header(session_id=session_id, owner_id=owner_id, place=place)
    if root is not None:
        header.project_root = str(root)
        header.project_key, header.project_fingerprint = project_key(root), project_fingerprint(root)
    created = SessionCreated(
        title=title,
        model=model,
        persona=persona,
        project_root=header.project_root,
        project_key=header.project_key,
        project_fingerprint=header.project_fingerprint,
        settings=bound_to(place),
    )
    actor = Actor("user", door).text()
    store.commit(Create(header=header, events=(NewEvent(event=created, actor=actor),), key=f"create-{session_id}"))
    return session_id


def check_persona(settings: Settings, root: Path, persona: str | None) -> None:
    try:
        load_personas(settings.home, in_project(settings, root).project_root).get(persona)
    except ConfigError as error:
        raise ConflictError(str(error)) from error


def check_model(model: str | None) -> None:
    """Whether such a model can be; whether it answers is found out when it is asked."""
    if model is None or model.startswith(OWN_MODELS):
        return
    try:
        provider_of(model)
    except ConfigError as error:
        raise ConflictError(str(error)) from error
