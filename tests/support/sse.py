"""A client of streams, as strict as they promise to be: it takes bytes as they come, keeps what a page would show, and
fails loudly when a frame is missing, repeated or out of order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class StreamClient:
    """`events` is its log, `draft` the text of the reply that is being written, `last_id` its cursor."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    draft: str = ""
    attempt: int = 0
    n: int = 0
    last_id: str = ""
    ids: list[str] = field(default_factory=list[str])
    resyncs: int = 0
    heartbeats: int = 0
    closed_drafts: dict[int, str] = field(default_factory=dict[int, str])
    _rest: bytes = b""

    def connected(self, *, bare: bool = False) -> str:
        """The cursor to connect with; `bare` gives the seq alone, as somebody does who keeps no drafts."""
        self._rest = b""
        if bare:
            self.attempt = self.n = 0
            self.draft = ""
            self.last_id = self.last_id.partition(":")[0]
        return self.last_id

    def feed(self, data: bytes) -> None:
        """Some bytes; a frame that is cut off counts for nothing."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            self._block(block.decode())

    @property
    def seq(self) -> int:
        return self.events[-1]["seq"] if self.events else 0

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def _block(self, block: str) -> None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            else:
                self.heartbeats += 1
                assert not fields, f"a heartbeat within a frame: {block!r}"
        if "data" not in fields:
            assert not fields, f"neither a frame nor a comment: {block!r}"
            return
        self._frame(fields.get("id"), fields["event"], json.loads(fields["data"]))

    def _frame(self, name: str | None, kind: str, data: dict[str, Any]) -> None:
        if kind == "resync":
            assert name is None
            self.resyncs += 1
            return
        assert name is not None, f"{kind} has no id"
        assert name not in self.ids, f"{name} came twice"
        self.ids.append(name)
        self.last_id = name
        if kind == "delta":
            self._delta(name, data)
        else:
            self._event(name, kind, data)

    def _delta(self, name: str, data: dict[str, Any]) -> None:
        assert name == f"{self.seq}:{data['n']}", f"{name} after event {self.seq}: {data}"
        if data.get("replace"):
            self.draft = ""
        elif data["attempt"] != self.attempt:
            assert data["n"] == 1, f"a draft that begins with piece {data['n']}"
            self.draft = ""
        else:
            assert data["n"] == self.n + 1, f"piece {data['n']} after {self.n}"
        self.attempt, self.n = data["attempt"], data["n"]
        if data["part"] == "text":
            self.draft += data["text"]

    def _event(self, name: str, kind: str, data: dict[str, Any]) -> None:
        assert data["seq"] == self.seq + 1, f"event {data['seq']} after {self.seq}"
        assert name == str(data["seq"])
        assert data["kind"] == kind
        self.events.append(data)
        if kind in ("AssistantReplied", "ReplyInterrupted"):
            self.closed_drafts[data["seq"]] = self.draft
            self.draft, self.attempt, self.n = "", 0, 0
