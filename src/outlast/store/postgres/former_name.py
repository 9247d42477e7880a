"""Statements for the schema name `holdfast`, which migration 6 renames to `outlast`.

Migrations 1 to 5 use the old name, so a new database has it too until migration 6 runs. A database that has not been
opened since the project was renamed still has it, and its migrations are read there.
"""

from __future__ import annotations

from outlast.core.errors import StoreUnavailable

RENAMED_BY = 6
"""Number of the renaming migration; earlier migrations use the former name."""

# Reads the catalog tables: `to_regclass` may return the state from before the wait for the migration lock.
LOOK = (
    "SELECT n.nspname, EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'migrations') "
    "FROM pg_namespace n WHERE n.nspname IN ('holdfast', 'outlast')"
)
SCHEMA = "holdfast"
CREATE = "CREATE SCHEMA holdfast"
TAKE = "ALTER SCHEMA outlast RENAME TO holdfast"
"""For an empty schema that the user created beforehand; migration 6 gives it back its name."""
APPLIED = "SELECT number, checksum, min_reader FROM holdfast.migrations ORDER BY number"
RECORD = "INSERT INTO holdfast.migrations VALUES (%s, %s, %s, %s, %s)"
STORAGE = """
ALTER TABLE holdfast.events ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE holdfast.chunks ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE holdfast.blobs ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE holdfast.snapshots ALTER COLUMN state SET STORAGE EXTERNAL;
"""


def refusal(where: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{where} holds both the schema 'outlast' and the schema 'holdfast' that it was called before, and only one of "
        "them can be the store; drop the other one, or rename it (ALTER SCHEMA ... RENAME TO ...)"
    )
