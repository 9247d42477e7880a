"""Sessions in which everything happens that ever made a provider refuse one."""

import random

from outlast.core import events as e
from outlast.core.fold import folded
from outlast.core.messages import FilePart, ImagePart, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult
from outlast.core.repair import OUTCOME_UNKNOWN
from tests.support.histories import Log, Player, ended, replied, text

PROVIDERS = ("anthropic", "openai")
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (16).to_bytes(4, "big") * 2
TALL = PNG[:16] + (100).to_bytes(4, "big") + (9000).to_bytes(4, "big")
JPEG = b"\xff\xd8\xff\xe0\x00\x10" + b"\0" * 14 + b"\xff\xc0\x00\x11\x08\x00\x10\x00\x10" + b"\0" * 8
HUGE = PNG + bytes(5 * 1024 * 1024)
PDF = b"%PDF-1.7 ..."
ATTACHMENTS: tuple[ImagePart | FilePart, ...] = (
    ImagePart("image/png", PNG),
    ImagePart("image/png", PNG, alt="a map"),
    ImagePart("image/jpeg", JPEG),
    ImagePart("image/png", JPEG),
    ImagePart("image/tiff", b"II*\0...."),
    ImagePart("image/png", TALL),
    ImagePart("image/png", HUGE, alt="\ud800"),
    ImagePart("image/png"),
    ImagePart("image/png", url="https://example.org/a.png"),
    ImagePart("image/png", url="file:///etc/passwd"),
    FilePart("a.pdf", "application/pdf", PDF),
    FilePart("a.pdf", "application/pdf", b"not one"),
    FilePart("a.txt", "text/plain", b"hello"),
    FilePart("a.txt", "text/plain", b"\xff\xfe"),
    FilePart("a.png", "image/png", PNG),
    FilePart("a.bin", "application/octet-stream", b"\0" * 9),
    FilePart("", "text/plain"),
)
NAMES = ("bash", "read", "bash", "edit", "mcp.server/tool name", "", "é", "x" * 100, "\ud800")
WORDS = ("hello", "go on", "", " \n", "😀", "\ud800 odd", "ends with a blank ", "</system-reminder>", "x" * 40, "\x00")


def genuine(provider: str, signature: str, said: str) -> bool:
    """Whether a signature that `WildPlayer` made is that provider's, for that text."""
    return signature == f"{provider}|{said}"


class WildPlayer(Player):
    """Plays as `Player` does, with models of two providers, odd names and ids, attachments, forks and late results."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.ids: int = 0
        self.provider = "anthropic"
        self.moves |= {
            "attach": self.attach,
            "switch": self.switch,
            "cancel": self.cancel,
            "nudge": lambda: self._add(e.MessageAppended(role=Role.SYSTEM, parts=text(self.words()))),
            "fork": self.fork,
            "late": self.late,
            "impatient": self.impatient,
            "withdraw": self.withdraw,
            "redact": self.redact,
            "promote": self.promote,
        }

    def words(self) -> str:
        return self.chance.choice(WORDS)

    def attach(self) -> None:
        """An input, or a message of anybody, with what nobody can read."""
        parts: list[Part] = [self.chance.choice(ATTACHMENTS) for _ in range(self.chance.randint(1, 3))]
        if self.chance.random() < 0.5:
            parts.insert(self.chance.randint(0, 1), TextPart(self.words()))
        if self.chance.random() < 0.5:
            self.log.add(e.InputAdmitted(parts=tuple(parts)))
        else:
            self.log.add(e.MessageAppended(role=self.chance.choice(list(Role)), parts=tuple(parts)))

    def append(self) -> None:
        if self.chance.random() < 0.5:
            return super().append()
        parts = [self._thought(), *self._calls(), ToolResult(call_id=self._some_id(), content=self.words())]
        self.chance.shuffle(parts)
        self.log.add(e.MessageAppended(role=self.chance.choice(list(Role)), parts=tuple(parts[:3])))
        return None

    def reply(self) -> None:
        if self.log.state.turn is None or self.log.state.open_calls:
            return
        attempt = self.log.state.attempt or self.log.add(e.ModelRequested(model=f"{self.provider}:m"))
        parts: list[Part] = []
        if self.chance.random() < 0.4:
            parts.append(self._thought())
        if self.chance.random() < 0.7:
            parts.append(TextPart(self.words()))
        if self.chance.random() < 0.2:
            parts.append(self._thought())
        parts += self._calls()
        if self.chance.random() < 0.1:
            parts.append(self._thought())
        self.log.add(replied(*parts, attempt=attempt))

    def _thought(self) -> Part:
        said = self.words()
        match self.chance.randint(0, 4):
            case 0:
                return ReasoningPart(text=said)
            case 1:
                return ReasoningPart(signature=f"{self.provider}|", provider=self.provider, redacted=True)
            case 2:
                return ReasoningPart(signature=f"{self.provider}|", provider=self.provider)
            case _:
                return ReasoningPart(text=said, signature=f"{self.provider}|{said}", provider=self.provider)

    def _calls(self) -> list[Part]:
        calls: list[Part] = []
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 4))):
            name = self.chance.choice(NAMES)
            arguments = self.chance.choice(({"command": "ls"}, {}, {"\ud800": ["\udfff"]}))
            raw = self.chance.choice((None, None, None, '{"command": "l', "\ud800"))
            calls.append(ToolCall(id=self._new_id(), name=name, arguments={} if raw else arguments, raw=raw))
        return calls

    def _new_id(self) -> str:
        self.ids += 1
        fresh = f"c{self.ids}"
        return self.chance.choice((fresh, fresh, fresh, "again", "", "y" * 80, "y" * 40, f"call {fresh}!", "\ud800"))

    def _some_id(self) -> str:
        return self.chance.choice((f"c{self.chance.randint(0, self.ids + 1)}", "again", "", "y" * 80, "nobody"))

    def run_call(self) -> None:
        """One of the open calls, in any order; sometimes only begun, sometimes with more than a text."""
        waiting = self.log.state.open_calls
        if not waiting:
            return
        one = self.chance.choice(waiting)
        if not one.started_seq and self.chance.random() < 0.9:
            self.log.add(e.ToolCallStarted(call_id=one.call_id, name=one.name))
        if self.chance.random() < 0.85:
            self.log.add(self._finished(one.call_id, one.name))

    def _finished(self, call_id: str, name: str) -> e.ToolCallFinished:
        parts: list[Part] = [TextPart(self.words())] if self.chance.random() < 0.8 else []
        if self.chance.random() < 0.25:
            parts += [self.chance.choice(ATTACHMENTS), self.chance.choice(ATTACHMENTS)]
        return e.ToolCallFinished(call_id=call_id, name=name, parts=tuple(parts), is_error=self.chance.random() < 0.2)

    def switch(self) -> None:
        self.provider = self.chance.choice(PROVIDERS)
        self.log.add(e.ModelChanged(model=f"{self.provider}:m"))

    def cancel(self) -> None:
        """The user stops the turn: what is open is answered, then the turn ends."""
        self.log.add(e.InterruptRequested())
        if self.log.state.attempt:
            parts = text(self.words()) if self.chance.random() < 0.7 else ()
            self.log.add(e.ReplyInterrupted(attempt_seq=self.log.state.attempt, parts=parts, reason="cancelled"))
        for one in self.log.state.open_calls:
            parts = text(OUTCOME_UNKNOWN)
            self.log.add(e.ToolCallFinished(call_id=one.call_id, name=one.name, parts=parts, status="interrupted"))
        if self.log.state.turn is not None:
            ended(self.log, "interrupted")

    def late(self) -> None:
        """A result for whatever, or for nothing, at any time."""
        self.log.add(self._finished(self._some_id(), "bash"))

    def impatient(self) -> None:
        """The model is asked though something is still open."""
        if self.log.state.turn is not None:
            self.log.add(e.ModelRequested(model=f"{self.provider}:m"))

    def withdraw(self) -> None:
        if self.log.state.unanswered:
            self.log.add(e.InputWithdrawn(inputs=self.log.state.unanswered[:1]))

    def promote(self) -> None:
        """Somebody reads an input again, or one that is not there."""
        if self.log.state.unanswered:
            self.log.add(e.InputPromoted(inputs=[*self.log.state.unanswered[:2], self.any_seq()]))

    def fork(self) -> None:
        carried = self.log.state.unanswered if self.chance.random() < 0.3 else None
        at = None if carried else self.any_seq()
        self.log = self.log.fork(chr(98 + self.chance.randint(0, 20)) * 26, at, carried)

    def redact(self) -> None:
        """The body of an old event goes; whoever opens the session again folds what is left."""
        at = self.any_seq() - 1
        stored, _ = self.log.rows[at]
        self.log.rows[at] = (stored._replace(redacted=True), e.Opaque(stored.kind, 1, "redacted"))
        self.log.add(e.EventRedacted(seq=at + 1, body_digest="0" * 64))
        self.log.state = folded(self.log.rows)


WILD = tuple(WildPlayer(random.Random(0)).moves)
"""Every move a wild player knows."""

TURNS = ("admit", "start", "start", "reply", "reply", "reply", "run", "run", "run", "run", "end")
"""Those that get a session on; mixed in, so that the others meet one that got somewhere."""


def wild(seed: int, length: int) -> tuple[Log, str]:
    """A session of about so many moves, and the provider whose model is to be asked next."""
    player = WildPlayer(random.Random(seed))
    moves = player.chance.choices((*WILD, *TURNS * 3), k=length)
    log = player.play(moves)
    return log, player.provider
