"""The chain shows every changed byte, and a redacted body still verifies."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.errors import DamagedSession, InvalidInput
from outlast.core.event_row import GENESIS, Actor, StoredEvent, body_digest, check_chain, hash_of, verifies

ROW = StoredEvent("s" * 26, 1, "SessionRenamed", 1, 5, "user/cli", "t1", "k", 2, "plain", b'{"title":"x"}', b"")


def chained(count: int) -> list[StoredEvent]:
    rows: list[StoredEvent] = []
    previous = GENESIS
    for seq in range(1, count + 1):
        row = ROW._replace(seq=seq, at=seq)
        rows.append(row._replace(hash=hash_of(previous, row)))
        previous = rows[-1].hash
    return rows


def test_a_whole_chain_verifies_and_gives_its_head() -> None:
    rows = chained(5)
    assert check_chain(GENESIS, 0, rows) == rows[-1].hash
    assert check_chain(rows[1].hash, 2, rows[2:]) == rows[-1].hash
    assert check_chain(GENESIS, 0, []) == GENESIS


CHANGES = {
    "session_id": "z" * 26,
    "kind": "SessionEnded",
    "v": 2,
    "at": 99,
    "actor": "user",
    "turn": None,
    "key": "",
    "epoch": None,
    "enc": "zstd",
    "body": b'{"title":"y"}',
    "hash": b"x" * 32,
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_to_any_field_is_damage_at_that_row(field: str) -> None:
    rows = chained(3)
    rows[1] = rows[1]._replace(**{field: CHANGES[field]})
    with pytest.raises(DamagedSession) as damage:
        check_chain(GENESIS, 0, rows)
    assert damage.value.seq == 2


def test_a_missing_row_is_damage() -> None:
    rows = chained(3)
    with pytest.raises(DamagedSession, match="event 2: event is missing, found 3"):
        check_chain(GENESIS, 0, [rows[0], rows[2]])


def test_no_text_and_empty_text_are_not_the_same() -> None:
    assert hash_of(GENESIS, ROW._replace(key=None)) != hash_of(GENESIS, ROW._replace(key=""))


@given(st.text(max_size=5), st.text(max_size=5))
def test_fields_cannot_flow_into_each_other(one: str, two: str) -> None:
    moved = ROW._replace(kind=one + two, actor="")
    if (one, two) != (one + two, ""):
        assert hash_of(GENESIS, ROW._replace(kind=one, actor=two)) != hash_of(GENESIS, moved)


def test_a_redacted_body_leaves_the_chain_whole() -> None:
    rows = chained(3)
    rows[1] = rows[1]._replace(body=body_digest(rows[1].body), redacted=True)
    assert check_chain(GENESIS, 0, rows) == rows[-1].hash


def test_an_actor_is_read_as_it_was_written() -> None:
    for actor in (Actor(), Actor("user", "http", "me", "tab-1"), Actor("tool", "", "", "x")):
        assert Actor.parse(actor.text()) == actor
    with pytest.raises(InvalidInput):
        Actor("user", "a/b").text()


def test_a_row_with_a_value_of_the_wrong_type_does_not_verify() -> None:
    row = chained(1)[0]
    assert verifies(GENESIS, row)
    assert not verifies(GENESIS, row._replace(kind=cast("Any", None)))
    assert not verifies(GENESIS, row._replace(seq=cast("Any", "1")))


@pytest.mark.parametrize(("name", "value"), [("body", None), ("turn", 7), ("epoch", "x"), ("actor", None)])
def test_a_value_of_another_type_is_damage_at_its_event(name: str, value: object) -> None:
    rows = chained(3)
    rows[1] = rows[1]._replace(**{name: cast("Any", value)})
    with pytest.raises(DamagedSession, match="do not match their hash") as caught:
        check_chain(GENESIS, 0, rows)
    assert caught.value.seq == 2
