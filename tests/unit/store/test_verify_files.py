"""Verify, flips and backup on a files store."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from outlast.app.maintenance import verified_backup
from outlast.core.errors import OutlastError
from outlast.store import open_store
from outlast.store.port import Append
from outlast.store.verify import DamageKind, Finding, salvage, verify
from tests.unit.store.populated import populate, said
from tests.unit.store.test_verify_flips import Outcome

FLIPS = 3_000 if os.environ.get("OUTLAST_SOAK") == "1" else 100


class Directory:
    """A files store with one of everything, closed; `again` puts it back as it was."""

    def __init__(self, path: Path) -> None:
        self.whole, self.path = path / "whole", path / "damaged"
        with open_store(f"files:///{self.whole}?rotate_after_bytes=3000") as store:
            self.names = populate(store)
            for number in range(12):
                store.commit(Append(session_id=self.names["other"], events=(said(f"sealed {number} " * 30),)))
            self.truth = {name: store.read(name) for what, name in self.names.items() if what != "deleted"}
        self.again()

    @property
    def url(self) -> str:
        return f"files:///{self.path}"

    def again(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.whole, self.path)

    def segments(self) -> list[Path]:
        return sorted(path for path in self.path.glob("*.jsonl") if ".draft." not in path.name)


@pytest.fixture
def there(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_a_healthy_store_is_clean(there: Directory) -> None:
    with open_store(there.url) as store:
        report = verify(store, deep=True)
    assert [finding.line() for finding in report.findings] == []
    assert report.sessions == len(there.names)
    assert len(there.segments()) > len(there.names)  # some are sealed


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_flipped_bit_in_a_segment_is_read_as_something_else(there: Directory) -> None:
    chance = random.Random(20_261_116)
    became: Counter[str] = Counter()
    for _ in range(FLIPS):
        path = chance.choice(there.segments())
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            store = open_store(there.url)
        except OutlastError:
            became["refused"] += 1
        else:
            with store:
                outcome = Outcome(there, store)
                became["clean" if outcome.report.ok else "damaged"] += 1
                assert len(outcome.unreadable) <= 2  # the session, and a fork of it
        there.again()
    assert became["refused"] == 0
    assert became["damaged"] > 0.9 * FLIPS


def test_a_lost_line_is_named_and_the_rest_is_saved(there: Directory) -> None:
    name = there.names["talk"]
    path = there.path / f"{name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))
    with open_store(there.url) as store:
        assert (name, 4) in verify(store).damaged_events
        saved = [event for event in salvage(store, name) if not isinstance(event, Finding)]
    assert saved == [event for event in there.truth[name] if event.seq != 4]


def test_a_damaged_first_line_hides_no_event(there: Directory) -> None:
    name = there.names["talk"]
    path = there.path / f"{name}.jsonl"
    path.write_bytes(b"#" + path.read_bytes()[1:])
    with open_store(there.url) as store:
        report = verify(store)
        assert any(finding.what is DamageKind.HEADER and finding.session_id == name for finding in report.damage)
        saved = [event for event in salvage(store, name) if not isinstance(event, Finding)]
    assert saved == there.truth[name]


def test_a_backup_is_made_while_others_write_and_is_whole(there: Directory, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with open_store(there.url) as store:

        def appended(done: int, total: int) -> None:
            told.append((done, total))
            store.commit(Append(session_id=there.names["talk"], events=(said("meanwhile"),), key=f"during-{done}"))

        url, report = verified_backup(store, tmp_path / "copy", copying=appended)
        assert report.ok
        assert told[-1] == (len(there.names), len(there.names))
        with pytest.raises(OutlastError, match="exists already"):
            store.backup(tmp_path / "copy")
    with open_store(url) as copy:
        for name, truth in there.truth.items():
            assert copy.read(name)[: len(truth)] == truth
    assert not list(tmp_path.glob("*.partial"))
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "copy").rglob("*") if path.is_file()} == {0o600}
