"""The gateway's tests wait for what happens, never for the clock: pauses after a fault are short here."""

from __future__ import annotations

import pytest

from outlast.doors.gateway import delivery_worker, gateway


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(delivery_worker, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(delivery_worker, "LONGEST_PAUSE", 0.05)
