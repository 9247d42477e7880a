"""Reports which migrations a store has and which it still needs, without applying any."""

from __future__ import annotations

from pathlib import Path

import msgspec

from outlast.core.errors import StoreUnavailable
from outlast.store import place_of
from outlast.store.maintenance.migrations import AppliedMigration, migrations, newest, outstanding


class SchemaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is the store's newest migration (0: none), `known` the newest one of this Outlast."""

    store: str
    version: int
    known: int
    applied: list[str]
    outstanding: list[str]


def schema_of(url: str) -> SchemaStatus:
    """Read a store's schema status. `SchemaTooNew` if this Outlast is too old for it, `StoreUnavailable` if there is no
    store."""
    scheme, path = place_of(url)
    if scheme == "memory":
        return SchemaStatus(store=scheme, version=0, known=0, applied=[], outstanding=[])
    if scheme == "files" and path is not None:
        return _format(path)
    dialect = "postgres" if path is None else "sqlite"
    found = _applied(url, path)
    where = str(path) if path is not None else "the database"
    todo = outstanding(dialect, found, where)
    names = {migration.number: f"{migration.number:04d}_{migration.name}" for migration in migrations(dialect)}
    return SchemaStatus(
        store=scheme,
        version=max((migration.number for migration in found), default=0),
        known=newest(dialect),
        applied=[names.get(migration.number, f"{migration.number:04d}") for migration in found],
        outstanding=[names[migration.number] for migration in todo],
    )


def _format(path: Path) -> SchemaStatus:
    """A files store has no migrations: its directory and every file state their format."""
    from outlast.store.files import setup

    if not path.is_dir():
        raise StoreUnavailable(f"there is no store at {path}; check --store, or write a first message to create it")
    found = setup.check(path)
    todo = [f"format {setup.FORMAT}"] if found.format < setup.FORMAT else []
    return SchemaStatus(store="files", version=found.format, known=setup.FORMAT, applied=[], outstanding=todo)


def _applied(url: str, path: Path | None) -> list[AppliedMigration]:
    if path is None:
        from outlast.store.postgres.migrate import applied as in_postgres

        return in_postgres(url)
    if not path.exists():
        raise StoreUnavailable(f"there is no store at {path}; check --store, or write a first message to create it")
    from outlast.store.sqlite.migrate import applied as in_sqlite

    return in_sqlite(path)
