"""Who lost the lease cannot write, however long it slept; who died is replaced at once; who is stuck is named."""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.conftest import ROOT
from tests.faults.actor import Other
from tests.faults.drivers import Outcome
from tests.faults.stores import ALL, LOCAL, MODULES, url_in
from tests.faults.witness import new_id


def stopped_and_continued(kind: str, place: str, takeovers: int) -> Outcome:
    words = [sys.executable, "-m", "tests.faults.drivers", kind, place, str(takeovers)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    outcome = msgspec.json.decode(done.stdout, type=Outcome)
    assert outcome.problems == [], done.stderr.decode()
    return outcome


@pytest.mark.parametrize("kind", ALL)
def test_a_driver_stopped_past_its_lease_writes_nothing_after_the_take_over(kind: str, place: str) -> None:
    outcome = stopped_and_continued(kind, place, 100)
    assert outcome.takeovers >= 100
    assert outcome.refused == outcome.takeovers


@pytest.mark.soak
@pytest.mark.parametrize("kind", ALL)
def test_1000_stopped_drivers_write_nothing_after_the_take_over(kind: str, place: str) -> None:
    assert stopped_and_continued(kind, place, 1_000).takeovers >= 1_000


@pytest.mark.parametrize("reap", [True, False], ids=["gone", "zombie"])
@pytest.mark.parametrize("kind", ALL)
def test_a_killed_holder_is_replaced_at_once(kind: str, place: str, memory: Path, reap: bool) -> None:
    session_id, url = new_id(), url_in(kind, place, memory)
    with Other(url) as first, Other(url) as second:
        first.get("create", session_id=session_id)
        epoch = first.get("claim", session_id=session_id, ttl_ms=60_000)
        busy = second.ask("claim", session_id=session_id, ttl_ms=60_000)
        assert busy.error == "SessionBusy"
        assert f"process {first.pid} " in busy.text
        first.kill(reap=reap)
        assert second.get("claim", session_id=session_id, ttl_ms=60_000) == epoch + 1
        second.get("drive", session_id=session_id, mark="mine")


@pytest.mark.parametrize("kind", LOCAL)
def test_a_writer_stopped_inside_a_commit_is_named_and_waited_for(kind: str, memory: Path) -> None:
    if importlib.util.find_spec(MODULES[kind]) is None:
        pytest.skip(f"there is no {kind} store yet")
    session_id, url = new_id(), url_in(kind, "", memory)
    with Other(url) as stuck, Other(url) as waiting:
        waiting.get("patience", seconds=0.3)
        before = stuck.get("create", session_id=session_id)
        waiting.get("seqs", session_id=session_id)
        stuck.get("stop_inside_the_next_commit")
        stuck.begin("append", session_id=session_id, mark="stuck")
        stuck.until_stopped()
        refused = waiting.ask("append", session_id=session_id, mark="refused")
        assert refused.error == "StoreUnavailable"
        assert f"process {stuck.pid} " in refused.text
        stuck.signal(signal.SIGCONT)
        assert stuck.said().value == before + 1
        assert waiting.get("append", session_id=session_id, mark="through") == before + 2
