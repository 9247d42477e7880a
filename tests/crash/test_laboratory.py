"""The laboratory in small: real processes, a nemesis, and a checker that must find nothing; and that must find
whatever is planted into the evidence it was given."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.crash.chain import hash_of
from tests.crash.checker import violations
from tests.crash.durability import kept
from tests.crash.evidence import GENESIS, Evidence
from tests.crash.history import history
from tests.crash.scenario import Tale

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300), pytest.mark.xdist_group("crash")]

SHORT = ("--lease-seconds", "3", "--users", "4")
EVERY_KIND = {"sqlite": "950", "postgres": "2864"}
"""Seeds whose few faults are of as many kinds as can be, and outlast the lease where that counts."""


class Run(NamedTuple):
    code: int
    said: str
    folder: Path
    report: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One of each store, side by side: they wait more than they work. Each is a process of its own: a full disk must be
    nobody else's."""
    casts = {
        "sqlite": ["--servers", "2", "--faults", "6", "--minutes", "0.12"],
        "postgres": ["--servers", "2", "--workers", "2", "--faults", "9", "--minutes", "0.18"],
    }
    begun: dict[str, tuple[subprocess.Popen[str], Path]] = {}
    for store, cast in casts.items():
        folder = tmp_path_factory.mktemp(store)
        kept_in = ["--keep", str(folder / "run"), "--report", str(folder / "report.md")]
        words = ["--store", store, "--seed", EVERY_KIND[store], *cast, *SHORT, *kept_in]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash", *words],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        begun[store] = (process, folder)
    return {store: _ended(process, folder) for store, (process, folder) in begun.items()}


def _ended(process: subprocess.Popen[str], folder: Path) -> Run:
    try:
        said, _ = process.communicate(timeout=280)
    finally:
        process.kill()
    return Run(process.returncode, said, folder / "run", folder / "report.md")


@pytest.fixture(scope="module")
def evidence(runs: dict[str, Run]) -> Evidence:
    return kept(runs["sqlite"].folder / "evidence")


# ---- the promises ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", sorted(EVERY_KIND))
def test_no_promise_is_broken_whatever_is_killed_stopped_cut_or_full(store: str, runs: dict[str, Run]) -> None:
    run = runs[store]
    assert run.code == 0, run.said
    assert "no promise was broken" in run.said
    assert "| a command run twice, unrecorded, or told otherwise than it was | 0 |" in run.report.read_text()
    assert run.report.with_suffix(".svg").read_text().startswith("<svg")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_no_promise_is_broken_for_as_long_as_asked(
    store: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`make soak SOAK_MINUTES=60` for an hour of each store; without it 300 faults of each."""
    minutes = os.environ.get("SOAK_MINUTES")
    length = ["--minutes", minutes] if minutes else ["--faults", "300"]
    kept_in, report = str(tmp_path / "run"), str(tmp_path / "soak.md")
    command = [sys.executable, "-m", "tests.crash", "--store", store, *length, "--keep", kept_in, "--report", report]
    with capfd.disabled():  # its progress line is for whoever waits, and so is what it found
        print(f"\nThe report will be {report}")
        done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 0, f"promises were broken: {report}; `--check {kept_in}` judges it again"


# ---- the checker ----------------------------------------------------------------------------------------------------


def planted(evidence: Evidence, plant: Callable[[Evidence], None]) -> set[str]:
    """What the checker calls the wrong that was done to a copy, and to nothing else."""
    changed = copy.deepcopy(evidence)
    plant(changed)
    return {violation.kind for violation in violations(changed)}


def busiest(evidence: Evidence) -> str:
    return max(evidence.stored.rows, key=lambda name: len(evidence.stored.rows[name]))


def chained(evidence: Evidence, session_id: str) -> None:
    """Make the hashes of a session right again, so that only its content can give a change away."""
    before, rows = GENESIS, evidence.stored.rows[session_id]
    for n, row in enumerate(rows):
        rows[n] = row._replace(seq=n + 1, hash=hash_of(before, row._replace(seq=n + 1)))
        before = rows[n].hash
    head = evidence.stored.heads[session_id]
    evidence.stored.heads[session_id] = head._replace(last_seq=len(rows), head_hash=before)


def test_nothing_is_found_where_nothing_is_wrong(evidence: Evidence) -> None:
    assert planted(evidence, lambda changed: None) == set()
    tale = Tale.of(evidence)
    assert tale.turns
    assert evidence.acks
    assert evidence.witness


def test_a_removed_row_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)
    assert "gap" in planted(evidence, lambda changed: changed.stored.rows[session_id].__delitem__(5))


def test_a_lost_end_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)
    assert "gap" in planted(evidence, lambda changed: changed.stored.rows[session_id].__delitem__(-1))


def test_a_flipped_byte_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def flip(changed: Evidence) -> None:
        rows = changed.stored.rows[session_id]
        at = next(n for n, row in enumerate(rows) if row.kind == "SessionCreated")
        body = bytearray(rows[at].body)
        body[-2] ^= 1
        rows[at] = rows[at]._replace(body=bytes(body))

    assert "damaged" in planted(evidence, flip)


def test_a_command_that_ran_twice_is_found(evidence: Evidence) -> None:
    assert planted(evidence, lambda changed: changed.witness.append(changed.witness[0])) == {"run twice"}


def test_a_command_that_ran_and_was_never_recorded_is_found(evidence: Evidence) -> None:
    assert planted(evidence, lambda changed: changed.witness.append("u9m9_9")) == {"run unrecorded"}


def test_a_result_of_a_command_that_never_ran_is_found(evidence: Evidence) -> None:
    done = [told.name for told in Tale.of(evidence).calls.values() if told.status == "executed"]
    ran = next(name for name in evidence.witness if name in done)
    assert planted(evidence, lambda changed: changed.witness.remove(ran)) == {"not run"}


def test_a_second_answer_is_found_though_every_hash_is_sound(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def answer_again(changed: Evidence) -> None:
        rows = changed.stored.rows[session_id]
        started = [row for row in rows if row.kind == "TurnStarted"]
        ended = [row for row in rows if row.kind == "TurnEnded"]
        rows += [started[-1], ended[-1]]
        chained(changed, session_id)
        changed.logs = [log for log in changed.logs if log.session_id != session_id]

    assert "answered twice" in planted(evidence, answer_again)


def test_an_input_that_nobody_answered_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def forget(changed: Evidence) -> None:
        rows = changed.stored.rows[session_id]
        last = max(n for n, row in enumerate(rows) if row.kind == "TurnEnded")
        said = rows[last].said()
        rows[last] = rows[last]._replace(body=rows[last].body.replace(b'"answered":', b'"answered_":'), enc="plain")
        assert said["answered"]
        chained(changed, session_id)
        changed.logs = [log for log in changed.logs if log.session_id != session_id]

    assert "stuck" in planted(evidence, forget)


def test_an_acknowledged_message_that_is_not_there_is_found(evidence: Evidence) -> None:
    def promise(changed: Evidence) -> None:
        changed.acks[0] = changed.acks[0]._replace(seq=changed.acks[0].seq + 1000)

    assert "lost" in planted(evidence, promise)


def test_a_message_that_was_admitted_twice_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def admit_again(changed: Evidence) -> None:
        rows = changed.stored.rows[session_id]
        rows.append(next(row for row in rows if row.kind == "InputAdmitted"))
        chained(changed, session_id)

    assert "admitted twice" in planted(evidence, admit_again)


def test_a_gap_in_what_a_client_heard_is_found(evidence: Evidence) -> None:
    place = max(range(len(evidence.logs)), key=lambda n: len(evidence.logs[n].heard))
    assert planted(evidence, lambda changed: changed.logs[place].heard.__delitem__(3)) == {"stream"}


def test_another_text_than_the_stored_one_in_what_a_client_heard_is_found(evidence: Evidence) -> None:
    place = max(range(len(evidence.logs)), key=lambda n: len(evidence.logs[n].heard))

    def whisper(changed: Evidence) -> None:
        heard = changed.logs[place].heard
        at = next(n for n, one in enumerate(heard) if one.kind == "InputAdmitted")
        heard[at] = heard[at]._replace(body={"parts": [{"type": "text", "text": "something else"}]})

    assert planted(evidence, whisper) == {"stream"}


def test_a_write_of_a_driver_that_was_replaced_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def write_late(changed: Evidence) -> None:
        rows = changed.stored.rows[session_id]
        first = next(n for n, row in enumerate(rows) if row.epoch is not None)
        for n in range(first, len(rows)):
            if rows[n].epoch is not None:
                rows[n] = rows[n]._replace(epoch=9 if n == first else 8)
        chained(changed, session_id)

    assert "stale writer" in planted(evidence, write_late)


def test_a_turn_that_is_still_open_is_found(evidence: Evidence) -> None:
    session_id = busiest(evidence)

    def leave_open(changed: Evidence) -> None:
        changed.stored.heads[session_id] = changed.stored.heads[session_id]._replace(turn="t1")

    assert planted(evidence, leave_open) == {"stuck"}


def test_a_file_that_does_not_hold_what_was_written_is_found(evidence: Evidence) -> None:
    name = sorted(evidence.files)[0]
    assert planted(evidence, lambda changed: changed.files.update({name: "else"})) == {"wrong file"}


def test_a_violation_comes_with_the_shortest_history_that_concerns_it(evidence: Evidence) -> None:
    changed = replace(evidence, witness=[*evidence.witness, evidence.witness[0]])
    [violation] = violations(changed)
    lines = history(violation, changed, [])
    assert any("ToolCallStarted" in line and evidence.witness[0] in line for line in lines)
    assert len(lines) < len(evidence.stored.rows[violation.session_id])


def test_the_checker_shares_no_code_with_what_it_checks() -> None:
    program = (
        "import sys, tests.crash.checker, tests.crash.history, tests.crash.durability; "
        "print([name for name in sys.modules if name.split('.')[0] == 'outlast'])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
