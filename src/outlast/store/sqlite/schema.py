"""The schema version of a database, read without changing it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import apsw

from outlast.store.migrations import Applied
from outlast.store.sqlite import opening

APPLIED = "SELECT number, checksum, min_reader FROM migrations ORDER BY number"


def applied(path: Path) -> list[Applied]:
    opening.check_version()
    opening.check_plain(path)
    connection = opening.connect(path)
    try:
        opening.identify(connection, path)
        return applied_in(connection, path)
    finally:
        connection.close()


def applied_in(connection: apsw.Connection, path: Path) -> list[Applied]:
    with opening.translated(path):
        if not connection.table_exists("main", "migrations"):
            return []
        return [Applied(*cast("tuple[int, str, int]", row)) for row in connection.execute(APPLIED)]
