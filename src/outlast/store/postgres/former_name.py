"""The schema as it was called before migration 6 renamed it.

Migrations 1 to 5 were written for that name, so a fresh database has it for a moment too. A database that nobody has
opened since the project was renamed still has it, and those who only look find its migrations there.
"""

from __future__ import annotations

from outlast.core.errors import StoreUnavailable

RENAMED_BY = 6
"""The number of the migration; those before it find and leave the schema under its former name."""

# From the tables themselves: `to_regclass` may answer from before the migration lock was waited for.
LOOK = (
    "SELECT n.nspname, EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'migrations') "
    "FROM pg_namespace n WHERE n.nspname IN ('holdfast', 'outlast')"
)
SCHEMA = "holdfast"
CREATE = "CREATE SCHEMA holdfast"
TAKE = "ALTER SCHEMA outlast RENAME TO holdfast"
"""For a schema that was made beforehand and is empty: it gets its name back with migration 6."""
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
