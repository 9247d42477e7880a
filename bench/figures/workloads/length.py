"""What must not grow with a session: appending to it, opening it, forking it. Each is compared with a short one."""

from __future__ import annotations

from collections.abc import Iterator

from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.turns import Work, in_turns
from bench.figures.workloads.filled import fill, opened, session_of
from outlast.session import ConversationSession
from outlast.store import open_store

LONG, SHORT, PIECE = 100_000, 100, 20


def append_late(lab: Lab, kind: str) -> Iterator[Figure]:
    long, warm, count = lab.count(LONG, 200), lab.count(1_000, 5), lab.count(200, 5)
    with opened(lab, kind, long) as late, lab.store(kind) as store:
        # Each piece goes to another short session, or the short ones would not stay short.
        pieces = 2 + lab.rounds * (1 + count // PIECE)
        short = [ConversationSession(store=store) for _ in range(pieces)]
        for session in short:
            fill(session, SHORT)
        for session in (ConversationSession(store=late.store), ConversationSession(store=store)):
            _appends(session)(warm)
        unused = iter(short)
        rounds = in_turns(lab.rounds, count, lambda times: _appends(next(unused))(times), _appends(late), piece=PIECE)
    title = f"append no. {long:,} of a session"
    yield ratio("late-append", title, f"append no. {SHORT}", rounds, measured_in="us", goal=1.2)


def _appends(session: ConversationSession) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            session.append(message())

    return some


def open_late(lab: Lab, kind: str) -> Iterator[Figure]:
    long = lab.count(LONG, 200)
    big, small = session_of(lab, kind, long), session_of(lab, kind, SHORT)
    rounds = in_turns(lab.rounds, lab.count(30, 2), _opens(*small), _opens(*big), per=1e3, piece=1)
    title = f"open + last 50 messages of {long:,}"
    yield ratio("open-last-50", title, f"the same of {SHORT}", rounds, measured_in="ms", goal=1.5)


def _opens(url: str, session_id: str) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            with open_store(url) as store:
                session = ConversationSession.load(session_id=session_id, store=store)
                assert session is not None
                assert len(session.history(limit=50)) == 50

    return some


def fork_late(lab: Lab, kind: str) -> Iterator[Figure]:
    long = lab.count(LONG, 200)
    with opened(lab, kind, long) as big, opened(lab, kind, 9) as small:
        rounds = in_turns(lab.rounds, lab.count(100, 2), _forks(small), _forks(big), piece=10)
    title = f"fork of a session of {long:,} events"
    yield ratio("fork", title, "fork of one of 10 events", rounds, measured_in="us", goal=1.2)


def _forks(session: ConversationSession) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            session.fork()

    return some
