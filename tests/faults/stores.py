"""The three stores as places to write to: where a fresh one lies, what to import, how to make them touchy."""

import importlib
import os
from pathlib import Path
from urllib.parse import urlsplit

MODULES = {"sqlite": "outlast.store.sqlite", "files": "outlast.store.files", "postgres": "outlast.store.postgres"}
ALL = tuple(MODULES)
LOCAL = ("sqlite", "files")


def url_in(kind: str, place: str, folder: Path) -> str:
    """The URL of a store in this folder; PostgreSQL's is the place that was given."""
    if kind == "postgres":
        return place
    if kind == "sqlite":
        return f"sqlite:///{folder}/store/log.db"
    return f"files:///{folder}/store?rotate_after_bytes=16384"  # small enough for new segments


def another_place(kind: str, place: str, number: int) -> str:
    """An empty database beside the one that was given; those on a server are dear, so each is used a few times."""
    if kind != "postgres" or number % 4:
        return place if kind != "postgres" else place.replace("?", f"_{number - number % 4}?", 1)
    import psycopg
    from psycopg.sql import SQL, Identifier

    name = urlsplit(place).path.lstrip("/")
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(f"{name}_{number - 4}")))
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(f"{name}_{number}")))
    return place.replace(f"/{name}", f"/{name}_{number}", 1)


def in_memory() -> str | None:
    """A folder whose files are never on a disk, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def load(kind: str) -> None:
    """Import all that the store needs, so that a fork need not."""
    importlib.import_module(MODULES[kind])


def smaller() -> None:
    """Checkpoints after a few commits; only in processes that end soon."""
    _set("outlast.store.sqlite.connections", "CHECKPOINT_PAGES", 12)
    _set("outlast.store.sqlite.connections", "FORCED_PAGES", 60)


def patient_for(seconds: float) -> None:
    """How long to wait for a writer that does not finish; only in processes that end soon, before a store is open."""
    _set("outlast.store.sqlite.connections", "GATE_SECONDS", seconds)
    _set("outlast.store.files.directory", "LOCK_SECONDS", seconds)


def _set(module: str, name: str, value: float) -> None:
    found = importlib.import_module(module)
    assert hasattr(found, name), f"{module} has no {name} any more"
    setattr(found, name, value)
