"""Stores that were written before the project was renamed open as if nothing had happened, and go on."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest

from outlast.app.maintenance import back_up, examine_store, exported, schema, verify_store
from outlast.app.sessions.search import search
from outlast.core.errors import OutlastError, StoreUnavailable
from outlast.core.messages import ReasoningPart
from outlast.doors.cli import main
from outlast.models.provider_signature import ProviderSignature, packed, unpacked
from outlast.session import ConversationSession
from outlast.store import open_store, open_to_read
from outlast.store.files import FilesStore, former_name, setup
from outlast.store.lineage import fork
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Query
from outlast.store.postgres.former_name import SCHEMA as FORMER
from outlast.store.verify import verify
from tests.conftest import TESTS
from tests.support.pg import PgServer, eventually
from tests.unit.store.populated import new_id, said

STORES = TESTS / "fixtures" / "stores"
SESSIONS: dict[str, dict[str, dict[str, Any]]] = msgspec.json.decode((STORES / "expected.json").read_bytes())
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(outlast|holdfast)' ORDER BY 1"


class Former(NamedTuple):
    """A copy of a store of before, and what it held then."""

    kind: str
    url: str
    sessions: dict[str, dict[str, Any]]

    def name(self, what: str) -> str:
        return self.sessions[what]["session_id"]


def name_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


def in_files(folder: Path) -> Path:
    with tarfile.open(STORES / "files.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "files"


def in_postgres(server: PgServer) -> str:
    url = server.create_database()
    server.sql((STORES / "postgres.sql").read_text(encoding="utf-8"), database=name_of(url))
    return url


@pytest.fixture
def old_url(pg_server: PgServer) -> Iterator[str]:
    url = in_postgres(pg_server)
    yield url
    pg_server.drop_database(url)


@pytest.fixture(params=["sqlite", "files", "postgres"])
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Former:
    kind: str = request.param
    if kind == "sqlite":
        shutil.copy(STORES / "store.sqlite", tmp_path / "store.db")
        url = f"sqlite:///{tmp_path}/store.db"
    elif kind == "files":
        url = f"files:///{in_files(tmp_path)}"
    else:
        url = request.getfixturevalue("old_url")
    return Former(kind, url, SESSIONS[kind])


def window_of(store: LogStore, session_id: str) -> str:
    session = ConversationSession.resume(session_id, store=store)
    texts = "\n".join(f"{message.role} {message.content}" for message in session.messages)
    return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()


def test_every_session_reads_as_it_did(former: Former) -> None:
    report = verify_store(former.url, None, deep=True)
    assert [finding.line() for finding in report.findings] == []
    with open_store(former.url) as store:
        listed = {header.session_id for header in store.find(Query(limit=100)).headers}
        for what, told in former.sessions.items():
            name = told["session_id"]
            events = store.read(name)
            assert (len(events), events[-1].hash.hex()) == (told["events"], told["head"]), what
            assert window_of(store, name) == told["window"], what
            assert name in listed or store.head(name).rotated_to is not None
        assert store.head(former.name("archived")).state == "archived"
        assert store.head(former.name("ended")).has_ended
        assert store.route("chat:1") == former.name("talk")


def test_every_session_goes_on(former: Former) -> None:
    with open_store(former.url) as store:
        for what in ("talk", "fork", "compacted", "agent", "long"):
            seq = store.head(former.name(what)).last_seq
            assert store.commit(Append(session_id=former.name(what), events=(said("still here"),)))[0].seq == seq + 1
        child = new_id()
        store.commit(fork(store.head(former.name("agent")), child), Append(session_id=child, events=(said("new"),)))
        assert search(store, "still here").hits
        assert {hit.session_id for hit in search(store, "beacon").hits} & {former.name("agent"), child}
        assert [finding.line() for finding in verify(store, deep=True).findings] == []
    with open_store(former.url) as store:
        assert store.head(child).last_seq > 0
    lines = [line for line in exported(former.url, former.name("long")) if isinstance(line, bytes)]
    assert any(line.startswith(b'{"blob"') for line in lines)
    assert [check.text for check in examine_store(former.url) if check.name == "store"] == []


def test_what_a_provider_signed_then_is_sent_back_now(former: Former) -> None:
    with open_store(former.url) as store:
        session = ConversationSession.resume(former.name("reasoning"), store=store)
        [part] = [part for message in session.messages for part in message.parts if isinstance(part, ReasoningPart)]
        assert part.signature is not None
        assert part.signature.startswith(f"{FORMER}:")
        assert unpacked(part.signature) == ProviderSignature(id="rs_1", signature="c2lnbmVk", details={"kept": True})
    assert (packed(ProviderSignature(id="rs_1")) or "").startswith("outlast:")


# --- files ---------------------------------------------------------------------------------------------------------


def test_opening_a_files_store_for_writing_gives_it_the_new_name(tmp_path: Path) -> None:
    folder = in_files(tmp_path)
    open_store(f"files:///{folder}").close()
    assert not (folder / former_name.NAME).exists()
    assert msgspec.json.decode((folder / setup.NAME).read_bytes())["outlast"] == "files"


def test_looking_at_a_files_store_changes_nothing(tmp_path: Path) -> None:
    folder = in_files(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    url = f"files:///{folder}"
    assert schema(url).version == 1
    assert [check for check in examine_store(url) if check.name == "store"] == []
    with FilesStore(folder, url, read_only=True) as store:
        assert [finding.line() for finding in verify(store).findings] == []
        store.backup(tmp_path / "copy")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    with open_store(f"files:///{tmp_path}/copy") as copy:
        assert copy.head(SESSIONS["files"]["talk"]["session_id"]).last_seq > 0


def test_a_crash_between_the_two_names_is_mended(tmp_path: Path) -> None:
    folder = in_files(tmp_path)
    (folder / setup.NAME).write_bytes(b'{"outlast":"files","format":1,"min_reader":1}\n')
    (folder / former_name.NAME).write_bytes(b"nobody reads this")
    (folder / f"{former_name.PARTIAL}0011").write_bytes(b"half a mark")
    open_store(f"files:///{folder}").close()
    assert not (folder / former_name.NAME).exists()


def test_leftovers_of_the_former_name_do_not_keep_a_store_from_being_made(tmp_path: Path) -> None:
    (tmp_path / f"{former_name.PARTIAL}0011").write_bytes(b"half a mark")
    open_store(f"files:///{tmp_path}").close()
    assert (tmp_path / setup.NAME).exists()


def test_a_former_mark_that_is_damaged_is_told(tmp_path: Path) -> None:
    folder = in_files(tmp_path)
    (folder / former_name.NAME).write_bytes(b"nonsense")
    with pytest.raises(StoreUnavailable, match=r"cannot be read .*restore it from a backup"):
        open_store(f"files:///{folder}")
    assert not (folder / setup.NAME).exists()


@pytest.mark.parametrize("former", ["sqlite", "files"], indirect=True)
def test_a_backup_of_a_former_store_is_a_store(former: Former, tmp_path: Path) -> None:
    _, report = back_up(former.url, tmp_path / "copy")
    assert [finding.line() for finding in report.findings] == []


# --- PostgreSQL ----------------------------------------------------------------------------------------------------


def test_looking_at_a_postgres_store_changes_nothing(
    pg_server: PgServer, old_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = schema(old_url)
    assert (found.version, found.outstanding) == (5, ["0006_outlast"])
    checks = {check.name: check for check in examine_store(old_url)}
    assert "1 migrations are outstanding" in checks["schema"].text
    assert main(["db", "version", "--store", old_url]) == 0
    assert "outstanding: 0006_outlast" in capsys.readouterr().out
    assert pg_server.sql(SCHEMAS, database=name_of(old_url)) == [(FORMER,), (f"{FORMER}_search",)]


def test_the_schemas_are_renamed_once(pg_server: PgServer, old_url: str) -> None:
    for _ in range(2):
        with open_to_read(old_url) as store:
            assert store.head(SESSIONS["postgres"]["talk"]["session_id"]).last_seq > 0
        assert pg_server.sql(SCHEMAS, database=name_of(old_url)) == [("outlast",), ("outlast_search",)]


def test_of_two_search_schemas_the_former_one_goes(pg_server: PgServer, old_url: str) -> None:
    pg_server.sql("CREATE SCHEMA outlast_search", database=name_of(old_url))
    open_store(old_url).close()
    assert pg_server.sql(SCHEMAS, database=name_of(old_url)) == [("outlast",), ("outlast_search",)]


def test_both_schemas_are_refused_in_one_sentence(pg_server: PgServer, old_url: str) -> None:
    pg_server.sql("CREATE SCHEMA outlast", database=name_of(old_url))
    with pytest.raises(StoreUnavailable, match=r"holds both the schema 'outlast' and .*; drop the other") as told:
        open_store(old_url)
    assert "\n" not in str(told.value)
    assert [check.status for check in examine_store(old_url) if check.name == "store"] == ["fail"]


def test_an_empty_schema_that_was_made_beforehand_is_used(pg_server: PgServer, pg_url: str) -> None:
    pg_server.sql("CREATE SCHEMA outlast", database=name_of(pg_url))
    open_store(pg_url).close()
    assert pg_server.sql(SCHEMAS, database=name_of(pg_url)) == [("outlast",)]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("fresh", [False, True])
def test_those_who_migrate_at_the_same_time_all_get_the_store(pg_server: PgServer, isolation: str, fresh: bool) -> None:
    url = pg_server.create_database() if fresh else in_postgres(pg_server)
    pg_server.sql(f"ALTER DATABASE {name_of(url)} SET default_transaction_isolation = '{isolation}'")
    failed: list[OutlastError] = []
    opened: list[str] = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        try:
            open_store(url).close()
        except OutlastError as error:
            failed.append(error)
        opened.append(url)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, len(opened)) == ([], 4)
    numbers = pg_server.sql("SELECT number FROM outlast.migrations ORDER BY number", database=name_of(url))
    assert [number for (number,) in numbers] == [1, 2, 3, 4, 5, 6]
    pg_server.drop_database(url)


def test_whoever_waited_for_the_migration_of_another_finds_nothing_left(pg_server: PgServer, old_url: str) -> None:
    """The lock is held while the other one waits for it, so that it looks only afterwards."""
    database = name_of(old_url)
    pg_server.sql(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    done: list[str] = []

    def run() -> None:
        with open_store(old_url) as store:
            done.append(store.url)

    waiting = [threading.Thread(target=run) for _ in range(2)]
    blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(pg_server.url(database), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (0x486F6C64,))
        for thread in waiting:
            thread.start()
        eventually(lambda: pg_server.sql(blocked, database=database) == [(2,)])
    for thread in waiting:
        thread.join()
    assert len(done) == 2
