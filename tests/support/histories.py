"""Logs made up for tests: a builder, a driver that behaves (and crashes), and a door that does anything at any time."""

import random
from collections.abc import Callable

from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row, fold
from outlast.core.messages import ImagePart, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult, Usage
from outlast.core.state import SessionState

SESSION = "a" * 26


class Log:
    """Rows in the making, folded as they come."""

    def __init__(self, session_id: str = SESSION) -> None:
        self.session_id = session_id
        self.rows: list[Row] = []
        self.state = SessionState()
        self.turn: str | None = None
        self.epoch: int | None = None

    def add(self, *events: e.Event | e.Opaque, redacted: bool = False) -> int:
        """Put events at the end; the seq of the last one."""
        for event in events:
            row = (self._stored(event, redacted), event)
            self.rows.append(row)
            fold(self.state, *row)
        return len(self.rows)

    def _stored(self, event: e.Event | e.Opaque, redacted: bool) -> StoredEvent:
        seq = len(self.rows) + 1
        kind = event.kind if isinstance(event, e.Opaque) else type(event).__name__
        hashed = seq.to_bytes(32, "big")
        return StoredEvent(
            self.session_id,
            seq,
            kind,
            1,
            1000 + seq,
            "system",
            self.turn,
            None,
            self.epoch,
            "plain",
            b"",
            hashed,
            redacted,
        )

    def fork(self, session_id: str, at: int | None = None, carried: list[int] | None = None) -> "Log":
        """A session that goes on from event `at` of this one."""
        child = Log(session_id)
        base = len(self.rows) if at is None else at
        for row in self.rows[:base]:
            child.rows.append(row)
            fold(child.state, *row)
        child.add(e.SessionForked(base_session_id=self.session_id, base_seq=base, carried_inputs=carried or []))
        return child


def text(value: str) -> tuple[Part, ...]:
    return (TextPart(value),)


def appended(role: Role, value: str) -> e.MessageAppended:
    return e.MessageAppended(role=role, parts=text(value))


def admitted(value: str, delivery: e.Delivery = e.Delivery.QUEUE) -> e.InputAdmitted:
    return e.InputAdmitted(parts=text(value), delivery=delivery)


def replied(*parts: Part, attempt: int = 0) -> e.AssistantReplied:
    return e.AssistantReplied(attempt_seq=attempt, parts=parts, usage=Usage(input_tokens=10, output_tokens=5))


def call(call_id: str, name: str = "bash") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments={"command": "ls"})


def finished(call_id: str, value: str = "done") -> e.ToolCallFinished:
    return e.ToolCallFinished(call_id=call_id, name="bash", parts=text(value))


def asked(log: Log, value: str = "do it") -> int:
    """An input and the beginning of its turn up to the open attempt; the attempt's seq."""
    seq = log.add(admitted(value))
    log.turn, log.epoch = f"t{seq}", (log.epoch or 0) + 1
    return log.add(e.TurnStarted(inputs=[seq]), e.ModelRequested(model="m"))


def ended(log: Log, outcome: str = "completed") -> int:
    """The end of the running turn, all its inputs answered."""
    assert log.state.turn is not None
    seq = log.add(e.TurnEnded(outcome=outcome, answered=list(log.state.turn.inputs)))
    log.turn = None
    return seq


def whole_turn(log: Log, question: str, answer: str) -> int:
    asked(log, question)
    log.add(replied(TextPart(answer)))
    return ended(log)


# --- histories by chance -------------------------------------------------------------------------------------------


class Player:
    """Plays a session move by move. A move that makes no sense now does nothing."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.log = Log()
        self.log.add(e.SessionCreated())
        self.ids = 0
        self.moves: dict[str, Callable[[], None]] = {
            "admit": self.admit,
            "append": self.append,
            "start": self.start,
            "reply": self.reply,
            "break": self.break_off,
            "run": self.run_call,
            "kill": self.kill,
            "steer": self.steer,
            "end": self.end,
            "compact": self.compact,
            "clear": lambda: self._add(e.HistoryCleared()),
            "rewind": lambda: self._add(e.Rewound(to_seq=self.any_seq())),
            "undo": self.undo,
            "rename": lambda: self._add(e.SessionRenamed(title="x")),
            "record": self.record,
            "redact": lambda: self._add_redacted(),
        }

    def play(self, moves: list[str]) -> Log:
        for move in moves:
            self.moves[move]()
        return self.log

    def _add(self, event: e.Event) -> None:
        self.log.add(event)

    def any_seq(self) -> int:
        return self.chance.randint(1, len(self.log.rows))

    def words(self) -> str:
        return self.chance.choice(("hello", "", " ", "😀", "\ud800 odd", "go on", "x" * 30))

    def admit(self) -> None:
        self.log.add(e.InputAdmitted(parts=text(self.words()), delivery=self.chance.choice(list(e.Delivery))))

    def append(self) -> None:
        role = self.chance.choice(list(Role))
        parts: list[Part] = [TextPart(self.words())] if self.chance.random() < 0.7 else []
        if self.chance.random() < 0.4:
            parts.append(call(self.chance.choice("ab")))
        if self.chance.random() < 0.4:
            parts.append(ToolResult(call_id=self.chance.choice("abc"), content=self.words()))
        if self.chance.random() < 0.2:
            parts.append(ImagePart("image/png", b"x" * self.chance.choice((0, 10, 5000))))
        self.log.add(e.MessageAppended(role=role, parts=tuple(parts)))

    def start(self) -> None:
        if self.log.state.turn is None and self.log.state.unanswered:
            self.log.turn, self.log.epoch = f"t{len(self.log.rows)}", (self.log.epoch or 0) + 1
            self.log.add(e.TurnStarted(inputs=self.log.state.unanswered[: self.chance.randint(1, 3)]))

    def reply(self) -> None:
        if self.log.state.turn is None or self.log.state.open_calls:
            return
        attempt = self.log.state.attempt or self.log.add(e.ModelRequested(model="m"))
        parts: list[Part] = []
        if self.chance.random() < 0.3:
            provider = self.chance.choice((None, "anthropic", "openai"))
            parts.append(ReasoningPart(text=self.words(), signature="s", provider=provider))
        if self.chance.random() < 0.7:
            parts.append(TextPart(self.words()))
        for _ in range(self.chance.choice((0, 0, 1, 2, 3))):
            self.ids += 1
            parts.append(call(self.chance.choice((f"c{self.ids}", f"c{self.ids}", "again"))))
        self.log.add(replied(*parts, attempt=attempt))

    def break_off(self) -> None:
        if self.log.state.turn is not None and not self.log.state.open_calls:
            attempt = self.log.state.attempt or self.log.add(e.ModelRequested(model="m"))
            self.log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text(self.words())))

    def run_call(self) -> None:
        for waiting in self.log.state.open_calls[:1]:
            if not waiting.started_seq:
                self.log.add(e.ToolCallStarted(call_id=waiting.call_id, name=waiting.name))
            if self.chance.random() < 0.8:
                self.log.add(finished(waiting.call_id, self.words()))

    def kill(self) -> None:
        """The driver dies; the next one takes over, or gives the turn up."""
        self.log.epoch = (self.log.epoch or 0) + 1
        if self.log.state.attempt and self.chance.random() < 0.5:
            self.log.add(e.ReplyInterrupted(attempt_seq=self.log.state.attempt, reason="recovered"))
        elif self.log.state.turn is not None and self.chance.random() < 0.3:
            ended(self.log, "failed_recovery")

    def steer(self) -> None:
        if self.log.state.turn is not None:
            seq = self.log.add(admitted(self.words(), e.Delivery.STEER))
            self.log.add(e.InputPromoted(inputs=[seq]))

    def end(self) -> None:
        if self.log.state.turn is not None:
            ended(self.log)

    def compact(self) -> None:
        kept = self.chance.randint(max(1, len(self.log.rows) - 30), len(self.log.rows))
        after = self.chance.randint(1, 100)
        pruned = self.chance.choice((0, 0, self.any_seq()))
        words = tuple(e.UserWords(seq=n, text=self.words()) for n in range(self.chance.choice((0, 0, 2))))
        self.log.add(
            e.Compacted(
                summary=self.words(),
                first_kept_seq=kept,
                tokens_before=100,
                tokens_after=after,
                pruned_upto=pruned,
                pruned_over=self.chance.choice((0, 3, 400)),
                words=words,
                summarised=not pruned or self.chance.random() < 0.5,
            )
        )

    def undo(self) -> None:
        journal = self.log.state.journal
        if journal:
            target = self.chance.choice(journal).seq
            undoing = self.chance.choice((e.CompactionUndone(compacted_seq=target), e.RewindUndone(rewound_seq=target)))
            self.log.add(undoing)

    def record(self) -> None:
        n = self.chance.randint(0, 5)
        self.log.add(
            e.TimelineRecorded(entry={"n": n}),
            e.TraceRecorded(entry={"n": n}),
            e.PromptRecorded(snapshot={"n": n}),
            e.RuntimeStateChanged(changes={f"k{n}": n}),
        )

    def _add_redacted(self) -> None:
        kind = self.chance.choice(("InputAdmitted", "AssistantReplied", "ToolCallFinished", "MessageAppended"))
        self.log.add(e.Opaque(kind, 1, "redacted"), redacted=True)


MOVES = tuple(Player(random.Random(0)).moves)
"""Every move a player knows."""

ORDERLY = tuple(move for move in MOVES if move not in {"clear", "rewind", "undo", "compact", "redact"})
"""Those that draw no boundary and lose nothing."""


def histories(moves: tuple[str, ...] = MOVES) -> st.SearchStrategy[list[str]]:
    """Short ones, which shrink well, and long ones, which get somewhere."""
    move = st.sampled_from(moves)
    return st.one_of(st.lists(move, max_size=12), st.lists(move, min_size=40, max_size=90))


def played(seed: int, moves: list[str]) -> Log:
    return Player(random.Random(seed)).play(moves)
