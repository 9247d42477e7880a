"""A header, recomputed from its log.

Not everything in a header comes from events: `Create` gives the owner, the project and what a fork inherits, and a
redaction takes texts away for good. So a field is compared where the log decides it, and left alone where it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.core import events as e
from holdfast.core.header import NOTHING, Header, apply, delta_of, delta_of_redacted, shown
from holdfast.core.log import StoredEvent

MESSAGES = frozenset({"MessageAppended", "InputAdmitted", "AssistantReplied", "ToolCallFinished"})

ALWAYS = (
    "message_count",
    "pending_count",
    "turn",
    "state",
    "was_ended",
    "rotated_to",
    "titled",
    "boundary_seq",
    "last_message_at",
)
SUMS = ("input_tokens", "output_tokens")
WHERE_SAID = ("title", "model", "persona", "pending_text", "pending_at")
"""Fields that `Create` may have given: compared only where an event sets them."""
OF_CREATION = ("parent_session_id", "project_key", "project_root", "project_fingerprint", "depth")


class Recount:
    """Adds up a session's own events. `inherited` is the number of messages in the history it stands on, None where
    that cannot be told; `counted` what redacted events had added."""

    def __init__(self, session_id: str, inherited: int | None, counted: Mapping[int, Mapping[str, int]]) -> None:
        self.header = Header(session_id=session_id, message_count=inherited or 0)
        self.comparable = inherited is not None
        self.redacted = 0
        self._counted = counted
        self._created: e.SessionCreated | None = None

    def add(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        if stored.redacted:
            self.redacted += 1
            delta = delta_of_redacted(stored.kind, stored.turn, self._counted.get(stored.seq, {}))
        elif isinstance(event, e.Opaque):
            # A newer Holdfast may have counted what this one does not know.
            self.comparable = False
            delta = NOTHING
        else:
            delta = delta_of(event, stored.turn)
        if isinstance(event, e.SessionCreated):
            self._created = event
        apply(self.header, delta, seq=stored.seq, at=stored.at, now=0, touch=False)

    def differences(self, stored: Header) -> Iterator[str]:
        """In words, where a stored header is not what its log says."""
        if not self.comparable:
            return
        told, inherits = self.header, stored.base_seq > 0
        for name in ALWAYS:
            if getattr(stored, name) != getattr(told, name) and not self._may_differ(name, inherits):
                yield f"{name} is {getattr(stored, name)!r}, its log says {getattr(told, name)!r}"
        for name in SUMS:
            given = getattr(stored, name) - getattr(told, name)
            if given < 0 or (given and not inherits):
                yield f"{name} is {getattr(stored, name)}, its log says {getattr(told, name)}"
        for name in WHERE_SAID:
            said = getattr(told, name)
            if said is not None and getattr(stored, name) != said and not self._may_be_given(name, stored):
                yield f"{name} is {getattr(stored, name)!r}, its log says {said!r}"
        yield from self._of_creation(stored)

    def _may_differ(self, name: str, inherits: bool) -> bool:
        """Whether `Create` or a redaction can be the reason; only for what no event says."""
        if getattr(self.header, name):
            return False
        match name:
            case "titled":
                return True
            case "boundary_seq" | "last_message_at":
                return inherits
            case "rotated_to":
                return self.redacted > 0
            case _:
                return False

    def _may_be_given(self, name: str, stored: Header) -> bool:
        """A first message does not replace a title that the session was created with."""
        return self.redacted > 0 or (name == "title" and not self.header.titled and stored.title is not None)

    def _of_creation(self, stored: Header) -> Iterator[str]:
        for name in OF_CREATION:
            said = getattr(self._created, name, None)
            if said and _plain(said) != _plain(getattr(stored, name)):
                yield f"{name} is {getattr(stored, name)!r}, its first event says {said!r}"


def _plain(value: object) -> object:
    return shown(value, len(value)) if isinstance(value, str) else value
