"""Verify and doctor on a real PostgreSQL: damage that the database itself does not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from outlast.core.errors import DamagedSession, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.doctor import CheckStatus, examine
from outlast.store.doctor.schema_status import schema_of
from outlast.store.port import Append
from outlast.store.verify import DamageKind, Finding, VerifyReport, salvage, verify
from tests.support.pg import pg_server, pg_url
from tests.unit.store.populated import populate, said

__all__ = ["pg_server", "pg_url"]


class Populated:
    def __init__(self, url: str) -> None:
        self.url = url
        with open_store(url) as store:
            self.names = populate(store)
            self.truth: dict[str, list[StoredEvent]] = {
                name: store.read(name) for what, name in self.names.items() if what != "deleted"
            }

    def sql(self, statement: LiteralString, *values: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement, values)

    def report(self) -> VerifyReport:
        with open_store(self.url) as store:
            return verify(store, deep=True)


@pytest.fixture
def there(pg_url: str) -> Populated:
    return Populated(pg_url)


def test_a_healthy_store_is_clean(there: Populated) -> None:
    report = there.report()
    assert [finding.line() for finding in report.findings] == []
    assert report.sessions == len(there.names)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE outlast.events SET body = body || '\\x20' WHERE session_id = %s AND seq = 4",
        "UPDATE outlast.events SET at = at + 1 WHERE session_id = %s AND seq = 4",
        "UPDATE outlast.events SET redacted = true WHERE session_id = %s AND seq = 4",
    ],
)
def test_a_changed_event_is_the_only_one_named(there: Populated, change: LiteralString) -> None:
    name = there.names["talk"]
    there.sql(change, name)
    assert there.report().damaged_events == {(name, 4)}
    with open_store(there.url) as store:
        saved = [event for event in salvage(store, name) if not isinstance(event, Finding)]
        assert saved == [event for event in there.truth[name] if event.seq != 4]
        with pytest.raises(DamagedSession):
            store.read(name)
        assert store.read(there.names["other"]) == there.truth[there.names["other"]]


def test_missing_events_are_listed(there: Populated) -> None:
    name = there.names["talk"]
    there.sql("DELETE FROM outlast.events WHERE session_id = %s AND seq IN (3, 4)", name)
    assert there.report().damaged_events == {(name, 3), (name, 4), (name, 5)}


def test_a_header_that_is_not_what_its_log_says_is_named(there: Populated) -> None:
    there.sql("UPDATE outlast.sessions SET message_count = 99 WHERE session_id = %s", there.names["turn"])
    [finding] = there.report().damage
    assert (finding.what, finding.session_id) == (DamageKind.HEADER, there.names["turn"])


def test_a_key_that_lost_its_row_is_named(there: Populated) -> None:
    there.sql("DELETE FROM outlast.keys WHERE session_id = %s AND key = 'key-1'", there.names["talk"])
    assert [finding.what for finding in there.report().damage] == [DamageKind.KEY]


def test_a_changed_scope_is_named(there: Populated) -> None:
    """A repeat under that key would be stored again."""
    name = there.names["talk"]
    with open_store(there.url) as store:
        store.commit(Append(session_id=name, events=(said("scoped"),), key="k", scope="chat:1"))
    assert there.report().ok
    there.sql("UPDATE outlast.keys SET scope = 'chat:2' WHERE session_id = %s AND key = 'k'", name)
    there.sql("UPDATE outlast.keys SET scope = %s WHERE session_id = %s AND key = 'key-1'", name[:-1] + "!", name)
    found = there.report().damage
    assert [(finding.what, finding.session_id, "scope" in finding.text) for finding in found] == [
        (DamageKind.KEY, name, True)
    ] * 2


def test_doctor_says_what_to_do_about_a_newer_schema(there: Populated, tmp_path: Path) -> None:
    there.sql("INSERT INTO outlast.migrations VALUES (99, 'future', 'x', 99, 0)")
    found = {check.name: check for check in examine(there.url, tmp_path)}
    assert (found["store"].status, found["store"].remedy) == (CheckStatus.FAIL, "pip install -U outlast")


def test_a_session_shows_its_whole_url_without_the_password(there: Populated) -> None:
    with open_store(there.url) as store:
        shown = repr(ConversationSession(store=store))
    assert " in postgresql://" in shown


def test_doctor_looks_at_the_servers_settings(there: Populated, tmp_path: Path) -> None:
    found = {check.name: check for check in examine(there.url, tmp_path)}
    assert found["sync"].status is CheckStatus.OK
    assert found["sync"].text.startswith("fsync on")
    assert found["schema"].status is CheckStatus.OK


def test_doctor_says_that_a_server_is_away(tmp_path: Path) -> None:
    found = {check.name: check for check in examine(f"postgresql://nobody@/x?host={tmp_path}", tmp_path)}
    assert found["store"].status is CheckStatus.FAIL


def test_the_schema_is_read_without_migrating(pg_url: str) -> None:
    assert schema_of(pg_url).version == 0
    assert schema_of(pg_url).outstanding[0] == "0001_log"
    open_store(pg_url).close()
    assert schema_of(pg_url).outstanding == []


def test_a_backup_names_the_tools_for_it(there: Populated, tmp_path: Path) -> None:
    with open_store(there.url) as store, pytest.raises(StoreUnavailable, match="pg_dump"):
        store.backup(tmp_path / "copy")


@pytest.mark.parametrize("last_seq", [3, 9, 2**40])
def test_a_wrong_number_in_the_header_takes_no_event_away(there: Populated, last_seq: int) -> None:
    name = there.names["talk"]
    there.sql("UPDATE outlast.sessions SET last_seq = %s WHERE session_id = %s", last_seq, name)
    with open_store(there.url) as store:
        report = verify(store, name)
        assert [(finding.what, "last_seq is" in finding.text) for finding in report.damage] == [
            (DamageKind.HEADER, True)
        ]
        assert [event for event in salvage(store, name) if not isinstance(event, Finding)] == there.truth[name]
        with pytest.raises(DamagedSession):
            store.read(name)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE outlast.sessions SET base_id = 'aaaaaaaaaaaaaaaaaaaaaaaaaa' WHERE session_id = %s",
        "UPDATE outlast.sessions SET base_seq = base_seq - 1 WHERE session_id = %s",
    ],
)
def test_what_a_fork_stands_on_is_told_by_its_first_event_too(there: Populated, change: LiteralString) -> None:
    name = there.names["fork"]
    there.sql(change, name)
    with open_store(there.url) as store:
        report = verify(store, name)
        assert report.damaged_events == set()
        assert "its first event says" in report.damage[0].text
        assert [event for event in salvage(store, name) if not isinstance(event, Finding)] == there.truth[name]
