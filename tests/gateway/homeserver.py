"""A server on this machine that speaks as much of Matrix as one room needs, and fails when it is told to.

What a real homeserver does is tried with a real one (`tests/gateway/synapse.py`); this one is for what a real one does
only on its bad days.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BOT, OWNER, ROOM = "@bot:here", "@owner:here", "!room:here"
LIMITED = (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "Too many requests", "retry_after_ms": 10})
UNKNOWN_TOKEN = (401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown access token"})
BROKEN = (502, {"errcode": "M_UNKNOWN", "error": "Bad gateway"})

Answer = tuple[int, dict[str, Any]]


class Homeserver:
    """One room with the owner and the bot in it. `faults` are the answers to the next calls, by what is asked for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self.sent: dict[str, str] = {}
        self.asked: list[str] = []
        self.faults: list[tuple[str, Answer]] = []
        self.url = ""
        self.open = True

    def say(self, text: str, user: str = OWNER, **more: Any) -> None:
        """Somebody writes into the room; `more` are other fields of what is written."""
        with self.changed:
            content = {"msgtype": "m.text", "body": text, **more}
            event = {"type": "m.room.message", "event_id": f"$e{len(self.events)}", "sender": user, "content": content}
            self.events.append({**event, "origin_server_ts": 0})
            self.changed.notify_all()

    def invite(self, user: str = OWNER) -> None:
        """Somebody asks the bot into the room; that is told once."""
        content = {"membership": "invite"}
        self.events.append({"type": "m.room.member", "state_key": BOT, "sender": user, "content": content})

    @property
    def texts(self) -> list[str]:
        with self.changed:
            return list(self.sent.values())

    def close(self) -> None:
        with self.changed:
            self.open = False
            self.changed.notify_all()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Answer:
        words = unquote(path).split("/")
        known = ("whoami", "login", "sync", "joined_members", "join", "send", "typing")
        what = next((word for word in known if word in words), "")
        with self.changed:
            self.asked.append(what)
            for fault in self.faults:
                if fault[0] == what:
                    self.faults.remove(fault)
                    return fault[1]
            match what:
                case "whoami":
                    return 200, {"user_id": BOT}
                case "login":
                    return 200, {"user_id": BOT, "access_token": "let-in", "device_id": "D"}
                case "sync":
                    since = int(query["since"][0]) if "since" in query else 0
                    return 200, self._sync(since, float(query.get("timeout", ["0"])[0]) / 1000)
                case "joined_members":
                    people = {BOT: {"display_name": "b"}, OWNER: {"display_name": "o"}}
                    return 200, {"joined": people}
                case "join":
                    return 200, {"room_id": ROOM}
                case "send":
                    self._take(words[-1], body)
                    return 200, {"event_id": f"$sent-{words[-1]}"}
                case _:
                    return 200, {}

    def _take(self, transaction: str, body: dict[str, Any]) -> None:
        """Store a message once for each transaction; an edit changes the message that it names."""
        related = body.get("m.relates_to", {})
        if related.get("rel_type") == "m.replace":
            self.sent[related["event_id"].removeprefix("$sent-")] = body["m.new_content"]["body"]
        else:
            self.sent.setdefault(transaction, body.get("body", ""))

    def _sync(self, since: int, wait: float) -> dict[str, Any]:
        if since:
            self.changed.wait_for(lambda: len(self.events) >= since or not self.open, wait)
        new = self.events[max(0, since - 1) :]
        invited = [event for event in new if event["type"] == "m.room.member"]
        timeline = {"events": [event for event in new if event not in invited], "limited": False, "prev_batch": "p"}
        joined: dict[str, Any] = {"timeline": timeline, "state": {"events": []}, "ephemeral": {"events": []}}
        rooms: dict[str, Any] = {"join": {ROOM: {**joined, "account_data": {"events": []}}}}
        if invited:
            rooms["invite"] = {ROOM: {"invite_state": {"events": invited}}}
        return {"next_batch": str(len(self.events) + 1), "rooms": rooms}


@contextmanager
def serving(port: int = 0) -> Generator[Homeserver]:
    """The server, while this is open."""
    home = Homeserver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            status, body = home.answer(
                self.command, parts.path, parse_qs(parts.query), json.loads(data) if data else {}
            )
            told = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)
            except OSError:
                self.close_connection = True  # whoever asked is gone

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    home.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield home
    finally:
        home.close()
        server.shutdown()
        server.server_close()
        thread.join()
