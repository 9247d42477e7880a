"""Creates sessions for doors, after checking the persona and the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from outlast.app.models import FILE, NONE
from outlast.app.settings import Settings, in_project
from outlast.core.errors import ConfigError, ConflictError
from outlast.core.header import Header
from outlast.models.provider_catalog import provider_of
from outlast.runtime.prompt.personas import load_personas
from outlast.runtime.prompt.project_identity import project_key
from outlast.runtime.service import SessionService
from outlast.store.log_store import LogStore
from outlast.store.port import Query


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
    check_model(settings, model)
    return SessionService(store, door).create(
        root=root, title=title, model=model, persona=persona, owner_id=owner_id, place=place
    )


def check_project(store: LogStore, settings: Settings, root: Path) -> None:
    """Raise `ConflictError` unless the user knows this folder as a project: it is in the one of this process, in the
    list of allowed ones, or has a session that was created on this machine.

    A client with the token is otherwise free to have any folder of the machine read and written.
    """
    real = root.resolve()
    if any(real.is_relative_to(Path(one).resolve()) for one in (settings.project_root, *settings.allowed_projects)):
        return
    if not any(header.project_root and not header.imported_seq for header in _sessions_of(store, real)):
        raise ConflictError(
            f"{root} is not a project that this server knows; start `outlast` there once, or add the folder to "
            "allowed_projects in config.toml of the Outlast home"
        )


def _sessions_of(store: LogStore, root: Path) -> Iterator[Header]:
    cursor, key = None, project_key(root)
    while True:
        page = store.find(Query(project_key=key, limit=200, cursor=cursor))
        yield from page.headers
        if page.cursor is None:
            return
        cursor = page.cursor


def check_persona(settings: Settings, root: Path, persona: str | None) -> None:
    try:
        load_personas(settings.home, in_project(settings, root).project_root).get(persona)
    except ConfigError as error:
        raise ConflictError(str(error)) from error


def check_model(settings: Settings, model: str | None) -> None:
    """Raise `ConflictError` if the provider is unknown. Whether the model answers is only known when it is called.

    A script file decides every call, so doors accept only files in the folder of the script that this process was
    started with.
    """
    if model is None or model in (NONE, "local"):
        return
    if model.startswith(FILE):
        _check_file(settings, model.removeprefix(FILE))
        return
    try:
        provider_of(model)
    except ConfigError as error:
        raise ConflictError(str(error)) from error


def _check_file(settings: Settings, path: str) -> None:
    own = settings.model or ""
    if not own.startswith(FILE) or _folder(own.removeprefix(FILE)) != _folder(path):
        raise ConflictError(
            f"a file as a model ({FILE}FILE) cannot be chosen here; start Outlast with --model or OUTLAST_MODEL instead"
        )


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))
