"""A header recounted from the log is the header that was kept commit by commit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.header import Header, apply, counted, delta_of
from outlast.store.maintenance.header_rebuild import Recount
from tests.support.histories import SESSION, Log, admitted, whole_turn
from tests.support.strategies import events
from tests.unit.core.test_projections import kept

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def recounted(log: Log, inherited: int = 0, sums: dict[int, dict[str, int]] | None = None) -> Recount:
    recount = Recount(log.session_id, inherited, sums or {})
    for stored, event in log.rows:
        if stored.session_id == log.session_id:
            recount.add(stored, event)
    return recount


@given(st.lists(events(), min_size=1, max_size=15))
def test_a_recounted_header_is_the_kept_one(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*(event for event in chaos if not isinstance(event, e.SessionCreated)))
    assert list(recounted(log).differences(kept(log))) == []


WRONG = [
    ("message_count", 99),
    ("title", "other"),
    ("state", "ended"),
    ("estimated_tokens", 7),
    ("plan_mode", False),
    ("requests", 1),
    ("work_since", 5),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_header_that_is_not_what_its_log_says_is_found_out(field: str, value: object) -> None:
    log = Log()
    log.add(e.SessionCreated(title="mine"), e.RuntimeStateChanged(changes={"workflow_mode": "plan"}))
    whole_turn(log, "one", "1")
    wrong = msgspec.structs.replace(kept(log), **{field: value})
    [told] = recounted(log).differences(wrong)
    assert told.startswith(f"{field} is {value!r}, its log says ")


def test_what_is_not_in_the_log_is_not_compared() -> None:
    log = Log()
    log.add(e.SessionCreated())
    elsewhere = msgspec.structs.replace(kept(log), epoch=7, updated_at=8, deleted_at=9, deleted_by="user")
    assert list(recounted(log).differences(elsewhere)) == []


def test_a_fork_counts_on_from_what_it_inherited() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    child = log.fork("b" * 26, carried=[1])
    child.add(admitted("two"))
    told = recounted(child, inherited=2).header
    assert (told.message_count, told.pending_count, told.last_seq) == (3, 2, 7)
    given_ = Header(session_id="b" * 26, base_id=SESSION, base_seq=5, last_seq=5, message_count=2, title="one")
    for stored, event in child.rows:
        if stored.session_id == child.session_id:
            apply(given_, delta_of(event, stored.turn), seq=stored.seq, at=stored.at, now=0, touch=False)
    assert list(recounted(child, inherited=2).differences(given_)) == []


def test_a_redacted_event_still_counts_by_what_was_kept_beside_it() -> None:
    log = Log()
    whole_turn(log, "secret", "1")
    secret = log.rows[0][1]
    assert isinstance(secret, e.Event)
    sums = counted(delta_of(secret))
    log.add(e.EventRedacted(seq=1, body_digest="0" * 64, counted=sums))
    header = kept(log)
    log.rows[0] = (log.rows[0][0]._replace(redacted=True), e.Opaque("InputAdmitted", 1, "redacted"))
    assert list(recounted(log, sums={1: sums}).differences(header)) == []
    assert any(told.startswith("message_count") for told in recounted(log).differences(header))
