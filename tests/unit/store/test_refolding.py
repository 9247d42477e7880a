"""The fields that migration 4 adds are filled from the events of a few kinds, and those are all that have a say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta, Header, delta_of
from outlast.store.engine.encode import seal
from outlast.store.engine.transaction import HeaderRow
from outlast.store.maintenance.header_rebuild import DECISIVE, refold
from outlast.store.port import Append, NewEvent
from tests.support.histories import SESSION, Log
from tests.support.strategies import events
from tests.unit.core.test_projections import kept

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

FIELDS = ("estimated_tokens", "plan_mode", "requests", "work_since")
SILENT = {"messages", "title", "first_title", "model", "persona", "input_tokens", "output_tokens"}
"""What an event may say without a say in these fields."""


@given(events())
def test_a_kind_that_is_not_read_has_no_say(event: e.Event) -> None:
    delta = delta_of(event, "turn")
    said = {name for name in Delta.__struct_fields__ if getattr(delta, name) != getattr(Delta(), name)}
    assert e.KIND_OF[type(event)] in DECISIVE or said <= SILENT


class Rows:
    """One session as an adapter shows it."""

    def __init__(self, log: Log) -> None:
        news = tuple(
            NewEvent(event=event, turn=row.turn, at=row.at) for row, event in log.rows if isinstance(event, e.Event)
        )
        [sealed] = seal((Append(session_id=SESSION, events=news),), compress=True).writes
        self.rows = [event.row(SESSION, seq, None, b"") for seq, event in enumerate(sealed.events, 1)]
        self.blobs = sealed.blobs

    def row(self, session_id: str) -> HeaderRow | None:
        raise AssertionError("it stands on nothing")

    def events(self, row: HeaderRow, kinds: tuple[str, ...], upto: int) -> list[StoredEvent]:
        return [event for event in self.rows if event.kind in kinds and event.seq <= upto]

    def blob(self, row: HeaderRow, sha256: str) -> bytes:
        return self.blobs[sha256]


@given(st.lists(events(), min_size=1, max_size=15))
def test_a_header_of_an_older_version_gets_what_it_would_have_had(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*chaos)
    right = kept(log)
    older = HeaderRow(session_id=SESSION, last_seq=len(log.rows))
    changed = refold(older, Rows(log))
    assert [getattr(older, name) for name in FIELDS] == [getattr(right, name) for name in FIELDS]
    assert changed == any(getattr(right, name) != getattr(Header(session_id=SESSION), name) for name in FIELDS)
    assert not refold(older, Rows(log))
