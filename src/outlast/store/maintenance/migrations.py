"""Numbered SQL migrations: verified by checksum, applied in order; a schema that is too new is refused.

This module decides which migrations to apply. Each adapter runs them itself (locks, backup, transaction).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from outlast._version import DISTRIBUTION
from outlast.core.errors import SchemaTooNew, StoreUnavailable

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_MIN_READER = re.compile(r"^-- min_reader: (\d+)$", re.MULTILINE)


class Migration(NamedTuple):
    """`min_reader` is the oldest schema number whose code may still use a store with this migration."""

    number: int
    name: str
    sql: str
    checksum: str
    min_reader: int


Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""


class UpgradeProgress:
    """Callbacks for the progress of an upgrade: of the backup (`copying`) and of the headers (`filling`). `copy` is the
    path of the backup, if one was made."""

    def __init__(self, copying: Progress | None = None, filling: Progress | None = None) -> None:
        self.copying = copying
        self.filling = filling
        self.copy: Path | None = None


class AppliedMigration(NamedTuple):
    number: int
    checksum: str
    min_reader: int


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    found: list[Migration] = []
    for file in resources.files("outlast.store").joinpath("sql", dialect).iterdir():
        match = _NAME.fullmatch(file.name)
        if match is None:
            continue
        sql = file.read_text(encoding="utf-8")
        least = _MIN_READER.search(sql)
        if least is None:
            raise StoreUnavailable(f"migration {file.name} does not say its min_reader; this is a fault in Outlast")
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        found.append(Migration(int(match[1]), match[2], sql, checksum, int(least[1])))
    return tuple(sorted(found))


def newest(dialect: str) -> int:
    return migrations(dialect)[-1].number


def outstanding(dialect: str, applied: list[AppliedMigration], where: str) -> list[Migration]:
    """The migrations to apply. Refuses a store whose schema is too new or whose migrations have other checksums."""
    ours = {migration.number: migration for migration in migrations(dialect)}
    for done in applied:
        known = ours.get(done.number)
        if known is None and done.min_reader > newest(dialect):
            raise SchemaTooNew(
                f"{where} has schema {done.number}, this Outlast knows {newest(dialect)}: upgrade Outlast "
                f"(pip install -U {DISTRIBUTION}) or open it with the version that wrote it"
            )
        if known is not None and known.checksum != done.checksum:
            raise StoreUnavailable(
                f"{where}: migration {done.number} was applied with other content than this Outlast ships; "
                "restore the backup or use the Outlast that created the store"
            )
    numbers = {done.number for done in applied}
    return [migration for number, migration in sorted(ours.items()) if number not in numbers]
