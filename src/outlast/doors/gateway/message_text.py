"""Texts sent to a chat: turns, questions, notices.

Untrusted content of a call is shown exactly: every character visible, in a code block that the content cannot close.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from outlast.app.sessions.pending_approvals import command_details
from outlast.core.outbox import DeliveryKind, OpenQuestion, OutboxItem
from outlast.core.text import fenced, show_invisible, visible_line
from outlast.doors.gateway.platform import Button

LONGEST_CALL = 12_000
"""A longer call cannot be read in a chat, so it cannot be approved there."""
ONCE, SESSION, DENY = "once", "session", "deny"
PLAN = "exit_plan"
REPEATED = "↻ Perhaps a repeat: it is not known whether this arrived before."
WORKING = "…"
_OUTCOMES = {
    "completed": "",
    "stopped": "⏹ Stopped",
    "interrupted": "⏹ Stopped.",
    "budget_exhausted": "⏹ Stopped: the budget of this turn is used up.",
    "failed": "⚠️ This did not work",
    "failed_recovery": "⚠️ This was given up",
}
_ANSWERED = {
    ONCE: "✅ Allowed once.",
    SESSION: "✅ Allowed for this session.",
    "always": "✅ Allowed always.",
    DENY: "🚫 Denied.",
    "dropped": "No longer needed.",
}


def told(item: OutboxItem, draft: str = "", *, private: bool = True) -> str:
    """The current text of the item, in Markdown."""
    match item.what:
        case DeliveryKind.TURN:
            return turn_text(item, draft)
        case DeliveryKind.QUESTION:
            return question_text(item, private=private)
        case DeliveryKind.NOTICE | DeliveryKind.REQUEST:
            return "\n\n".join(item.texts)


def turn_text(item: OutboxItem, draft: str) -> str:
    """The replies of a turn; while it runs, also the draft and the current activity."""
    said = [text.strip() for text in item.texts]
    if not item.over:
        said += [draft.strip(), f"_⚙ {item.working} {WORKING}_" if item.working and not draft else ""]
        return "\n\n".join(text for text in said if text)
    if item.outcome != "completed":
        said.append(item.partial.strip())
    note = _OUTCOMES.get(item.outcome or "", f"⚠️ The turn ended: {item.outcome}")
    if item.reason and (note.startswith("⚠️") or item.outcome == "stopped"):
        note = f"{note}: {plain_line(item.reason)}"
    said.append(note)
    return "\n\n".join(text for text in said if text) or "✓ Done."


# --- questions -------------------------------------------------------------------------------------------------------


def question_text(item: OutboxItem, *, private: bool) -> str:
    asked = item.asked
    assert asked is not None
    if asked.name == "ask_user":
        choices = "".join(f"\n- {plain_line(choice)}" for choice in choices_of(asked))
        body = f"❓ {asked.arguments.get('question') or asked.reason or ''}{choices}"
        return f"{body}\n\n➡️ {plain_line(item.answered)}" if item.answered not in {None, "dropped"} else body
    if item.answered:
        return f"{call_text(asked)}\n\n{_ANSWERED.get(item.answered, item.answered)}"
    return f"{call_text(asked)}\n\n{_hint(asked, private)}"


def call_text(asked: OpenQuestion) -> str:
    """The whole call, and why approval is needed."""
    why = f"\n{plain_line(asked.reason)}" if asked.reason else ""
    if asked.name == PLAN:
        return f"📋 **Carry out this plan?**{why}\n\n{fenced(_arguments(asked))}"
    return f"🔐 **Allow {show_invisible(asked.name)}?**{why}\n\n{fenced(_arguments(asked))}"


def _hint(asked: OpenQuestion, private: bool) -> str:
    if not is_readable(asked):
        return "This call is too long to show here. Answer it in the terminal or the page; /deny refuses it."
    if not private:
        return "An owner can answer it in a private chat with me: /approve"
    return "Answer with a button, or with /approve or /deny."


def is_readable(asked: OpenQuestion) -> bool:
    """Whether a chat can show the whole call: a call that is not fully visible is not approved."""
    return len(_arguments(asked)) <= LONGEST_CALL


def _arguments(asked: OpenQuestion) -> str:
    command = asked.arguments.get("command")
    if asked.name == "bash" and isinstance(command, str):
        return show_invisible("\n".join([command, *command_details(asked.arguments, asked.reason)]))
    if asked.name == PLAN:
        return show_invisible(str(asked.arguments.get("plan", "")))
    return show_invisible(json.dumps(asked.arguments, indent=1, ensure_ascii=False, default=str))


def choices_of(asked: OpenQuestion) -> list[str]:
    offered: object = asked.arguments.get("choices")
    return [str(one) for one in cast("list[Any]", offered)] if isinstance(offered, list) else []


def buttons_of(item: OutboxItem, *, private: bool) -> tuple[Button, ...]:
    """Buttons under a question. The data names the question, the call's digest and the answer; who pressed the button,
    where, and whether the question is still open are checked when it is pressed.
    """
    asked, linked = item.asked, item.facts.get("question")
    if private and isinstance(linked, dict):
        return _allowing(cast("dict[str, Any]", linked))
    if asked is None or item.over or not private:
        return ()
    if asked.name == "ask_user":
        return tuple(
            Button(plain_line(choice, 40), pressed(item.of_seq, asked.call_digest, str(n)))
            for n, choice in enumerate(choices_of(asked)[:8])
        )
    return _allowing(linked_question("", item.of_seq, asked))


def linked_question(session_id: str, seq: int, asked: OpenQuestion) -> dict[str, object]:
    """A question as the facts of a notice that shows it."""
    return {
        "session_id": session_id,
        "seq": seq,
        "call_digest": asked.call_digest,
        "readable": is_readable(asked),
    }


def _allowing(question: dict[str, Any]) -> tuple[Button, ...]:
    allow = (("Allow once", ONCE), ("Allow for this session", SESSION)) if question["readable"] else ()
    seq, digest = int(question["seq"]), str(question["call_digest"])
    return tuple(Button(label, pressed(seq, digest, answer)) for label, answer in (*allow, ("Deny", DENY)))


def pressed(seq: int, digest: str, answer: str) -> str:
    return f"q:{seq}:{digest[:16]}:{answer}"


_PRESSED = re.compile(r"q:([0-9]{1,18}):([0-9a-f]{1,16}):([a-z0-9]{1,10})", re.ASCII)


def unpressed(data: str) -> tuple[int, str, str] | None:
    """(question, start of the digest, answer) of a gateway button; None for other data."""
    found = _PRESSED.fullmatch(data)
    return (int(found[1]), found[2], found[3]) if found else None


def plain_line(text: str | None, longest: int = 400) -> str:
    """One line with every character visible, cut if it is too long."""
    return visible_line(text or "", longest)
