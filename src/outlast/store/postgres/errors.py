"""Classifies PostgreSQL's errors (transient, certainly not written, damage) and translates them for the user."""

from __future__ import annotations

import psycopg

from outlast.core.errors import InvalidInput, OutlastError, StoreUnavailable
from outlast.store.postgres.dsn import PostgresAddress

# Rolled back, and worth a retry with the same key: serialization, deadlock, lock timeout, statement timeout, a key or
# session that another process created first, a prepared statement that a pooler has lost.
NOT_PREPARED = frozenset({"26000", "42P05"})
PASSING = frozenset({"40001", "40P01", "55P03", "57014", "23505"}) | NOT_PREPARED
# The server is stopping, starting or not accepting this connection, which is then of no more use.
AWAY = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "53300", "25006"})


def passes(error: psycopg.Error) -> bool:
    """Whether the statement was rolled back for a transient reason."""
    return error.sqlstate in PASSING


def is_certain(error: psycopg.Error) -> bool:
    """Whether the error proves that the statement was not executed; an error on disconnect proves nothing."""
    return error.sqlstate in ("25006", "53300") or (error.sqlstate is not None and not is_away(error))


def is_away(error: psycopg.Error) -> bool:
    """Whether the server is unreachable or ended the connection for a transient reason."""
    if error.sqlstate is not None:
        return error.sqlstate in AWAY or error.sqlstate.startswith("08")
    text = str(error)
    return isinstance(error, psycopg.OperationalError) and not any(word in text for word in _FOR_GOOD)


def is_damage(error: psycopg.Error) -> bool:
    """Whether stored bytes cannot be read: damaged pages or indexes, a failing disk, invalid text."""
    return error.sqlstate is not None and (error.sqlstate[:2] in ("XX", "58") or error.sqlstate in ("22021", "22P05"))


# Errors while connecting have no SQLSTATE, so they are recognized by their text.
_NO_DATABASE = "does not exist"
_NO_PASSWORD = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "authentication failed",
)
_NO_HOST = ("could not translate host name", "Name or service not known", "nodename nor servname")
_NO_CONNECTIONS = ("too many clients", "remaining connection slots", "too many connections")
_FOR_GOOD = (_NO_DATABASE, *_NO_PASSWORD, *_NO_HOST, "permission denied for database", "root certificate", "SSL error")


def translation(error: psycopg.Error, address: PostgresAddress) -> OutlastError:
    """Translate to one sentence with cause and remedy, never with the URL's password."""
    said = _first_line(error)
    where = address.shown
    match error.sqlstate:
        case None:
            return StoreUnavailable(_unreachable(said, str(error), address))
        case "42501":
            text = (
                f"no permission in {where} ({said}); "
                "the role needs all rights in the schema 'outlast', and to make or upgrade it CREATE on the database"
            )
        case "53100":
            text = f"the disk of {where} is full; free some space, nothing that was acknowledged is lost"
        case "53300":
            text = f"{where} has no free connections; raise max_connections or close other programs"
        case "55P03" | "40P01" | "57014":
            text = (
                f"the session is locked by another connection to {where} and was not freed in time; end what holds it"
            )
        case "25006":
            text = f"{where} is read-only, a standby for example; use the primary server's address"
        case "42P01" | "3F000" | "42883" | "42704" | "42703":
            text = f"the schema 'outlast' in {where} is not complete ({said}); restore it from a backup"
        case "42P07" | "42710" | "42723":
            text = f"the schema 'outlast' in {where} contains objects of another program ({said}); use another database"
        case _ if is_damage(error):
            text = f"{where} reports damage or a failing disk ({said}); check the server's log"
        case code if code.startswith("22"):
            return InvalidInput(f"PostgreSQL cannot store a value: {said}")
        case _:
            text = f"{where}: {said}"
    return StoreUnavailable(text)


def _unreachable(said: str, whole: str, address: PostgresAddress) -> str:
    where = address.shown
    if _NO_DATABASE in whole and "database" in whole:
        return f"there is no database {address.database} at {where}; create it: createdb {address.database}"
    if _NO_DATABASE in whole and "role" in whole:
        return f"{where}: {said}; create the role (createuser) or name another user in the URL"
    if any(words in whole for words in _NO_PASSWORD):
        return f"{where} does not let this user in ({said}); check user, password and pg_hba.conf"
    if any(words in whole for words in _NO_HOST):
        return f"the host of {where} is not known; check the URL's spelling and the network"
    if any(words in whole for words in _NO_CONNECTIONS):
        return f"{where} has no free connections ({said}); raise max_connections or close other programs"
    return f"no PostgreSQL answers at {where} ({said}); start the server or correct the URL"


def _first_line(error: psycopg.Error) -> str:
    """Return the message without the leading connection address and the trailing hints."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    for mark in ("FATAL: ", "failed: ", "ERROR: "):
        said = said.rpartition(mark)[2].strip() or said
    return said.rstrip(".;")
