"""What may be opened, and what is said about the rest: one sentence, cause and remedy, never the password."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from outlast.core.errors import ConfigError, OutlastError, StoreUnavailable
from outlast.store import open_store
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.postgres.errors import translation
from outlast.store.postgres.migrate import MIGRATION_LOCK
from tests.integration.postgres.builders import message, opened, started, writing_link
from tests.support.pg import PgServer

SECRET = "hunter2"


@pytest.fixture(scope="module")
def unsafe_server() -> Iterator[PgServer]:
    server = PgServer(fsync="off")
    yield server
    server.close()


def refusal(url: str) -> str:
    with pytest.raises(OutlastError) as told:
        open_store(url)
    text = str(told.value)
    assert SECRET not in text
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_a_server_without_fsync_is_refused(unsafe_server: PgServer) -> None:
    told = refusal(unsafe_server.create_database())
    assert "fsync=off" in told
    assert "outlast_allow_unsafe=1" in told


def test_a_server_without_fsync_is_used_when_the_url_says_so(unsafe_server: PgServer) -> None:
    with opened(unsafe_server.create_database() + "&outlast_allow_unsafe=1") as store:
        session_id = started(store)
        assert store.commit(message(session_id, "as you wish"))[0].seq == 2


def test_a_missing_database_is_named(pg_server: PgServer) -> None:
    assert "there is no database nowhere" in refusal(pg_server.url("nowhere"))


def test_an_unknown_user_is_named(pg_server: PgServer) -> None:
    url = pg_server.url("postgres").replace("postgres@", f"nobody_here:{SECRET}@")
    assert "nobody_here" in refusal(url)


def test_no_server_is_one_sentence() -> None:
    told = refusal(f"postgresql://me:{SECRET}@127.0.0.1:9/db?connect_timeout=2")
    assert told.startswith("no PostgreSQL answers at postgresql://me:***@127.0.0.1:9/db")
    assert "start the server or correct the URL" in told


def test_no_socket_is_one_sentence(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert "no PostgreSQL answers at" in refusal(f"postgresql://me@/db?host={tmp_path_factory.getbasetemp()}")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/db?nonsense=1",
        f"postgresql://me@host/db?password={SECRET}&nonsense=1",
        f"postgresql://me:{SECRET}@ho%zzst/db",
    ],
)
def test_a_wrong_url_is_shown_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        open_store(url)
    assert SECRET not in str(told.value)
    assert "use postgresql://" in str(told.value)


def test_an_open_store_does_not_show_its_password(pg_url: str) -> None:
    with opened(pg_url.replace("postgres@", f"postgres:{SECRET}@") + f"&sslpassword={SECRET}") as store:
        assert SECRET not in store.url
        assert store.url.startswith("postgresql://postgres:***@/")


@pytest.mark.parametrize("place", ["no.such.host.invalid/db", "127.0.0.1:port/db", "127.0.0.1/db?sslmode=maybe"])
def test_a_place_that_cannot_be_is_one_sentence(place: str) -> None:
    assert "postgresql://me:***@" in refusal(f"postgresql://me:{SECRET}@{place}")


@pytest.mark.parametrize("more", ["outlast_retry=1", "outlast_retry_seconds=soon", "outlast_allow_unsafe=yes"])
def test_our_own_parameters_are_checked(more: str) -> None:
    with pytest.raises(ConfigError, match="outlast_"):
        open_store(f"postgresql://me@host/db?{more}")


def test_parameters_of_the_driver_pass_through() -> None:
    address = PostgresAddress.parse(
        "postgresql://u%40x:p%3A@h:6/d?sslmode=require&keepalives_idle=9&outlast_retry_seconds=2.5"
    )
    assert address.retry_seconds == 2.5
    expected = {"user": "u@x", "password": "p:", "host": "h", "port": "6", "sslmode": "require", "keepalives_idle": "9"}
    assert address.parameters.items() >= expected.items()
    assert address.parameters["tcp_user_timeout"] == "10000"


def test_a_role_without_rights_is_told_which(pg_server: PgServer, pg_url: str) -> None:
    pg_server.sql("DROP ROLE IF EXISTS guest")
    pg_server.sql("CREATE ROLE guest LOGIN")
    told = refusal(pg_url.replace("postgres@", "guest@"))
    assert "no permission" in told
    assert "CREATE on the database" in told
    opened(pg_url).close()
    assert "no permission" in refusal(pg_url.replace("postgres@", "guest@"))


def test_a_database_of_another_encoding_is_refused(pg_server: PgServer) -> None:
    pg_server.sql("DROP DATABASE IF EXISTS latin")
    pg_server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    assert "encoding LATIN1" in refusal(pg_server.url("latin"))


def test_a_read_only_database_is_refused(pg_server: PgServer, pg_url: str) -> None:
    name = pg_url.split("/")[3].split("?")[0]
    pg_server.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "read-only" in refusal(pg_url)


def test_a_schema_of_another_program_is_refused(pg_server: PgServer, pg_url: str) -> None:
    name = pg_url.split("/")[3].split("?")[0]
    pg_server.sql("CREATE SCHEMA outlast", database=name)
    pg_server.sql("CREATE TABLE outlast.sessions (mine int)", database=name)
    assert "another program" in refusal(pg_url)


def test_a_damaged_schema_is_told(pg_server: PgServer, pg_url: str) -> None:
    opened(pg_url).close()
    pg_server.sql("DROP TYPE outlast.new_event CASCADE", database=pg_url.split("/")[3].split("?")[0])
    assert "not complete" in refusal(pg_url)


def test_without_the_driver_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from outlast.core.errors import MissingExtra\n"
        "from outlast.store import open_store\n"
        "try: open_store('postgresql://me@host/db')\n"
        "except MissingExtra as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "a postgresql:// store needs an optional part: pip install 'outlast[postgres]'\n"


def test_backup_names_the_tool_that_makes_one(pg_url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened(pg_url) as store, pytest.raises(StoreUnavailable, match="pg_dump"):
        store.backup(tmp_path_factory.getbasetemp() / "copy")


def test_no_setting_is_left_behind_for_whom_a_pooler_gives_the_connection_to_next(pg_url: str) -> None:
    with opened(pg_url) as store:
        session_id = started(store)
        for number in range(10):
            store.commit(message(session_id, str(number)))
        link = writing_link(store)
        # Every transaction has an isolation of its own; what is shown is only the last one's.
        changed = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'transaction_isolation'"
        assert link.execute(changed).fetchall() == []


@pytest.mark.parametrize("many", [False, True])
def test_commits_are_synced_whatever_the_database_says(pg_server: PgServer, pg_url: str, many: bool) -> None:
    """`synchronous_commit` is on when the transaction commits: seen by a trigger that fires then."""
    name = pg_url.split("/")[3].split("?")[0]
    opened(pg_url).close()
    pg_server.sql("CREATE TABLE seen (setting text)", database=name)
    pg_server.sql(
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO public.seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'",
        database=name,
    )
    pg_server.sql(
        "CREATE CONSTRAINT TRIGGER look AFTER INSERT ON outlast.events DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION look()",
        database=name,
    )
    pg_server.sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with opened(pg_url) as store:
        session_id = started(store)
        store.commit(*(message(session_id, "through the engine") for _ in range(1 + many)))
    assert set(pg_server.sql("SELECT setting FROM seen", database=name)) == {("on",)}


def test_used_up_connections_are_named(pg_url: str) -> None:
    address = PostgresAddress.parse(pg_url)
    for said in ("sorry, too many clients already", "remaining connection slots are reserved for superusers"):
        told = str(translation(psycopg.OperationalError(f"FATAL:  {said}"), address))
        assert f"has no free connections ({said}); raise max_connections or close other programs" in told


@pytest.mark.parametrize(
    "setting",
    ["default_transaction_isolation = 'serializable'", "lock_timeout = '50ms'", "statement_timeout = '200ms'"],
)
def test_a_first_open_by_several_processes_ignores_what_the_role_has_set(pg_url: str, setting: str) -> None:
    """The others wait for the migration of the first, however long it takes."""
    address = PostgresAddress.parse(pg_url)
    with psycopg.connect(pg_url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{address.database}" SET {setting}'.encode())
        admin.execute(f"SELECT pg_advisory_lock({MIGRATION_LOCK})".encode())
        openers = [threading.Thread(target=lambda: _open(pg_url, told)) for _ in range(3)]
        told: list[str] = []
        for opener in openers:
            opener.start()
        time.sleep(1.0)  # longer than either timeout
        admin.execute(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})".encode())
        for opener in openers:
            opener.join(60)
    assert told == ["opened"] * 3


def _open(url: str, told: list[str]) -> None:
    try:
        with open_store(url):
            told.append("opened")
    except OutlastError as error:
        told.append(str(error))
