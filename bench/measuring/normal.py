"""Make what two runs showed comparable: one small table says which values may differ, and how they are levelled.

- Session ids become S1, S2, ... in the order of their first appearance; turn ids, cursors and the like likewise.
- Times, durations, token estimates and hashes that hold a time become 0 or a fixed word.
- The name of the package becomes a fixed word in the same case.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from measuring.version import Version

LONGEST = 400
LEVELLED: dict[str, Any] = {
    # rows of the log
    "at": 0,
    "hash": "HASH",
    "head_hash": "HASH",
    "pid": 0,
    "host": "HOST",
    "started": "STARTED",
    "window_digest": "DIGEST",
    "asked": "DIGEST",  # of a command in a chat, which may name a session
    # times and durations
    "ts": 0,
    "asked_at": 0,
    "created_at": 0,
    "updated_at": 0,
    "last_message_at": 0,
    "pending_started_at": 0,
    "deleted_at": 0,
    "timestamp": "TIME",
    "seconds": 0,
    "active_seconds": 0,
    # how far a chat was paid when a delivery was closed: two writers race for it
    "settled_seq": 0,
    # estimates that count the system prompt, in which the package's own name stands
    "input_tokens_estimate": 0,
    "tokens_before": 0,
    "tokens_after": 0,
    "used": 0,
    "system": 0,
    "tools": 0,
    # places in lists, which hold times
    "cursor": "CURSOR",
}
ORDERED = ("turn", "active_stream_id", "by")
"""Names of values that are told apart within a session, by the order of their first appearance."""
SEQS = (
    "seq", "last_seq", "first_seq", "base_seq", "attempt_seq", "approval_seq", "approval_id", "first_kept_seq",
    "compacted_seq", "to_seq", "rewound_seq", "of_seq", "upto_seq", "inputs", "answered",
    "carried_inputs", "to",
)  # fmt: skip
"""Names of values that are positions in a log: they move up where an accepted event before them is left out."""
_ID = re.compile(r"(?<![a-z0-9])[a-z2-7]{26}(?![a-z0-9])")
_MESSAGE = re.compile(r"(?<![a-z0-9])([a-z2-7]{26})([-.])(\d+)")
"""The id of a message: a session and a position in it."""
_PLACE = re.compile(r"^(delivery \S+ |## \w+(?: \[\w+\])? \()(\d+)")
"""A position in a text: in the key of a delivery, in a heading of a transcript."""
_TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b17\d{14}\b|\b18\d{14}\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds)\b"), "DURATION"),
    (re.compile(r"\b(just now|\d+ (second|minute)s? ago)\b"), "AGO"),
    (re.compile(r"head [0-9a-f]{16}"), "head HASH"),
    (re.compile(r"^~[0-9a-f]{16,}$"), "~KEY"),  # the files store marks the first event of a commit so
    (re.compile(r"127\.0\.0\.1:\d+"), "HERE"),
)


class Normal:
    """One run, levelled. The same object levels everything of the run, so that an id is the same name everywhere."""

    def __init__(self, version: Version, folder: str) -> None:
        self._name = version.name
        self._folder = folder
        self._ids: dict[str, str] = {}
        self._ordered: dict[tuple[str | None, str], dict[str, str]] = {}
        self._places: dict[str, dict[int, int]] = {}

    def learn(self, session_id: str) -> None:
        """Give a session its name, before any text is levelled."""
        self._ids.setdefault(session_id, f"S{len(self._ids) + 1}")

    def renumber(self, session_id: str, places: dict[int, int]) -> None:
        """Let positions in a session's log be told as these others."""
        self._places[session_id] = places

    def _place(self, session: str | None, seq: int) -> int:
        return self._places.get(session or "", {}).get(seq, seq)

    def value(self, value: Any, key: str | None = None, session: str | None = None) -> Any:
        """Level one value, and everything in it; `session` is the one whose positions it names."""
        if isinstance(value, dict):
            here = _session_in(value) or session
            return {self.text(name): self.value(one, name, here) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, key if key in SEQS else None, session) for one in value]
        if value is None or isinstance(value, bool):
            return value
        if key in LEVELLED:
            return LEVELLED[key]
        if key in ORDERED and isinstance(value, str):
            known = self._ordered.setdefault((session, key), {})
            return known.setdefault(value, f"{key}-{len(known) + 1}")
        if isinstance(value, str):
            return self.text(value, session)
        if isinstance(value, int) and key in SEQS:
            return self._place(session, value)
        return 0 if isinstance(value, int) and value > 10**15 else value

    def text(self, text: str, session: str | None = None) -> str:
        """Level one text."""
        text = text.replace(self._folder, "FOLDER")
        text = _MESSAGE.sub(lambda found: f"{found[1]}{found[2]}{self._place(found[1], int(found[3]))}", text)
        text = _PLACE.sub(lambda found: f"{found[1]}{self._place(session, int(found[2]))}", text)
        text = _ID.sub(lambda found: self._named(found.group()), text)
        for session_id, name in self._ids.items():
            if session_id[:6] in text:
                text = re.sub(rf"(?<![a-z0-9]){session_id[:6]}(?:{session_id[6:8]})?(?![a-z0-9])", name, text)
        for pattern, word in _TIMES:
            text = pattern.sub(word, text)
        name = self._name
        for written, word in ((name, "package"), (name.capitalize(), "Package"), (name.upper(), "PACKAGE")):
            text = text.replace(written, word)
        return text

    def _named(self, session_id: str) -> str:
        self.learn(session_id)
        return self._ids[session_id]


def _session_in(value: dict[str, Any]) -> str | None:
    """The session that a JSON object is about, where it says so."""
    inside = value.get("session")
    found = value.get("session_id") or value.get("id") or (inside.get("id") if isinstance(inside, dict) else None)
    return found if isinstance(found, str) and _ID.fullmatch(found) else None


def lines(value: Any) -> Iterator[str]:
    """A value as lines of text that a diff can be read of; long ones are cut and end with their digest."""
    text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=True, sort_keys=True)
    for line in text.splitlines():
        digest = hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        yield line if len(line) <= LONGEST else f"{line[:200]} ... {len(line)} characters, {digest}"
