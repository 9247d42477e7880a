"""A real conversation with a real model in real processes, one of them killed in the middle of an answer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.core import events as e
from outlast.core.messages import Role, text_of
from outlast.models import local
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.store.verify import verify
from outlast.testing.validity import rejections
from tests.conftest import ROOT, everything_is_required
from tests.faults.ledger import turn_problems

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("local-model"),
    pytest.mark.skipif(not local.installed() and not everything_is_required(), reason="needs outlast[local]"),
]
FIRST, SECOND, THIRD = "Hello! Who are you?", "Tell me a long story about the sea.", "Thank you. Say goodbye."


def talking(store: LogStore, project: Path, session: str, *messages: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.acceptance.talker", store.url, str(project), session, *messages]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended"
    return json.loads(line)


def until_drafted(store: LogStore, session_id: str, after: int) -> None:
    """Until the first piece of the next answer is durable."""
    for batch in store.follow(session_id, after=after, timeout=120):
        if any(chunk.data.strip() for chunk in batch.chunks):
            return
    raise AssertionError("no answer came")


def test_a_conversation_of_three_turns_survives_a_kill_in_the_middle_of_the_second_answer(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'log.db'}") as store:
        with talking(store, tmp_path, "new", FIRST, SECOND) as process:
            session_id, first = heard(process), heard(process)
            until_drafted(store, session_id, store.head(session_id).last_seq)
            process.kill()
        with talking(store, tmp_path, session_id, THIRD) as process:
            assert heard(process) == session_id
            second, third = heard(process), heard(process)
            assert process.wait(60) == 0
        _check(store, session_id, [first, second, third])


def _check(store: LogStore, session_id: str, answers: list[str]) -> None:
    assert all(answer.strip() for answer in answers)
    rows = decode_events(store, store.read(session_id))
    assert turn_problems(rows) == []
    assert verify(store).findings == []
    [broken] = [event for _, event in rows if isinstance(event, e.ReplyInterrupted)]
    assert text_of(broken.parts).strip(), "nothing was left of the answer that was killed"
    replies = [text_of(event.parts) for _, event in rows if isinstance(event, e.AssistantReplied)]
    assert replies == answers
    session = ConversationSession.resume(session_id, store=store)
    shown = [message.content for message in session.history()]
    assert shown == [FIRST, answers[0], SECOND, answers[1], THIRD, answers[2]]
    assert [message.role for message in session.messages] == [Role.USER, Role.ASSISTANT] * 3
    assert rejections(session.messages, request=False) == []
