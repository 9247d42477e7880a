"""Structural summary: a summary of messages made without a model. Deterministic, short, never fails.

Compaction uses it for a session without a model, and when a model's summary fails. It contains text of users and
assistants, and names of files and tools, but never tool output. It carries the content of an earlier summary forward.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from outlast.core.messages import Message, Role, TextPart
from outlast.core.state import SessionState
from outlast.core.text import one_line
from outlast.core.window import SUMMARY_MARK
from outlast.runtime.permissions.call_paths import named_paths

KEY_FILES, TOP_TOOLS, REQUESTS, FACTS, PENDING = 6, 5, 3, 2, 3
_PATH_ARGUMENTS = ("file_path", "path", "notebook_path", "filename")
_PATH = re.compile(r"(?<![\w./~-])(?:[\w.~-]+/)*[\w.-]*\w\.[A-Za-z]\w{0,7}(?![\w/])")
_OPEN = re.compile(r"\b(todo|pending|remaining|still (?:to|have to|need)|follow[- ]up|not yet)\b", re.IGNORECASE)
_NEXT = re.compile(r"\b(next|i(?:'ll| will)|let me|then i)\b", re.IGNORECASE)
_SURE = re.compile(r"\b(confirmed|verified|passed|passes|succeeded|works now|fixed)\b", re.IGNORECASE)
_SCOPE = re.compile(r"Scope: (\d+) earlier messages? \(user (\d+), assistant (\d+), tool (\d+)\)")


class SummaryBudget(msgspec.Struct, frozen=True):
    chars: int = 1200
    lines: int = 24
    line: int = 160


BUDGET = SummaryBudget()
NOTES = SummaryBudget(12_000, 400, 2_000)
EARLIER, NOTED = "Earlier: ", "Noted before: "


class KnownFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from the workflow, which are more reliable than the text of the messages."""

    task: str | None = None
    pending: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    next_step: str | None = None


NOTHING_KNOWN = KnownFacts()


def known(state: SessionState) -> KnownFacts:
    """Return what the folded state says about the work: task, open items, passed checks."""
    done: Mapping[str, Any] = state.definition_of_done or {}
    pending = tuple(_texts(done.get("pending_items")))
    evidence = (item for item in _dicts(done.get("evidence")) if item.get("passed") and item.get("command"))
    return KnownFacts(
        task=_text(state.runtime.get("current_task")) or _text(done.get("task_statement")),
        pending=pending,
        facts=tuple(f"`{item['command']}` passed" for item in evidence)[-FACTS:],
        next_step=pending[0] if pending else None,
    )


def structural_summary(
    messages: Sequence[Message],
    *,
    earlier: str = "",
    known: KnownFacts = NOTHING_KNOWN,
    budget: SummaryBudget = BUDGET,
    notes: SummaryBudget = NOTES,
) -> str:
    """Summarise these messages. Up to a third of the budget is reserved for an earlier structural summary; notes from
    an earlier model summary are kept in addition, within the budget `notes`."""
    earlier = earlier.removeprefix(SUMMARY_MARK).strip()
    noted, carried = _noted(earlier), _carried(earlier)
    held_back = min(sum(len(line.text) + 1 for line in carried), budget.chars // 3)
    lines = list(_lines(messages, earlier, known))
    new = _fitted(lines, SummaryBudget(budget.chars - held_back, budget.lines - bool(held_back), budget.line))
    left = SummaryBudget(budget.chars - sum(len(line) + 1 for line in new), budget.lines - len(new), budget.line)
    said = {line.casefold() for line in new}
    old = _fitted([line for line in carried if line.text.removeprefix(EARLIER).casefold() not in said], left)
    return "\n".join([*new, *old, *_fitted(noted, notes)])


class _SummaryLine(NamedTuple):
    rank: int
    text: str


def _lines(messages: Sequence[Message], earlier: str, known: KnownFacts) -> Iterator[_SummaryLine]:
    said = [message for message in messages if not message.is_summary]
    spoken = list(_spoken(said))
    yield _SummaryLine(0, _scope(said, earlier))
    work = known.task or next((text for role, text in reversed(spoken) if role is Role.ASSISTANT), None)
    work = work or next((text for _, text in reversed(spoken)), None)
    if work:
        yield _SummaryLine(0, f"Current work: {work}")
    yield from (
        _SummaryLine(1, f"Pending work: {text}") for text in (known.pending or _found(spoken, _OPEN))[-PENDING:]
    )
    if files := _files(said):
        yield _SummaryLine(0, f"Key files: {', '.join(files)}")
    calls = Counter(call.name for message in said for call in message.tool_calls)
    if calls:
        yield _SummaryLine(1, f"Tools: {', '.join(f'{name} {count}' for name, count in calls.most_common(TOP_TOOLS))}")
    requests = [text for role, text in spoken if role is Role.USER]
    yield from (_SummaryLine(1, f"Recent request: {text}") for text in requests[-REQUESTS:])
    yield from (_SummaryLine(1, f"Confirmed fact: {text}") for text in (known.facts or _found(spoken, _SURE))[-FACTS:])
    step = known.next_step or next(iter(reversed(_found(spoken, _NEXT, Role.ASSISTANT))), None)
    if step:
        yield _SummaryLine(0, f"Preferred next step: {step}")
    yield _SummaryLine(2, _counts(said))


def _scope(said: Sequence[Message], earlier: str) -> str:
    before = _SCOPE.search(earlier)
    counted = [len(said), *(sum(message.role is role for message in said) for role in _COUNTED)]
    total = [new + int(old) for new, old in zip(counted, before.groups() if before else "0000", strict=True)]
    noun = "message" if total[0] == 1 else "messages"
    return f"Scope: {total[0]} earlier {noun} (user {total[1]}, assistant {total[2]}, tool {total[3]})"


_COUNTED = (Role.USER, Role.ASSISTANT, Role.TOOL)


def _counts(said: Sequence[Message]) -> str:
    results = [result for message in said for result in message.tool_results]
    calls, failed = sum(len(message.tool_calls) for message in said), sum(result.is_error for result in results)
    return f"Counts: {calls} tool calls, {len(results)} results, {failed} failed"


def _spoken(said: Iterable[Message]) -> Iterator[tuple[Role, str]]:
    """Yield the text of user and assistant messages, each as one line."""
    for message in said:
        if message.role in {Role.USER, Role.ASSISTANT}:
            text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
            if line := one_line(text):
                yield message.role, line


def _found(spoken: list[tuple[Role, str]], pattern: re.Pattern[str], by: Role | None = None) -> tuple[str, ...]:
    """Return the sentences that match the pattern, oldest first, without duplicates."""
    sentences = (
        sentence
        for role, text in spoken
        if by is None or role is by
        for sentence in re.split(r"(?<=[.!?;])\s+", text)
        if pattern.search(sentence)
    )
    return tuple(dict.fromkeys(sentences))


def _files(said: Sequence[Message]) -> list[str]:
    """Return the latest files first; files in tool calls come before files that the text only mentions."""
    touched: dict[str, None] = {}
    spoken: dict[str, None] = {}
    for message in reversed(said):
        for call in reversed(message.tool_calls):
            values = [call.arguments.get(name) for name in _PATH_ARGUMENTS]
            values += named_paths(call.name, call.arguments) if call.name == "apply_patch" else []
            touched.update(
                dict.fromkeys(one_line(value) for value in values if isinstance(value, str) and value.strip())
            )
        if message.role in {Role.USER, Role.ASSISTANT}:
            spoken.update(dict.fromkeys(_PATH.findall(message.content[:20_000])))
    return list({**touched, **spoken})[:KEY_FILES]


# --- earlier summaries ---------------------------------------------------------------------------------------------


def _carried(earlier: str) -> list[_SummaryLine]:
    """Return the lines of an earlier structural summary, each marked once. The new scope line adds the old counts."""
    if not _SCOPE.match(earlier):
        return []
    lines = (line for line in earlier.splitlines() if not line.startswith(("Scope: ", "Counts: ", NOTED)))
    return [_SummaryLine(1, line) if line.startswith(EARLIER) else _SummaryLine(0, EARLIER + line) for line in lines]


def _noted(earlier: str) -> list[_SummaryLine]:
    """Return the lines of an earlier model summary, marked as notes."""
    lines = [line for line in earlier.splitlines() if line.strip()]
    if not _SCOPE.match(earlier):
        return [_SummaryLine(0, NOTED + line) for line in lines]
    return [_SummaryLine(0, line) for line in lines if line.startswith(NOTED)]


# --- budget --------------------------------------------------------------------------------------------------------


def _fitted(lines: list[_SummaryLine], budget: SummaryBudget) -> list[str]:
    """Select lines within the budget by rank, in their original order, without duplicates (ignoring case)."""
    chosen: dict[int, str] = {}
    seen: set[str] = set()
    left = budget.chars
    for n in sorted(range(len(lines)), key=lambda n: lines[n].rank):
        text = shortened(one_line(lines[n].text), budget.line)
        if text.casefold() in seen or len(text) + 1 > left or len(chosen) >= budget.lines:
            continue
        seen.add(text.casefold())
        chosen[n] = text
        left -= len(text) + 1
    return [chosen[n] for n in sorted(chosen)]


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(0, length - 1)].rstrip() + "…"


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
