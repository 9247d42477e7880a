"""What is said to the server: over HTTP, and in a chat."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from measuring.served import PICTURE, SECRET, Receiver, Server, events_in
from measuring.world import World, call, said, until

WAITS = "until [ -e go ]; do sleep 0.02; done; rm go; echo went on"


def configure(world: World, receiver: Receiver) -> str:
    """Write the settings of the gateway, one webhook with an owner; return the model that answers."""
    model = world.script(
        "chat",
        said("Hello to you."),
        call("bash", command=WAITS),
        said("It went on."),
        call("bash", command="rm -f other.txt"),
        said("It stays."),
    )
    table = {
        "platform": "webhook",
        "secret": SECRET,
        "callback_url": receiver.url,
        "project": str(world.project),
        "permission_mode": "workspace-write",
    }
    lines = "".join(f'{name} = "{value}"\n' for name, value in table.items())
    config = world.home / "config.toml"
    config.write_text(f'[gateway.ci]\nowners = ["me"]\nmembers = ["guest"]\nedit_seconds = 0\n{lines}')
    config.chmod(0o600)
    return model


def over_http(world: World, server: Server) -> None:
    """Do everything that the API offers."""
    _talk(world, server)
    _questions(world, server)
    _steering(world, server)
    _life(world, server)


def _talk(world: World, server: Server) -> None:
    """Post messages, with a key, twice, with a picture, with a large text; follow the stream; ask again."""
    model = world.script("http", said("First answer."), said("Second answer."), said("A picture."), said("Long."))
    session = server.create("http", model, title="Over HTTP", persona_name="reviewer")
    first = server.post(session, "hello", key="m-1")
    world.show("stream", server.stream(session, "TurnEnded"))
    server.until_idle(session)
    world.show("the same message", server.post(session, "hello", key="m-1") == first)
    server.post(session, "other words", key="m-1")
    server.post(session, "and now?")
    server.until_idle(session)
    server.post(session, "look at this", attachments=[{"data": PICTURE, "name": "dot.png"}])
    server.until_idle(session)
    server.post(session, "a large text: " + "many words " * 12_000)
    server.until_idle(session)
    server.shown("no content", "POST", f"/api/sessions/{session}/messages", {"content": ""})
    retried = server.create("retried", world.script("retried", said("One way."), said("Another way.")))
    server.post(retried, "tell me")
    server.until_idle(retried)
    server.shown("retry", "POST", f"/api/sessions/{retried}/retry")
    server.until_idle(retried)


def _questions(world: World, server: Server) -> None:
    """Answer questions over HTTP: once, for the session, no, and in words."""
    calls = [call("bash", command=f"rm -f gone{number}.txt") for number in range(3)]
    model = world.script("asking", *calls, call("ask_user", question="Which one?"), said("You chose."))
    session = server.create("asking", model)
    server.shown("lower", "PATCH", f"/api/sessions/{session}", {"permission_mode": "workspace-write"})
    server.post(session, "remove them")
    for answer in ("once", "session", "deny", "the second one"):
        asked = server.asked(session)
        world.show("question", asked)
        body = {"approval_id": asked["approval_id"], "answer": answer, "call_digest": asked["call_digest"]}
        server.shown(f"answer {answer}", "POST", f"/api/sessions/{session}/approvals", body)
        until(lambda seen=asked: _next_question(server, session, seen), "the next question")
    server.until_idle(session)
    server.shown("too late", "POST", f"/api/sessions/{session}/approvals", body)


def _next_question(server: Server, session: str, seen: Any) -> bool:
    open_now = server.api("GET", f"/api/sessions/{session}/approvals")
    return not any(one["approval_id"] == seen["approval_id"] for one in open_now)


def _steering(world: World, server: Server) -> None:
    """Steer a running turn, ask it for a boundary, interrupt it in a command, and interrupt it in a reply."""
    model = world.script("steered", call("bash", command=WAITS), said("Steered."), said("Queued."))
    session = server.create("http steered", model)
    server.post(session, "wait for me")
    server.until_kind(session, "ToolProcessSpawned")
    server.post(session, "be quick", delivery="steer")
    server.post(session, "and this later", delivery="queue")
    (world.project / "go").touch()
    server.until_idle(session)
    cleared = server.create("requested", world.script("requested", call("bash", command=WAITS), said("Done.")))
    server.post(cleared, "wait again")
    server.until_kind(cleared, "ToolProcessSpawned")
    server.shown("requested", "POST", f"/api/sessions/{cleared}/clear")
    (world.project / "go").touch()
    server.until_idle(cleared)
    stopped = server.create("stopped", world.script("stopped", call("bash", command="sleep 600"), said("So be it.")))
    server.post(stopped, "sleep")
    server.until_kind(stopped, "ToolProcessSpawned")
    server.shown("interrupt", "POST", f"/api/sessions/{stopped}/interrupt", {"reason": "enough"})
    server.until_idle(stopped)
    server.post(stopped, "and then?")
    server.until_idle(stopped)
    slow = server.create("stopped in a reply", world.script("slow", said("x", delay_ms=600_000)))
    server.post(slow, "think")
    server.until_kind(slow, "ModelRequested")
    server.shown("interrupt a reply", "POST", f"/api/sessions/{slow}/interrupt")
    server.until_idle(slow)
    server.shown("nothing to interrupt", "POST", f"/api/sessions/{slow}/interrupt")


def _life(world: World, server: Server) -> None:
    """Change, fork, clear, rewind, compact, end, archive and delete over HTTP."""
    session = world.sessions["http"]
    path = f"/api/sessions/{session}"
    other = world.script("other", *[said(f"Other {number}.") for number in range(8)])
    server.shown("change", "PATCH", path, {"title": "Changed", "model": other, "persona": "default-interactive"})
    server.shown("plan mode", "PATCH", path, {"plan_mode": True})
    server.shown("no plan mode", "PATCH", path, {"plan_mode": False})
    server.shown("unknown field", "PATCH", path, {"colour": "red"})
    world.named("http fork", server.shown("fork", "POST", f"{path}/fork", {"title": "A fork"})["session_id"])
    world.named("http fork at", server.shown("fork at", "POST", f"{path}/fork", {"at": 8})["session_id"])
    server.shown("compact", "POST", f"{path}/compact", {"instructions": "short"})
    server.shown("uncompact", "POST", f"{path}/uncompact")
    seqs = [one["seq"] for one in server.api("GET", path)["messages"] if one["role"] == "assistant"]
    server.shown("rewind", "POST", f"{path}/rewind", {"seq": seqs[0]})
    server.shown("unrewind", "POST", f"{path}/unrewind")
    server.shown("nothing to undo", "POST", f"{path}/unrewind")
    fork = world.sessions["http fork"]
    server.shown("clear", "POST", f"/api/sessions/{fork}/clear")
    server.post(fork, "after the clear")
    server.until_idle(fork)
    for verb in ("end", "end", "reopen", "archive", "unarchive", "end"):
        server.shown(f"http {verb}", "POST", f"/api/sessions/{fork}/{verb}")
    server.post(fork, "too late")
    gone = server.shown("fork to delete", "POST", f"{path}/fork")["session_id"]
    server.shown("delete", "DELETE", f"/api/sessions/{gone}")
    server.shown("deleted", "GET", f"/api/sessions/{gone}")


def in_a_chat(world: World, server: Server, receiver: Receiver) -> None:
    """Say things through the webhook, and wait each time until the answer was delivered."""
    chat = Chat(world, server, receiver)
    first = world.named("chat", chat.say("m1", text="hello"))
    chat.say("m2", text="/status")
    chat.say("q1", by="DeliveryMade", text="wait for it")
    chat.say("a1", text="/approve")
    with chat.hearing("the command went on", first):
        (world.project / "go").touch()
    chat.say("q2", by="DeliveryMade", text="remove it")
    with chat.hearing("the question is denied", first):
        body = {"approval_id": server.asked(first)["approval_id"], "answer": "deny"}
        server.shown("deny", "POST", f"/api/sessions/{first}/approvals", body)
    server.webhook("m1", text="hello")
    server.webhook("s1", text="hello", user="stranger")
    chat.say("m3", text="/nothing")
    second = world.named("chat after /new", chat.say("m4", text="/new"))
    chat.say("m5", text="hello again")
    chat.say("m6", text=f"/resume {first}")
    world.named("group", chat.say("g1", text="hello", user="guest", chat="group", private=False))
    for session in (first, second):
        chat.settle(session, "DeliveryClosed")


class Chat:
    """A sender of messages through the webhook."""

    def __init__(self, world: World, server: Server, receiver: Receiver) -> None:
        self._world = world
        self._server = server
        self._receiver = receiver

    def say(self, message_id: str, *, by: str = "DeliveryClosed", **message: Any) -> str:
        """Say something, wait for the delivery and until it is on record; the session's id."""
        before = len(self._receiver.got)
        session: str = self._server.webhook(message_id, **message)["session_id"]
        self._hear(f"delivered for {message_id}", session, before, by)
        return session

    @contextmanager
    def hearing(self, what: str, session: str) -> Generator[None]:
        """Wait for the delivery that comes of what is done inside."""
        before = len(self._receiver.got)
        yield
        self._hear(what, session, before, "DeliveryClosed")

    def _hear(self, what: str, session: str, before: int, by: str) -> None:
        until(lambda: len(self._receiver.got) > before, f"a delivery: {what}")
        self.settle(session, by)
        self._world.show(what, self._receiver.got[before:])

    def settle(self, session: str, by: str) -> None:
        """Wait until each delivery that was begun is made, or closed. A question's is closed by its answer."""

        def settled() -> bool:
            path = f"/api/sessions/{session}/events?limit=1000&kinds=DeliveryBegun,{by}"
            found = events_in(self._server.api("GET", path))
            begun, done = (
                {one["body"]["of_seq"] for one in found if one["kind"] == kind} for kind in ("DeliveryBegun", by)
            )
            return begun <= done

        until(settled, f"the deliveries of {session} are settled")


def looked_at(world: World, server: Server, sessions: dict[str, str]) -> None:
    """Keep what the API shows of every session and of all together."""
    for label, session in sessions.items():
        path = f"/api/sessions/{session}"
        for view in ("?all=true", "/timeline", "/ledger", "/prompts", "/usage", "/tree", "/approvals"):
            server.shown(f"HTTP {label} {view}", "GET", path + view)
        world.show(f"markdown {label}", server.raw("GET", f"{path}/export?format=md&redact=false")[1].splitlines())
    server.shown("HTTP list", "GET", "/api/sessions?limit=200")
    server.shown("HTTP archived", "GET", "/api/sessions?limit=200&state=archived")
    for words in ("notes", "cli.txt", "segment"):
        server.shown(f"search {words}", "GET", f"/api/search?q={quote(words)}")
    server.shown("stats", "GET", "/api/stats")
