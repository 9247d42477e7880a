"""The checker: what must be true after a run, whatever was done to it. It knows the promises and none of the code.

It reads the store's rows, the witness file and the clients' notes (`evidence`), and computes the rest from the jobs
(`oracle`). Of Outlast it imports nothing. Each promise is a function that yields what breaks it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tests.crash.chain import broken_chains
from tests.crash.evidence import ClientLog, Evidence, Heard, Row, Unreadable
from tests.crash.oracle import Call, Job, job_in, told_to
from tests.crash.scenario import Tale, Told, Turn
from tests.crash.violation import Violation

ENDINGS = frozenset({"completed", "failed", "failed_recovery"})
"""How a turn may end when nobody stops it: answered, the model failed five times, three drivers died of it."""
RAN = frozenset({"executed", "failed", "recovered"})


def violations(evidence: Evidence) -> list[Violation]:
    """Everything that is wrong; nothing when all promises were kept."""
    tale = Tale.of(evidence)
    return [violation for check in CHECKS for violation in check(evidence, tale)]


# ---- the promises ---------------------------------------------------------------------------------------------------


def chains(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """Seqs gapless, hashes sound, nothing written by a driver that was taken over."""
    yield from broken_chains(evidence.stored)


def grammar(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """Turns, attempts and calls open and close in pairs."""
    yield from tale.broken


def acknowledged(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """What a client was told is stored is stored there, once; and no message is in the log twice."""
    for ack in evidence.acks:
        places = tale.placed.get(ack.job, [])
        if (ack.session_id, ack.seq) not in places:
            told = f"{ack.job} was acknowledged as event {ack.seq}, and is not there"
            yield Violation("lost", ack.session_id, told, ack.seq, ack.seq, ack.job)
        kept = evidence.stored.keys.get((tale.root(ack.session_id), ack.key))
        if kept != (ack.session_id, ack.seq):
            yield Violation("lost", ack.session_id, f"the key of {ack.job} leads to {kept}", ack.seq, ack.seq, ack.job)
    for job, places in tale.placed.items():
        if len(places) > 1:
            session_id, seq = places[1]
            yield Violation("admitted twice", session_id, f"{job} is in the log as {places}", places[0][1], seq, job)


def answered_once(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """Each input, acknowledged or not, is answered in exactly one turn of its lineage, and by nothing before it."""
    by_input: dict[tuple[str, int], list[Turn]] = defaultdict(list)
    for turn in tale.turns:
        for seq in turn.answered:
            by_input[(tale.root(turn.session_id), seq)].append(turn)
    for place, turns in by_input.items():
        if place not in tale.inputs:
            yield Violation("answered twice", turns[0].session_id, f"no input is {place[1]}", place[1], turns[0].last)
    for (root, seq), text in tale.inputs.items():
        turns = by_input.get((root, seq), [])
        job = job_in(text)
        name = job.name if job is not None else text[:40]
        if not turns:
            last = evidence.stored.heads[root].last_seq if root in evidence.stored.heads else seq
            yield Violation("stuck", root, f"{name} (event {seq}) was never answered", seq, last, name)
        elif len(turns) > 1:
            told = f"{name} (event {seq}) was answered by the turns that end at {[turn.last for turn in turns]}"
            yield Violation("answered twice", turns[1].session_id, told, seq, turns[-1].last, name)
        elif turns[0].first < seq and turns[0].last < seq:
            yield Violation(
                "answered twice", root, f"{name} was answered before it was asked", turns[0].first, seq, name
            )


def answered_right(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """A turn that is complete ends with what the model says to its message; others end for a reason that counts."""
    for turn in tale.turns:
        texts = [tale.inputs.get((tale.root(turn.session_id), seq), "") for seq in turn.answered]
        jobs = [job for job in map(job_in, texts) if job is not None]
        if turn.outcome == "interrupted" and turn.interrupted:
            continue
        if turn.outcome not in ENDINGS:
            told = f"the turn ended as {turn.outcome} ({turn.reason}), and nobody had stopped it"
            yield Violation("given up", turn.session_id, told, turn.first, turn.last, _names(jobs))
        elif turn.outcome == "failed" and turn.attempts < 5:
            told = f"the turn failed ({turn.reason}) after {turn.attempts} attempts"
            yield Violation("given up", turn.session_id, told, turn.first, turn.last, _names(jobs))
        elif turn.outcome == "failed_recovery" and turn.recoveries < 5:
            told = f"the turn was given up after {turn.recoveries} recoveries"
            yield Violation("given up", turn.session_id, told, turn.first, turn.last, _names(jobs))
        elif turn.outcome == "completed" and jobs and turn.answer not in {job.answer for job in jobs}:
            told = f"the answer to {_names(jobs)} is {turn.answer[:80]!r}"
            yield Violation("wrong answer", turn.session_id, told, turn.first, turn.last, _names(jobs))


def _names(jobs: list[Job]) -> str:
    return ", ".join(job.name for job in jobs)


def run_once(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """No command ran twice or unrecorded; one without a result is called unknown; one with a result did run."""
    lines = Counter(evidence.witness)
    commands = {call.name: (session_id, call) for session_id, call in _calls(tale) if call.step == "N"}
    for name, count in lines.items():
        session_id, told = _told(tale, commands, name)
        first, last = (told.asked, told.finished[-1][0] if told.finished else told.started) if told else (0, 0)
        if count > 1:
            yield Violation("run twice", session_id, f"command {name} ran {count} times", first, last, name)
        if told is None or not told.started:
            yield Violation(
                "run unrecorded", session_id, f"command {name} ran, and no record says so", first, last, name
            )
        elif told.status not in RAN and "unknown" not in told.finished[0][2]:
            text = f"command {name} ran, and the log says {told.status}: {told.finished[0][2][:80]}"
            yield Violation("run denied", session_id, text, first, last, name)
    for name, (session_id, _) in commands.items():
        told = tale.calls.get((session_id, name))
        if told is None or not told.started or not told.finished:
            continue
        seq, status, text = told.finished[0]
        if status == "executed" and not lines[name]:
            yield Violation(
                "not run", session_id, f"the log says that {name} ran, and it did not", told.asked, seq, name
            )
        if status not in RAN and "unknown" not in text:
            what = f"{name} was started, has no result of its own, and is told as {status}: {text[:80]}"
            yield Violation("not unknown", session_id, what, told.asked, seq, name)


def _calls(tale: Tale) -> Iterator[tuple[str, Call]]:
    for (_, seq), text in tale.inputs.items():
        job = job_in(text)
        if job is not None:
            for call in job.all_calls():
                for session_id, placed in tale.placed[job.name]:
                    if placed == seq:
                        yield session_id, call


def _told(tale: Tale, commands: dict[str, tuple[str, Call]], name: str) -> tuple[str, Told | None]:
    session_id = commands[name][0] if name in commands else ""
    return session_id, tale.calls.get((session_id, name))


def written_and_read(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """A file holds what the last write that counts put there; every read and every question gave what it must."""
    for session_id, jobs in _jobs(tale).items():
        for job in jobs:
            yield from _file(evidence, tale, session_id, job)


def _file(evidence: Evidence, tale: Tale, session_id: str, job: Job) -> Iterator[Violation]:
    may_hold: set[str | None] = {None}
    last = 0
    for call in job.all_calls():
        told = tale.calls.get((session_id, call.name))
        if told is None or not told.finished:
            continue
        seq, status, text = told.finished[0]
        if call.step == "V" and status in ("executed", "recovered"):
            may_hold, last = {call.arguments["content"]}, seq
        elif call.step == "V" and told.started:
            may_hold, last = may_hold | {call.arguments["content"]}, seq
        elif call.step == "A" and status == "executed" and told_to(call.name) not in text:
            what = f"{call.name} was answered {told_to(call.name)!r}, and got {text[:60]!r}"
            yield Violation("wrong answer", session_id, what, told.asked, seq, job.name)
        elif call.step == "R" and status == "executed" and not any(held and held.strip() in text for held in may_hold):
            what = f"{call.name} read {text[:60]!r}, and {may_hold} was written"
            yield Violation("wrong read", session_id, what, told.asked, seq, job.name)
    held = evidence.files.get(f"{job.name}.txt")
    if held not in may_hold:
        what = f"{job.name}.txt holds {held!r}, and {may_hold} was written"
        yield Violation("wrong file", session_id, what, last, last, job.name)


def _jobs(tale: Tale) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = defaultdict(list)
    for (root, seq), text in tale.inputs.items():
        job = job_in(text)
        if job is not None:
            found[next((name for name, placed in tale.placed[job.name] if placed == seq), root)].append(job)
    return found


def heard_the_same(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """Every client's log is the store's: the same events in the same order, none missing, none twice."""
    for log in evidence.logs:
        yield from _heard(evidence, log)


def _heard(evidence: Evidence, log: ClientLog) -> Iterator[Violation]:
    if log.broken:
        last = log.heard[-1].seq if log.heard else 0
        yield Violation("stream", log.session_id, f"client {log.client}: {log.broken}", last, last + 1)
        return
    rows = evidence.stored.rows.get(log.session_id, [])
    for row, heard in zip(rows, log.heard, strict=False):
        if (row.seq, row.kind, row.at, row.turn) != (heard.seq, heard.kind, heard.at, heard.turn):
            told = f"client {log.client} heard {heard.seq} {heard.kind} where {row.seq} {row.kind} is stored"
            yield Violation("stream", log.session_id, told, row.seq, row.seq)
            return
        if not _is_same(row, heard):
            told = f"client {log.client} heard another {row.kind} than the one that is stored as {row.seq}"
            yield Violation("stream", log.session_id, told, row.seq, row.seq)
            return
    if len(rows) != len(log.heard):
        told = f"client {log.client} heard {len(log.heard)} events of {len(rows)}"
        yield Violation("stream", log.session_id, told, len(log.heard), len(rows))


def _is_same(row: Row, heard: Heard) -> bool:
    try:
        return row.said() == heard.body
    except Unreadable:
        return False


def settled(evidence: Evidence, tale: Tale) -> Iterator[Violation]:
    """Nothing waits, nothing runs, no draft is left."""
    for head in evidence.stored.heads.values():
        if head.turn is not None or head.pending:
            told = f"turn {head.turn} is open and {head.pending} inputs wait"
            yield Violation("stuck", head.session_id, told, 1, head.last_seq)
        if evidence.stored.chunks.get(head.session_id):
            yield Violation("stuck", head.session_id, "a draft was left behind", 1, head.last_seq)


Check = Callable[[Evidence, Tale], Iterator[Violation]]
CHECKS: tuple[Check, ...] = (
    chains,
    grammar,
    acknowledged,
    answered_once,
    answered_right,
    run_once,
    written_and_read,
    heard_the_same,
    settled,
)
