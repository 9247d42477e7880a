"""A server on this machine that speaks as much of Telegram's Bot API as a bot needs, and can be made to misbehave.

Updates are kept until they are confirmed by a higher offset, as the real one does; so a bot that dies gets them again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "4242:secret-token-of-the-test"
BOT_ID = 4242
BOT_NAME = "outlast_test_bot"


@dataclass
class Sent:
    """A message of the bot, as its chat shows it now."""

    message_id: int
    chat: int
    text: str
    markup: dict[str, Any] | None
    thread: int | None
    html: bool
    edits: int = 0


@dataclass
class Fault:
    """What happens to the next call of a method: a status, or the answer is lost after the work was done."""

    method: str
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict[str, Any])
    lost: bool = False


class BotApi:
    """One bot and everybody who talks to it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.updates: list[dict[str, Any]] = []
        self.sent: list[Sent] = []
        self.actions = 0
        self.answered: list[str] = []
        self.faults: list[Fault] = []
        self.offsets: list[int] = []
        self.redeliver = 0
        self._update_id, self._message_id = 1000, 0
        self._open = True
        self.url = ""

    # --- people

    def say(
        self,
        text: str | None,
        *,
        user: int = 1001,
        chat: int | None = None,
        name: str = "Somebody",
        more: dict[str, Any] | None = None,
    ) -> int:
        """Somebody writes; the id of the update. `more` are other fields of the message."""
        with self.changed:
            self._message_id += 1
            place = chat if chat is not None else user
            kind = "private" if place > 0 else "supergroup"
            message = {
                "message_id": self._message_id,
                "date": int(time.time()),
                "chat": {"id": place, "type": kind, "first_name": name, "title": "A group"},
                "from": {"id": user, "is_bot": False, "first_name": name, "username": name.lower()},
                **({"text": text} if text is not None else {}),
                **(more or {}),
            }
            return self._put({"message": message})

    def press(self, sent: Sent, data: str, *, user: int = 1001) -> int:
        """Somebody presses a button under a message of the bot."""
        with self.changed:
            kind = "private" if sent.chat > 0 else "supergroup"
            message = {
                "message_id": sent.message_id,
                "date": int(time.time()),
                "chat": {"id": sent.chat, "type": kind},
                "text": sent.text,
            }
            query = {
                "id": f"q{self._update_id}",
                "from": {"id": user, "is_bot": False, "first_name": "Somebody"},
                "message": message,
                "chat_instance": "1",
                "data": data,
            }
            return self._put({"callback_query": query})

    def _put(self, update: dict[str, Any]) -> int:
        self._update_id += 1
        self.updates.append({"update_id": self._update_id, **update})
        self.changed.notify_all()
        return self._update_id

    # --- looking

    def texts(self, chat: int = 1001) -> list[str]:
        return [sent.text for sent in self.sent if sent.chat == chat]

    def wait(self, true: Callable[[], bool], seconds: float = 20.0) -> None:
        with self.changed:
            assert self.changed.wait_for(true, seconds), f"waited in vain; the last messages are {self.sent[-6:]}"

    # --- the methods of the API

    def call(self, method: str, values: dict[str, Any]) -> Any:
        with self.changed:
            do: Callable[[dict[str, Any]], Any] | None = getattr(self, f"do_{method}", None)
            done = do(values) if do is not None else True
            self.changed.notify_all()
            return done

    def do_getMe(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"id": BOT_ID, "is_bot": True, "first_name": "Outlast", "username": BOT_NAME}

    def do_getUpdates(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        offset = int(values.get("offset", 0))
        self.offsets.append(offset)
        if self.redeliver > 0:
            self.redeliver -= 1
        else:
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
        wait = min(float(values.get("timeout", 0)), 5.0)
        self.changed.wait_for(lambda: bool(self.updates) or not self._open, wait)
        return self.updates[:100]

    def do_sendMessage(self, values: dict[str, Any]) -> dict[str, Any]:
        self._message_id += 1
        sent = Sent(
            message_id=self._message_id,
            chat=int(values["chat_id"]),
            text=values["text"],
            markup=json.loads(values["reply_markup"]) if "reply_markup" in values else None,
            thread=int(values["message_thread_id"]) if "message_thread_id" in values else None,
            html=values.get("parse_mode") == "HTML",
        )
        self.sent.append(sent)
        return _message(sent)

    def do_editMessageText(self, values: dict[str, Any]) -> dict[str, Any]:
        [sent] = [one for one in self.sent if one.message_id == int(values["message_id"])]
        markup = json.loads(values["reply_markup"]) if "reply_markup" in values else None
        if (sent.text, sent.markup) == (values["text"], markup):
            raise Refused(400, "Bad Request: message is not modified")
        sent.text, sent.markup, sent.edits = values["text"], markup, sent.edits + 1
        return _message(sent)

    def do_sendChatAction(self, values: dict[str, Any]) -> bool:
        self.actions += 1
        return True

    def do_answerCallbackQuery(self, values: dict[str, Any]) -> bool:
        self.answered.append(values["callback_query_id"])
        return True

    # --- serving

    def take_fault(self, method: str) -> Fault | None:
        with self.changed:
            for fault in self.faults:
                if fault.method == method:
                    self.faults.remove(fault)
                    return fault
        return None

    def close(self) -> None:
        with self.changed:
            self._open = False
            self.changed.notify_all()


class Refused(Exception):
    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status


def _message(sent: Sent) -> dict[str, Any]:
    chat = {"id": sent.chat, "type": "private" if sent.chat > 0 else "supergroup"}
    return {"message_id": sent.message_id, "date": int(time.time()), "chat": chat, "text": sent.text}


@contextmanager
def serving(port: int = 0) -> Generator[BotApi]:
    """The server, while this is open."""
    api = BotApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            data = self.rfile.read(length)
            if len(data) < length:
                self.close_connection = True  # whoever asked died in the middle of it
                return
            body = data.decode()
            bot, _, method = urlsplit(self.path).path.removeprefix("/").partition("/")
            if bot != f"bot{TOKEN}":
                self.answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
                return
            values = {name: found[0] for name, found in parse_qs(body).items()}
            fault = api.take_fault(method)
            if fault is not None and not fault.lost:
                self.answer(fault.status, {"ok": False, "error_code": fault.status, **fault.body})
                return
            try:
                result = api.call(method, values)
            except Refused as refused:
                told = {"ok": False, "error_code": refused.status, "description": str(refused)}
                self.answer(refused.status, told)
                return
            if fault is not None:
                self.close_connection = True
                self.connection.close()
                return
            self.answer(200, {"ok": True, "result": result})

        def answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # whoever asked is gone

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.close()
        server.shutdown()
        server.server_close()
        thread.join()
