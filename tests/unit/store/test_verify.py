"""Verify names exactly what is damaged, and goes on behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession, OutcomeUnknown, SessionNotFound
from outlast.core.event_row import StoredEvent
from outlast.store import open_store
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import Append, Query
from outlast.store.verify import DamageKind, Finding, VerifyReport, salvage, verify
from tests.unit.store.populated import Populated, said


@pytest.fixture
def there(tmp_path: Path) -> Populated:
    return Populated(tmp_path / "a.db")


def report_of(there: Populated, what: str | None = None, *, deep: bool = False) -> VerifyReport:
    with open_store(there.url) as store:
        return verify(store, there.names[what] if what else None, deep=deep)


def found(report: VerifyReport) -> list[tuple[DamageKind, str | None, int | None]]:
    return [(finding.what, finding.session_id, finding.seq) for finding in report.damage]


def salvaged(there: Populated, what: str) -> tuple[list[StoredEvent], list[Finding]]:
    with open_store(there.url) as store:
        everything = list(salvage(store, there.names[what]))
    events = [item for item in everything if not isinstance(item, Finding)]
    return events, [item for item in everything if isinstance(item, Finding)]


# --- a healthy store


@pytest.mark.parametrize("deep", [False, True])
def test_a_healthy_store_is_clean(there: Populated, deep: bool) -> None:
    report = report_of(there, deep=deep)
    assert [finding.line() for finding in report.findings] == []
    assert report.sessions == len(there.names)
    assert (report.blobs, report.snapshots) == (1, 1)
    assert report.keys == 9


def test_one_session_can_be_verified_alone(there: Populated) -> None:
    report = report_of(there, "fork")
    assert report.ok
    assert report.sessions == 1
    assert report.events == 2


def test_a_session_that_is_not_there_is_not_found(there: Populated) -> None:
    with open_store(there.url) as store, pytest.raises(SessionNotFound):
        verify(store, "a" * 26)
    with open_store(there.url) as store, pytest.raises(SessionNotFound):
        list(salvage(store, "a" * 26))


def test_progress_is_told_after_each_session(there: Populated) -> None:
    told: list[tuple[int, int]] = []
    with open_store(there.url) as store:
        verify(store, progress=lambda done, total: told.append((done, total)))
    assert told == [(number + 1, len(there.names)) for number in range(len(there.names))]


def test_others_may_write_meanwhile(there: Populated) -> None:
    with open_store(there.url) as store:

        def append(done: int, total: int) -> None:
            store.commit(Append(session_id=there.names["talk"], events=(said("more"),), key=f"more-{done}"))

        assert verify(store, progress=append).ok


@pytest.mark.parametrize("what", ["talk", "fork", "redacted", "long", "tip", "orphan", "turn"])
def test_salvaging_a_whole_session_gives_all_of_it(there: Populated, what: str) -> None:
    events, findings = salvaged(there, what)
    assert events == there.truth[there.names[what]]
    assert findings == []


# --- events


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET body = replace(body, 'hello', 'jello') WHERE id = ?",
        "UPDATE events SET at = at + 1 WHERE id = ?",
        "UPDATE events SET actor = 'user/tesu' WHERE id = ?",
        "UPDATE events SET kind = 'SessionEnded' WHERE id = ?",
        "UPDATE events SET key = 'other' WHERE id = ?",
        "UPDATE events SET epoch = 7 WHERE id = ?",
        "UPDATE events SET redacted = 1 WHERE id = ?",
        "UPDATE events SET body = 7 WHERE id = ?",
        "UPDATE events SET kind = x'ff' WHERE id = ?",
        "UPDATE events SET kind = CAST(x'ff' AS TEXT) WHERE id = ?",
        "UPDATE events SET epoch = 'x' WHERE id = ?",
    ],
)
def test_a_changed_event_is_the_only_one_named(there: Populated, change: str) -> None:
    there.sql(change, there.row_id("talk", 4))
    name = there.names["talk"]
    report = report_of(there)
    assert report.damaged_events == {(name, 4)}
    assert {what for what, _, _ in found(report)} == {DamageKind.EVENT}
    events, findings = salvaged(there, "talk")
    assert events == [event for event in there.truth[name] if event.seq != 4]
    assert [finding.seq for finding in findings] == [4]


def test_a_changed_hash_is_told_from_changed_content(there: Populated) -> None:
    there.sql("UPDATE events SET hash = CAST(x'00' || substr(hash, 2) AS BLOB) WHERE id = ?", there.row_id("talk", 4))
    report = report_of(there)
    assert found(report) == [(DamageKind.EVENT, there.names["talk"], 4)]
    assert "proven by what follows" in report.damage[0].text
    events, _ = salvaged(there, "talk")
    assert events == there.truth[there.names["talk"]]


def test_the_last_events_hash_is_proven_by_the_header(there: Populated) -> None:
    there.sql("UPDATE events SET hash = zeroblob(32) WHERE id = ?", there.row_id("talk", 7))
    report = report_of(there, "talk")
    assert report.damaged_events == {(there.names["talk"], 7)}
    assert salvaged(there, "talk")[0] == there.truth[there.names["talk"]]


def test_missing_events_are_listed_and_the_next_one_is_named_as_not_proven(there: Populated) -> None:
    there.sql("DELETE FROM events WHERE id BETWEEN ? AND ?", there.row_id("talk", 3), there.row_id("talk", 4))
    report = report_of(there, "talk")
    assert report.damaged_events == {(there.names["talk"], seq) for seq in (3, 4, 5)}
    assert [finding.text.split(",")[0] for finding in report.damage] == ["missing or unreadable", "cannot be proven"]
    events, _ = salvaged(there, "talk")
    assert [event.seq for event in events] == [1, 2, 5, 6, 7]


def test_a_missing_tail_is_damage(there: Populated) -> None:
    there.sql("DELETE FROM events WHERE id >= ? AND id < ?", there.row_id("talk", 6), there.row_id("talk", 100))
    assert report_of(there, "talk").damaged_events == {(there.names["talk"], 6), (there.names["talk"], 7)}


def test_work_that_nobody_would_find_is_damage(there: Populated) -> None:
    assert there.sql("SELECT session_id FROM work") == [(there.names["turn"],)]
    there.sql("DELETE FROM work")
    [finding] = report_of(there).damage
    assert finding.line().endswith("it has work, but the index of work does not list it")
    assert finding.session_id == there.names["turn"]


def test_work_that_is_noted_of_a_session_without_any_is_damage(there: Populated) -> None:
    there.sql("INSERT INTO work VALUES ('local', 7, ?)", there.names["talk"])
    there.sql("INSERT INTO work VALUES ('local', 8, ?)", "a" * 26)
    told = [finding.line() for finding in report_of(there).damage]
    assert len(told) == 2
    assert all("whose header shows no work" in line for line in told)
    with open_store(there.url) as store:  # and nobody drives what has no work
        assert [header.session_id for header in store.find(Query(pending=True)).headers] == [there.names["turn"]]


def test_an_event_behind_the_head_is_damage(there: Populated) -> None:
    copy = (
        "INSERT INTO events SELECT id + 1, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted FROM events"
    )
    there.sql(copy + " WHERE id = ?", there.row_id("talk", 7))
    report = report_of(there, "talk")
    assert found(report) == [(DamageKind.EVENT, there.names["talk"], 8)]


def test_damage_in_one_session_leaves_the_others_usable(there: Populated) -> None:
    there.sql("UPDATE events SET body = x'7b7d' WHERE id = ?", there.row_id("other", 2))
    with open_store(there.url) as store:
        with pytest.raises(DamagedSession):
            store.read(there.names["other"])
        for name, truth in there.truth.items():
            if name != there.names["other"]:
                assert store.read(name) == truth
        assert store.commit(Append(session_id=there.names["talk"], events=(said("go on"),)))[0].seq == 8
        assert len(store.find(Query()).headers) == len(there.names) - 1
        assert verify(store).damaged_sessions == [there.names["other"]]


def test_damage_in_a_base_is_named_there_and_shows_in_the_fork(there: Populated) -> None:
    there.sql("UPDATE events SET body = x'7b7d' WHERE id = ?", there.row_id("talk", 3))
    assert report_of(there).damaged_events == {(there.names["talk"], 3)}
    events, findings = salvaged(there, "fork")
    assert [event.seq for event in events] == [1, 2, 4, 5, 6, 7, 8, 9]
    assert [(finding.session_id, finding.seq) for finding in findings] == [(there.names["talk"], 3)]


def test_what_a_fork_stands_on_must_be_there(there: Populated) -> None:
    there.sql("DELETE FROM events WHERE id = ?", there.row_id("deleted", 4))
    report = report_of(there)
    assert there.names["orphan"] in report.damaged_sessions


def test_verifying_a_fork_alone_finds_damage_in_what_it_inherits(there: Populated) -> None:
    there.sql("UPDATE events SET v = 2 WHERE id = ?", there.row_id("talk", 3))
    assert report_of(there, "fork").damaged_events == {(there.names["talk"], 3)}


def test_rows_of_no_session_are_named(there: Populated) -> None:
    there.sql("DELETE FROM sessions WHERE session_id = ?", there.names["other"])
    report = report_of(there)
    assert any("but the session does not exist" in finding.text for finding in report.damage)


# --- headers


def _set(name: str, value: object) -> Callable[[HeaderRow], None]:
    return lambda row: setattr(row, name, value)


@pytest.mark.parametrize(
    ("what", "name", "value"),
    [
        ("talk", "message_count", 5),
        ("fork", "message_count", 1),
        ("talk", "title", None),
        ("talk", "model", "other"),
        ("talk", "state", "ended"),
        ("turn", "input_tokens", 8),
        ("turn", "output_tokens", 5),
        ("turn", "pending_count", 1),
        ("turn", "turn", None),
        ("talk", "last_message_at", 1),
        ("talk", "boundary_seq", 3),
        ("parent", "rotated_to", None),
    ],
)
def test_a_header_that_is_not_what_its_log_says_is_named(there: Populated, what: str, name: str, value: object) -> None:
    there.change_header(what, _set(name, value))
    report = report_of(there, what)
    assert set(found(report)) == {(DamageKind.HEADER, there.names[what], None)}
    assert any(damage.text.startswith(name) for damage in report.damage)  # a title is compared with its index, too


@pytest.mark.parametrize(("name", "value"), [("epoch", 9), ("updated_at", 5), ("lease_token", "x"), ("owner_id", "me")])
def test_facts_of_the_store_are_not_recomputed(there: Populated, name: str, value: object) -> None:
    there.change_header("talk", _set(name, value))
    assert report_of(there, "talk").ok


def test_a_header_with_another_head_is_named(there: Populated) -> None:
    there.change_header("talk", _set("head_hash", bytes(32)))
    assert (DamageKind.HEADER, there.names["talk"], None) in found(report_of(there, "talk"))


@pytest.mark.parametrize("what", ["talk", "fork", "redacted"])
def test_behind_a_damaged_header_every_event_is_still_there(there: Populated, what: str) -> None:
    there.sql("UPDATE sessions SET header = x'00' || header WHERE session_id = ?", there.names[what])
    name = there.names[what]
    report = report_of(there)
    assert found(report) == [(DamageKind.HEADER, name, None)]
    events, findings = salvaged(there, what)
    assert events == there.truth[name]
    assert [finding.what for finding in findings] == [DamageKind.HEADER]
    with open_store(there.url) as store:
        assert store.find(Query()).damaged == [name]
        with pytest.raises(DamagedSession):
            store.head(name)


def test_a_damaged_event_behind_a_damaged_header_is_named(there: Populated) -> None:
    there.sql("UPDATE sessions SET crc = crc + 1 WHERE session_id = ?", there.names["talk"])
    there.sql("UPDATE events SET v = 2 WHERE id = ?", there.row_id("talk", 3))
    assert report_of(there, "talk").damaged_events == {(there.names["talk"], 3)}


def test_what_lists_select_by_must_agree_with_the_header(there: Populated) -> None:
    there.sql("UPDATE sessions SET state = 'ended' WHERE session_id = ?", there.names["talk"])
    assert any("lists are filtered by" in finding.text for finding in report_of(there).damage)


# --- keys, blobs, snapshots, drafts, routes, lineages


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("DELETE FROM keys WHERE session_id = ? AND key = 'key-1'", "is not stored"),
        ("UPDATE keys SET digest = zeroblob(32) WHERE session_id = ? AND key = 'key-1'", "digest"),
        ("UPDATE keys SET key = 'key-x' WHERE session_id = ? AND key = 'key-1'", "is stored for it"),
        ("UPDATE keys SET seq = 99 WHERE session_id = ? AND key = 'key-5'", "does not exist"),
        ("UPDATE keys SET seq = 'x' WHERE session_id = ? AND key = 'key-5'", "unreadable receipt"),
        ("UPDATE keys SET key = CAST(x'ff' AS TEXT) WHERE session_id = ? AND key = 'key-1'", "is stored for it"),
    ],
)
def test_keys_and_events_must_agree(there: Populated, change: str, text: str) -> None:
    there.sql(change, there.names["talk"])
    report = report_of(there)
    assert {what for what, _, _ in found(report)} == {DamageKind.KEY}
    assert any(text in finding.text for finding in report.damage)


@pytest.mark.parametrize(
    "change", ["DELETE FROM blobs", "UPDATE blobs SET data = x'00' || substr(data, 2)", "UPDATE blobs SET data = 7"]
)
def test_a_missing_or_changed_blob_is_named(there: Populated, change: str) -> None:
    there.sql(change)
    assert found(report_of(there)) == [(DamageKind.BLOB, there.names["long"], None)]


def test_a_blob_that_no_event_names_is_information(there: Populated) -> None:
    there.sql(
        "INSERT INTO blobs SELECT sid, 'abc', 0, 0, x'00' FROM sessions WHERE session_id = ?", there.names["talk"]
    )
    report = report_of(there)
    assert report.ok
    assert [finding.what for finding in report.findings] == [DamageKind.BLOB]


def test_a_changed_snapshot_is_named(there: Populated) -> None:
    there.sql("UPDATE snapshots SET state = replace(state, 'hello', 'jello')")
    assert found(report_of(there)) == [(DamageKind.SNAPSHOT, there.names["fork"], 9)]


def test_a_snapshot_of_another_fold_is_ignored(there: Populated) -> None:
    there.sql("UPDATE snapshots SET state = x'00', fold_version = 99")
    assert report_of(there).ok


def test_a_draft_of_a_closed_attempt_is_information(there: Populated) -> None:
    there.sql("UPDATE chunks SET attempt_seq = 2")
    report = report_of(there)
    assert report.ok
    assert [finding.what for finding in report.findings] == [DamageKind.DRAFT]


def test_a_route_to_nowhere_is_named(there: Populated) -> None:
    there.sql("INSERT INTO routes VALUES ('chat:2', ?), ('chat:3', ?)", "a" * 26, there.names["deleted"])
    assert [what for what, _, _ in found(report_of(there))] == [DamageKind.ROUTE, DamageKind.ROUTE]


def test_a_lineage_without_its_tip_is_named(there: Populated) -> None:
    there.sql("DELETE FROM lineage")
    assert found(report_of(there)) == [(DamageKind.LINEAGE, there.names["parent"], None)]


def test_a_lineage_that_leads_elsewhere_is_named(there: Populated) -> None:
    there.sql("UPDATE lineage SET tip_id = ?", there.names["talk"])
    assert found(report_of(there)) == [(DamageKind.LINEAGE, there.names["parent"], None)]


# --- the database itself


def test_a_changed_definition_is_named(there: Populated) -> None:
    there.sql("CREATE INDEX extra ON events (at)")
    assert any("definition of index extra" in finding.text for finding in report_of(there).damage)


def test_an_index_that_lost_a_session_is_named(there: Populated) -> None:
    # The row goes on under another number: the index then leads nowhere, as after a damaged page.
    there.sql("UPDATE sessions SET deleted_at = 5 WHERE session_id = ?", there.names["talk"])
    report = report_of(there)
    assert (DamageKind.LIST, there.names["talk"], None) in found(report)


@pytest.mark.parametrize("scope", [None, "chat:1"])
def test_a_changed_scope_of_a_key_is_named(there: Populated, scope: str | None) -> None:
    """A repeat under that key would be stored again: the key is looked up by its scope."""
    name = there.names["talk"]
    write = Append(session_id=name, events=(said("once"), said("only")), key="k", scope=scope)
    with open_store(there.url) as store:
        seq = store.commit(write)[0].seq
        assert store.commit(write)[0].seq == seq
        assert verify(store).ok
    there.sql("UPDATE keys SET scope = substr(scope, 1, length(scope) - 1) || '0' WHERE key = 'k'")
    with open_store(there.url) as store:
        [finding] = verify(store).damage
    assert (finding.what, finding.session_id, finding.seq) == (DamageKind.KEY, name, seq)
    assert "scope" in finding.text


def test_an_unknown_outcome_says_what_to_do() -> None:
    error = OutcomeUnknown("interrupted while committing", key="k")
    assert "repeat the same write with key=error.key" in str(error)
    assert error.key == "k"
