"""Clocks that jump: order and numbers do not care, and a list still knows what moved last."""

import itertools
import random
import sys
from pathlib import Path

import pytest

from outlast.store import open_store, process_identity
from outlast.store.port import Claim, Query, Renew
from tests.faults.stores import ALL, load, url_in
from tests.faults.witness import Try, new_id, problems, writes_of

DAY = 24 * 3600 * 1_000_000


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Every look at the wall clock is up to a day off, in either direction."""
    load(kind)
    chance, honest = random.Random(1), process_identity.now_us
    users = [module for name, module in sys.modules.items() if name.startswith("outlast.")]
    users = [module for module in users if getattr(module, "now_us", None) is honest]
    assert len(users) >= 2
    for module in users:
        monkeypatch.setattr(module, "now_us", lambda: honest() + chance.randrange(-DAY, DAY))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.usefixtures("jumping")
def test_jumping_clocks_change_neither_order_nor_numbers(kind: str, place: str, memory: Path) -> None:
    sessions = [new_id() for _ in range(3)]
    with open_store(url_in(kind, place, memory)) as store:
        moved: dict[str, list[int]] = {session_id: [] for session_id in sessions}
        for number in range(60):
            session_id = sessions[number % 3]
            what = "append" if number >= 3 else "create"
            store.commit(*writes_of(Try(mark=f"m{number}", kind=what, session_id=session_id)))
            moved[session_id].append(store.head(session_id).updated_at)
        for session_id, times in moved.items():
            assert all(before < after for before, after in itertools.pairwise(times))
            rows = store.read(session_id)
            assert [row.seq for row in rows] == list(range(1, 22))
        newest = [header.updated_at for header in store.find(Query()).headers]
        assert newest == sorted(newest, reverse=True)
        assert problems(store, []) == []


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.usefixtures("jumping")
def test_a_list_is_in_order_after_every_single_write(kind: str, place: str, memory: Path) -> None:
    chance = random.Random(5)
    sessions = [new_id() for _ in range(4)]
    with open_store(url_in(kind, place, memory)) as store:
        for session_id in sessions:
            store.commit(*writes_of(Try(mark=f"c{session_id}", kind="create", session_id=session_id)))
        for number in range(80):
            session_id = chance.choice(sessions[:2] if number % 3 else sessions)
            store.commit(*writes_of(Try(mark=f"m{number}", kind="append", session_id=session_id)))
            listed = [header.updated_at for header in store.find(Query()).headers]
            assert listed == sorted(listed, reverse=True)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.usefixtures("jumping")
def test_a_lease_does_not_run_on_the_wall_clock(kind: str, place: str, memory: Path) -> None:
    session_id = new_id()
    with open_store(url_in(kind, place, memory)) as store:
        store.commit(*writes_of(Try(mark="a", kind="create", session_id=session_id)))
        lease = store.commit(Claim(session_id=session_id, token="t", holder=process_identity.holder(), ttl_ms=60_000))[
            0
        ].lease
        assert lease is not None
        for _ in range(20):
            store.commit(Renew(lease=lease, ttl_ms=60_000))
            holder = store.holder(session_id)
            assert holder is not None
            assert not holder.expired
