"""The text dialect end to end: a server that refuses tools, a model that only writes text, a process that is killed."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from outlast.core import events as e
from outlast.session import ConversationSession
from outlast.store.read.decode import decode_events
from tests.acceptance.chat_server import ChatServer, HttpError
from tests.support.terminal import Place

CALLS = 50
KILLED_AT = 25
pytestmark = pytest.mark.timeout(300)


class TextOnlyServer:
    """Refuses tools and tool messages, as a server without tool support does. Its model has no memory but the request:
    it squares the numbers from 1 to 50 with the shell, one a call, and adds up what it was told."""

    def __init__(self) -> None:
        self.asked = Event()
        self.released = Event()

    def __call__(self, body: dict[str, Any]) -> str | HttpError:
        if body.get("tools"):
            return HttpError(400, "registry.ollama.ai/library/m:1b does not support tools")
        messages = body["messages"]
        if any(message["role"] == "tool" or message.get("tool_calls") for message in messages):
            return HttpError(400, "unknown role")
        texts = [_text(message["content"]) for message in messages]
        done = sum(
            len(re.findall(r"^Action: bash$", text, re.M))
            for m, text in zip(messages, texts, strict=True)
            if m["role"] == "assistant"
        )
        if done == KILLED_AT and not self.released.is_set():
            self.asked.set()
            self.released.wait(120)
        if done < CALLS:
            n = done + 1
            return (
                f'Number {n}.\nAction: bash\nAction Input: {{"command": "echo {n} >> log; echo square $(({n}*{n}))"}}'
            )
        seen = [
            re.findall(r"^square (\d+)$", text, re.M)
            for m, text in zip(messages, texts, strict=True)
            if m["role"] == "user" and text.startswith("Observation of bash:")
        ]
        return f"The sum is {sum(int(number) for found in seen for number in found)}."


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@pytest.mark.slow
def test_fifty_text_calls_are_carried_out_once_although_the_process_is_killed_in_the_middle(tmp_path: Path) -> None:
    place, answers = Place(tmp_path), TextOnlyServer()
    with ChatServer(answers) as server:
        words = ["-p", "--model", "openai:m", "--base-url", server.url, "--allow", "bash", "--max-steps", "99"]
        running = place.start(*words, "Add up the squares of 1 to 50.")
        assert answers.asked.wait(120), running.communicate(timeout=5)
        running.kill()
        running.communicate(timeout=20)
        assert (place.project / "log").read_text().split() == [str(n) for n in range(1, KILLED_AT + 1)]
        answers.released.set()
        done = place.run(*words, "-c", timeout=240)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"The sum is {sum(n * n for n in range(1, CALLS + 1))}.\n"
        assert (place.project / "log").read_text().split() == [str(n) for n in range(1, CALLS + 1)]
        refused = [body for body in server.bodies if body.get("tools")]
        assert len(refused) == 1  # the resumed process stays in the text dialect
        assert len(server.bodies) == 1 + CALLS + 1 + 1  # the refused one, a reply for each call, the killed one again
        assert not any("tool-calling interface" in str(body) for body in server.bodies)
    with place.store() as store:
        [header] = ConversationSession.list(project_root=place.project, store=store)
        rows = [event for _, event in decode_events(store, store.read(header.session_id))]
    started = [event for event in rows if isinstance(event, e.ToolCallStarted)]
    assert len(started) == len({event.call_id for event in started}) == CALLS
    [ended] = [event for event in rows if isinstance(event, e.TurnEnded)]
    assert ended.outcome == "completed"


def test_forced_native_says_how_to_go_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ChatServer(TextOnlyServer()) as server:
        done = place.run("-p", "go", "--model", "openai:m", "--base-url", server.url, "--dialect", "native")
    assert done.returncode == 1
    assert done.stderr.count("does not support tools") == 1
    assert "use --dialect text" in done.stderr


def test_the_text_dialect_can_be_asked_for(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ChatServer(lambda body: "Hello." if not body.get("tools") else HttpError(400, "no")) as server:
        words = ("-p", "go", "--model", "openai:m", "--base-url", server.url)
        assert place.run(*words, "--dialect", "text").stdout == "Hello.\n"
        assert len(server.bodies) == 1
        assert "Action Input:" in str(server.bodies[0]["messages"][0])
        refused = place.run(*words, "--dialect", "morse")
    assert refused.returncode == 2
    assert "morse" in refused.stderr
