"""Documents for people: nothing in them is code for a browser, and known secrets stay at home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest

from outlast.app.sessions.detail import SessionDetailView
from outlast.app.sessions.session_list import summary_of
from outlast.app.transfer.html import html
from outlast.app.transfer.markdown import markdown
from outlast.core.header import Header
from outlast.core.messages import ImagePart, Message, Role, TextPart, ToolCall, ToolResult
from outlast.core.text import fenced

Make = Callable[..., Iterator[str]]
KEY = "ghp_" + "a1B2" * 9
EVIL = "<script>alert(1)</script> <img src=x onerror=alert(2)> </pre><style>*{}</style> \x1b[31m \u202e &amp; \ud800"


def found(*messages: Message, title: str = "A title") -> SessionDetailView:
    header = Header(session_id="a" * 26, title=title, message_count=len(messages))
    return SessionDetailView(session=summary_of(header), messages=list(messages))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def test_html_holds_every_character_as_text_and_nothing_that_runs() -> None:
    call = ToolCall(id="c", name=EVIL, arguments={"command": EVIL, EVIL: [EVIL]})
    messages = [
        Message(role=Role.USER, content=EVIL),
        Message(role=Role.ASSISTANT, parts=(TextPart(EVIL), call)),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="c", content=EVIL, name="bash"),)),
        Message(role=Role.USER, parts=(TextPart("see"), ImagePart(media_type=EVIL, alt=EVIL, data=b"x"))),
    ]
    page = "".join(html(found(*messages, title=EVIL)))
    seen = parsed(page)
    assert not {"script", "img", "iframe", "object", "link", "form", "a"} & set(seen.tags)
    assert seen.tags.count("style") == 1
    assert not {name for name in seen.attributes if name.startswith("on") or name == "src"}
    assert "default-src &#x27;none&#x27;" in page
    assert "<script>alert(1)</script>" in seen.text
    assert not {"\x1b", "\u202e"} & set(page)
    page.encode("utf-8")


@pytest.mark.parametrize("make", [html, markdown])
def test_secrets_are_redacted_unless_it_is_asked_otherwise(make: Make) -> None:
    call = ToolCall(
        id="c", name="bash", arguments={"command": f"curl -H 'Authorization: Bearer {KEY}'", "token": "hunter22"}
    )
    session = found(
        Message(role=Role.USER, content=f"my key is {KEY}"), Message(role=Role.ASSISTANT, tool_calls=[call])
    )
    page = "".join(make(session))
    assert KEY not in page
    assert "hunter22" not in page
    assert "redacted GitHub token" in page
    assert KEY in "".join(make(session, redact=False))


@pytest.mark.parametrize("make", [html, markdown])
def test_archived_summaries_and_broken_off_replies_are_marked(make: Make) -> None:
    messages = [
        Message(role=Role.USER, content="old", archived=True, seq=2, at=0),
        Message(role=Role.SYSTEM, content="sum", is_summary=True, seq=3, at=0),
        Message(role=Role.ASSISTANT, content="half", interrupted=True, seq=4, at=0),
    ]
    page = "".join(make(found(*messages)))
    assert all(mark in page for mark in ("archived", "summary", "interrupted"))


def test_a_fence_holds_whatever_is_inside() -> None:
    block = fenced("a\n````\nb").splitlines()
    assert block[0] == block[-1] == "`````"


def test_headings_and_tags_of_a_message_do_not_become_ours() -> None:
    text = "# not ours\n<b>x</b>\n```\n# comment <b>\n```\n"
    page = "".join(markdown(found(Message(role=Role.USER, content=text))))
    assert "\\# not ours" in page
    assert "&lt;b>x" in page
    assert "# comment <b>" in page
