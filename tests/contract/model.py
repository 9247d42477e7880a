"""What a store must do, as dicts and lists: no chain, no disk, no threads, and nothing taken from the engine.

`commit` answers as a store would: expected receipts, or the class of the error. It works on a copy, which takes the
place of the original only when every write of the commit has gone through.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from outlast.core import errors
from outlast.core import events as e
from outlast.core.events import Event
from outlast.store import port
from outlast.store.port import Lease, Receipt, Write

MESSAGES = (e.MessageAppended, e.InputAdmitted, e.AssistantReplied, e.ToolCallFinished)
CLOSING = (e.AssistantReplied, e.ReplyInterrupted)
AFTER_THE_END = (e.SessionReopened, e.SessionRenamed, e.SessionArchived, e.SessionUnarchived)
OVER = (*CLOSING, e.TurnStarted, e.TurnEnded)


@dataclass
class Fact:
    """An event as it was meant. Forks share the fact itself with their parent, so a redaction reaches them all."""

    owner: str
    event: Event
    actor: str
    turn: str | None
    key: str | None
    epoch: int | None
    redacted: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Fact:
        return copy.copy(self)  # its event never changes; deepcopy itself sees to it that forks go on sharing


@dataclass
class Session:
    session_id: str
    root: str
    facts: list[Fact] = field(default_factory=list[Fact])
    base: str | None = None
    base_seq: int = 0
    ended: bool = False
    archived: bool = False
    rotated_to: str | None = None
    pending: int = 0
    turn: str | None = None
    epoch: int = 0
    token: str | None = None
    expired: bool = False
    open_attempt: int = 0
    attempt: int = 0
    draft: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    deleted: bool = False

    @property
    def head(self) -> int:
        return len(self.facts)

    @property
    def state(self) -> str:
        return "archived" if self.archived else "ended" if self.ended else "active"

    @property
    def messages(self) -> int:
        return sum(isinstance(fact.event, MESSAGES) for fact in self.facts)


@dataclass
class Key:
    content: list[bytes]
    session_id: str
    first: int
    last: int


@dataclass
class World:
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    keys: dict[tuple[str, str], Key] = field(default_factory=dict[tuple[str, str], Key])
    routes: dict[str, str] = field(default_factory=dict[str, str])
    tips: dict[str, str] = field(default_factory=dict[str, str])

    def live(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            raise errors.SessionNotFound
        if session.deleted:
            raise errors.SessionDeleted
        return session

    def showing(self, fact: Fact) -> list[Session]:
        """The living sessions in whose history a fact stands."""
        return [one for one in self.sessions.values() if not one.deleted and any(it is fact for it in one.facts)]

    def is_stood_on(self, session: Session) -> bool:
        """Whether the history of a living session leads through this one's own events."""
        for one in self.sessions.values():
            base = one.base if not one.deleted else None
            while base is not None and base != session.session_id:
                base = self.sessions[base].base
            if base is not None:
                return True
        return False

    def scope(self, write: port.Append | port.Create) -> str:
        if write.scope is not None:
            return write.scope
        named = write.continues if isinstance(write, port.Create) else write.session_id
        if named in self.sessions:
            return self.sessions[named].root
        return write.header.session_id if isinstance(write, port.Create) else write.session_id


def content(write: port.Append | port.Create) -> list[bytes]:
    return [e.KIND_OF[type(new.event)].encode() + msgspec.json.encode(new.event) for new in write.events]


class Model:
    def __init__(self) -> None:
        self.world = World()

    def commit(self, *writes: Write) -> list[Receipt]:
        again = self._repeated(writes)
        if again is not None:
            return again
        world = copy.deepcopy(self.world)
        receipts = [_DO[type(write)](world, write) for write in writes]
        self.world = world
        return receipts

    def forget(self) -> None:
        """Keys of deleted sessions, a month later."""
        keys = self.world.keys
        self.world.keys = {name: key for name, key in keys.items() if not self.world.sessions[key.session_id].deleted}

    def _repeated(self, writes: tuple[Write, ...]) -> list[Receipt] | None:
        found: dict[int, Key] = {}
        used: list[tuple[str, str]] = []
        for number, write in enumerate(writes):
            if not isinstance(write, port.Append | port.Create) or write.key is None:
                continue
            name = (self.world.scope(write), write.key)
            used.append(name)
            key = self.world.keys.get(name)
            if key is not None:
                if key.content != content(write):
                    raise errors.KeyUsed("another one", session_id=key.session_id, seq=key.last)
                found[number] = key
        if len(set(used)) < len(used):
            raise errors.ConflictError
        if not found:
            return None
        return [_again(write, found.get(number)) for number, write in enumerate(writes)]


def _again(write: Write, key: Key | None) -> Receipt:
    if key is None:
        return Receipt(session_id="?", replayed=True)
    return Receipt(session_id=key.session_id, first_seq=key.first, seq=key.last, replayed=True)


def _holds(session: Session, lease: Lease) -> None:
    if session.token != lease.token or lease.epoch not in (0, session.epoch):
        raise errors.StaleLease


def _record(world: World, session: Session, write: port.Append | port.Create, epoch: int | None) -> Receipt:
    first = session.head + 1
    for number, new in enumerate(write.events):
        event = new.event
        key = write.key if number == 0 else None
        session.facts.append(Fact(session.session_id, event, new.actor, new.turn, key, epoch))
        if isinstance(event, OVER):
            session.open_attempt = 0
        match event:
            case e.ModelRequested():
                session.open_attempt = session.head
            case e.SessionClosed():
                session.ended, session.archived = True, False
            case e.SessionReopened():
                session.ended, session.archived = False, False
            case e.SessionArchived() | e.SessionUnarchived():
                session.archived = isinstance(event, e.SessionArchived)
            case e.InputAdmitted():
                session.pending += 1
            case e.SessionForked(carried_inputs=carried):
                session.pending += len(carried)
            case e.TurnStarted():
                session.turn = new.turn or session.turn
            case e.TurnEnded(answered=answered):
                session.pending = max(0, session.pending - len(answered))
                session.turn = None
            case e.SessionRotated(to_session_id=to):
                session.rotated_to, session.ended, session.archived = to, True, False
            case _:
                pass
        if isinstance(event, CLOSING):
            session.attempt, session.draft = 0, []
    if write.key is not None:
        world.keys[world.scope(write), write.key] = Key(content(write), session.session_id, first, session.head)
    return Receipt(session_id=session.session_id, first_seq=first, seq=session.head)


def _create(world: World, write: port.Create) -> Receipt:
    session_id = write.header.session_id
    if session_id in world.sessions:
        raise errors.ConflictError
    session = Session(session_id, session_id)
    if write.base is not None:
        base = world.live(write.base.session_id)
        if not 1 <= write.base.seq <= base.head:
            raise errors.ConflictError
        session.facts = base.facts[: write.base.seq]
        session.base, session.base_seq = session.facts[-1].owner, write.base.seq
    if write.continues is not None:
        session.root = world.live(write.continues).root
        world.tips[session.root] = session_id
    world.sessions[session_id] = session
    return _record(world, session, write, None)


def _append(world: World, write: port.Append) -> Receipt:
    session = world.live(write.session_id)
    if write.to_tip and session.rotated_to:
        session = world.live(world.tips[session.root])
    if write.lease is not None:
        _holds(session, write.lease)
    kinds = [type(new.event) for new in write.events]
    if session.rotated_to and any(kind is e.SessionReopened for kind in kinds):
        raise errors.SessionEnded
    if (session.ended or session.rotated_to) and any(kind not in AFTER_THE_END for kind in kinds):
        raise errors.SessionEnded
    if write.expect is not None and write.expect != session.head:
        raise errors.ConflictError
    return _record(world, session, write, session.epoch if write.lease else None)


def _put_chunk(world: World, write: port.PutChunk) -> Receipt:
    session = world.live(write.lease.session_id)
    _holds(session, write.lease)
    draft = session.draft if session.attempt == write.attempt_seq else []
    if write.n == 1 and not draft and write.attempt_seq != session.open_attempt:
        raise errors.ConflictError
    if write.n == len(draft) + 1:
        session.attempt, session.draft = write.attempt_seq, [*draft, (write.part, write.data)]
    elif not 1 <= write.n <= len(draft) or draft[write.n - 1] != (write.part, write.data):
        raise errors.ConflictError
    return Receipt(session_id=session.session_id)


def _claim(world: World, write: port.Claim) -> Receipt:
    session = world.live(write.session_id)
    if session.token != write.token:
        if session.token is not None and not write.force and not session.expired:
            raise errors.SessionBusy
        session.epoch += 1
        session.token = write.token
    session.expired = write.ttl_ms == 0
    return Receipt(session_id=session.session_id, lease=Lease(session.session_id, session.epoch, write.token))


def _renew(world: World, write: port.Renew) -> Receipt:
    session = world.live(write.lease.session_id)
    _holds(session, write.lease)
    session.expired = write.ttl_ms == 0
    return Receipt(session_id=session.session_id, lease=Lease(session.session_id, session.epoch, write.lease.token))


def _release(world: World, write: port.Release) -> Receipt:
    session = world.live(write.lease.session_id)
    if session.token == write.lease.token:
        session.token = None
    return Receipt(session_id=session.session_id)


def _put_route(world: World, write: port.PutRoute) -> Receipt:
    if write.session_id is not None:
        world.live(write.session_id)
    if write.expect is not msgspec.UNSET and world.routes.get(write.route) != write.expect:
        raise errors.ConflictError
    if write.session_id is None:
        world.routes.pop(write.route, None)
    else:
        world.routes[write.route] = world.live(write.session_id).session_id
    return Receipt(session_id=write.session_id or "")


def _move_routes(world: World, write: port.MoveRoutes) -> Receipt:
    to = world.live(write.to_session_id).session_id
    world.routes = {route: to if at == write.from_session_id else at for route, at in world.routes.items()}
    return Receipt(session_id=to)


def _redact(world: World, write: port.Redact) -> Receipt:
    session = world.sessions.get(write.session_id)
    if session is None:
        raise errors.SessionNotFound
    fact = session.facts[write.seq - 1] if 1 <= write.seq <= session.head else None
    if session.deleted and (fact is None or not world.is_stood_on(session)):
        raise errors.SessionDeleted
    if fact is None or (fact.owner != session.session_id and not world.sessions[fact.owner].deleted):
        raise errors.ConflictError
    telling = world.showing(fact) if session.deleted else [session]
    if not telling:
        raise errors.SessionDeleted
    if fact.redacted:
        return Receipt(session_id=session.session_id, replayed=True)
    fact.redacted = True
    said = e.EventRedacted(seq=write.seq, body_digest="?", reason=write.reason)
    for one in telling:
        one.facts.append(Fact(one.session_id, said, write.actor, None, None, None))
    if session.deleted:
        return Receipt(session_id="?")
    return Receipt(session_id=session.session_id, first_seq=session.head, seq=session.head)


def _delete(world: World, write: port.Delete) -> Receipt:
    buried = {world.live(write.session_id).session_id}
    while write.with_forks:
        standing = {name for name, session in world.sessions.items() if session.base in buried} - buried
        if not standing:
            break
        buried |= standing
    for name in buried:
        world.sessions[name].deleted = True
    world.routes = {route: at for route, at in world.routes.items() if at not in buried}
    return Receipt(session_id=write.session_id)


_DO: dict[type[Any], Callable[[World, Any], Receipt]] = {
    port.Create: _create,
    port.Append: _append,
    port.PutChunk: _put_chunk,
    port.Claim: _claim,
    port.Renew: _renew,
    port.Release: _release,
    port.PutRoute: _put_route,
    port.MoveRoutes: _move_routes,
    port.Redact: _redact,
    port.Delete: _delete,
}
