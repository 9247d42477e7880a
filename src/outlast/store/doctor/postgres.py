"""Health checks of a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from outlast.core.errors import OutlastError
from outlast.store.doctor.check import Check, fail, ok, unusable, warn
from outlast.store.maintenance.migrations import newest, outstanding
from outlast.store.postgres import errors
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.postgres.migrate import applied_in

SETTINGS = (
    "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), "
    "current_setting('full_page_writes'), current_setting('server_encoding'), pg_is_in_recovery()"
)


def checks(url: str) -> Iterator[Check]:
    address = PostgresAddress.parse(url)
    try:
        with PostgresConnection.to(address) as link:
            found = link.execute(SETTINGS).fetchone()
            assert found is not None
            yield from _settings(*found)
            yield _schema(len(outstanding("postgres", applied_in(link, address), address.shown)))
    except (OutlastError, psycopg.Error) as error:
        told = error if isinstance(error, OutlastError) else errors.translation(error, address)
        yield unusable(told, "check that the server runs, and the URL's host, user and database")


def _settings(version: str, fsync: str, commit: str, pages: str, encoding: str, standby: bool) -> Iterator[Check]:
    yield ok("server", f"PostgreSQL {version}, {encoding}")
    if fsync != "on" or pages != "on":
        yield fail("sync", f"fsync={fsync}, full_page_writes={pages}: a power cut could lose everything", "set both on")
    elif commit in ("off", "local"):
        text = f"fsync on; synchronous_commit={commit} by default, which Outlast sets on in every append"
        yield warn("sync", text, "set synchronous_commit = on for other writers too")
    else:
        yield ok("sync", f"fsync on, full_page_writes on, synchronous_commit {commit}")
    if standby:
        yield fail("role", "this is a read-only standby", "use the primary server's address")


def _schema(todo: int) -> Check:
    if todo:
        return warn("schema", f"{todo} migrations are outstanding", "outlast db upgrade")
    return ok("schema", f"version {newest('postgres')}")
