"""A compaction prunes old tool outputs first: only then, only seen ones, reversibly, and each can be recalled whole."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.core.compacted_view import PRUNED
from outlast.core.fold import Row, fold
from outlast.core.messages import FilePart, ImagePart, Message, Role, TextPart, ToolCall, ToolResult
from outlast.core.state import SessionState, state_from_bytes, state_to_bytes
from outlast.core.window import SUMMARY_MARK, window
from outlast.models.port import Abilities, WindowSource
from outlast.runtime.history.compaction import CompactionSummary, compacted_event, due, structural
from outlast.runtime.history.model_summary import summary_of
from outlast.runtime.history.pruned_outputs import PRUNED_OVER
from outlast.runtime.history.window_tokens import CompactionSettings, limits, request_tokens
from outlast.runtime.session_recall import SessionRecall
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.testing import ScriptedBackend
from outlast.testing.validity import rejections
from tests.support.agents import agent_with, call, only
from tests.support.histories import Log, asked, ended, finished, replied, whole_turn
from tests.support.histories import call as wanted_call

SETTINGS = CompactionSettings(recall=True)
WINDOW = 8_000


def worked(log: Log, steps: int, size: int = 2_000) -> None:
    """Steps of a running turn, each with one output of about `size` characters."""
    for n in range(steps):
        call_id = f"c{len(log.rows)}_{n}"
        log.add(replied(wanted_call(call_id)), finished(call_id, f"{call_id} " * (size // len(call_id))))
        log.add(e.ModelRequested(model="m"))


def rows_needed(log: Log) -> list[Row]:
    """Those that a driver would read."""
    return log.rows[max(0, log.state.read_from - 1) :]


def sent(log: Log) -> list[Message]:
    return window(rows_needed(log), log.state, provider="anthropic", asking=True).messages


def shown(messages: list[Message]) -> list[object]:
    return [(message.role, message.parts) for message in messages]


def results(messages: list[Message]) -> list[str]:
    return [result.content for message in messages for result in message.tool_results]


def compacted(log: Log, context_window: int = WINDOW, settings: CompactionSettings = SETTINGS) -> e.Compacted | None:
    """Compact if it is due; the event."""
    plan = due(rows_needed(log), log.state, settings, context_window=context_window)
    if plan is None:
        return None
    event = compacted_event(plan, structural(plan) if plan.summarised else CompactionSummary(text=""))
    log.add(event)
    return event


def test_old_outputs_are_pruned_without_a_summary_if_that_frees_enough() -> None:
    log = Log()
    asked(log, "look at everything")
    worked(log, 13)
    before = sent(log)
    event = compacted(log)
    assert event is not None
    assert (event.summarised, event.summary, event.words) == (False, "", ())
    after = sent(log)
    assert [message.role for message in after] == [message.role for message in before]
    references = [content for content in results(after) if content.startswith("[output pruned")]
    assert 5 < len(references) == event.facts["pruned"]
    assert results(after)[-1] == results(before)[-1]
    assert request_tokens(after) < limits(SETTINGS, WINDOW).settled
    assert abs(request_tokens(after) - event.tokens_after) < 60
    assert rejections(after, "anthropic") == []


def test_each_reference_names_the_event_that_holds_the_output() -> None:
    log = Log()
    asked(log)
    worked(log, 13)
    assert compacted(log) is not None
    for message in sent(log):
        for result in message.tool_results:
            if result.content.startswith("[output pruned"):
                assert result.content == PRUNED.format(message.seq)
                assert isinstance(log.rows[(message.seq or 0) - 1][1], e.ToolCallFinished)


def test_without_the_recall_tool_nothing_is_pruned() -> None:
    log = Log()
    asked(log)
    worked(log, 13)
    event = compacted(log, settings=CompactionSettings())
    assert event is not None
    assert (event.summarised, event.pruned_upto) == (True, 0)


def test_pruning_that_frees_too_little_is_followed_by_a_summary() -> None:
    log = Log()
    for n in range(24):
        whole_turn(log, f"question {n} " + "x" * 500, "answer " + "y" * 500)
    event = compacted(log)
    assert event is not None
    assert event.summarised
    assert sent(log)[0].content.startswith(SUMMARY_MARK)


def test_outputs_that_the_model_has_not_seen_are_never_pruned() -> None:
    log = Log()
    asked(log)
    worked(log, 6)
    calls = [wanted_call(f"new{n}") for n in range(5)]
    log.add(replied(*calls), *(finished(one.id, "z" * 4_000) for one in calls))
    assert compacted(log) is not None
    assert results(sent(log))[-5:] == ["z" * 4_000] * 5


def test_attachments_of_a_pruned_output_go_too() -> None:
    log = Log()
    asked(log)
    picture = ImagePart("image/png", b"\x89PNG\r\n\x1a\n" + b"x" * 64)
    log.add(
        replied(wanted_call("c1"), wanted_call("c2")),
        e.ToolCallFinished(call_id="c1", name="read", parts=(TextPart("short"), picture)),
        e.ToolCallFinished(call_id="c2", name="read", parts=(FilePart("a.txt", "text/plain", b"y"),)),
        e.ModelRequested(model="m"),
    )
    worked(log, 13)
    assert compacted(log) is not None
    assert not any(isinstance(part, ImagePart | FilePart) for message in sent(log) for part in message.parts)
    assert results(sent(log))[0].startswith("[output pruned: recall(seq=")


def test_undoing_a_pruning_gives_the_identical_window_back_and_the_summary_before_it_stays() -> None:
    log = Log()
    for n in range(30):
        whole_turn(log, f"question {n} " + "x" * 400, "answer " + "y" * 400)
    first = compacted(log)
    assert first is not None
    assert first.summarised
    asked(log, "look at everything")
    worked(log, 10)
    before = shown(sent(log))
    second = compacted(log)
    assert second is not None
    assert not second.summarised
    assert SUMMARY_MARK in sent(log)[0].content
    assert shown(sent(log)) != before
    log.add(e.CompactionUndone(compacted_seq=log.state.view.compacted_at))
    assert shown(sent(log)) == before
    log.add(e.CompactionUndone(compacted_seq=log.state.view.compacted_at))
    assert not sent(log)[0].is_summary


def test_a_rewind_to_before_the_pruning_shows_the_outputs_again() -> None:
    log = Log()
    asked(log)
    worked(log, 13)
    ended(log)
    last, before = log.state.last_seq, results(sent(log))
    log.add(
        e.Compacted(summary="", first_kept_seq=1, tokens_before=9, tokens_after=1, pruned_upto=last, summarised=False)
    )
    assert results(sent(log)) != before
    log.add(e.Rewound(to_seq=last))
    assert results(sent(log)) == before


def test_pruned_views_survive_a_snapshot() -> None:
    log = Log()
    asked(log)
    worked(log, 13)
    assert compacted(log) is not None
    again = state_from_bytes(state_to_bytes(log.state))
    assert again is not None
    assert again.view == log.state.view
    assert shown(window(log.rows, again, asking=True).messages) == shown(
        window(log.rows, log.state, asking=True).messages
    )


@pytest.mark.parametrize("seed", range(4))
def test_over_200_steps_the_window_only_grows_at_its_end_between_compactions(seed: int) -> None:
    """And it never passes the model's window, whatever mix of outputs, answers and questions a session has."""
    chance = random.Random(seed)
    log, state = Log(), SessionState()
    context_window = chance.choice((8_000, 20_000))
    before: list[object] = []
    kinds: list[bool] = []
    asked(log)
    for _ in range(200):
        _step(log, chance)
        event = compacted(log, context_window)
        if event is not None:
            kinds.append(event.summarised)
            before = []
        messages = sent(log)
        now = shown(messages)
        assert now[: len(before)] == before
        assert request_tokens(messages) < context_window
        log.add(e.ModelRequested(model="m"))
        before = now
    assert False in kinds
    for stored, made in log.rows:
        fold(state, stored, made)
    assert state == log.state


def _step(log: Log, chance: random.Random) -> None:
    """The model works; now and then it answers and is asked again."""
    if chance.random() < 0.1:
        log.add(replied(TextPart("done " * chance.randint(1, 200))))
        ended(log)
        asked(log, "next " * chance.randint(1, 200))
        return
    calls = [wanted_call(f"s{len(log.rows)}_{n}") for n in range(chance.randint(1, 3))]
    log.add(replied(TextPart("look"), *calls))
    log.add(*(finished(one.id, "o" * chance.choice((10, 300, 1_500, 3_500))) for one in calls))


# --- a whole agent ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


def rows_of(store: LogStore, session_id: str) -> list[Row]:
    return decode_events(store, store.read(session_id))


async def test_an_agent_goes_on_with_pruned_outputs_and_recalls_every_one_byte_for_byte(
    store: LogStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for n in range(14):
        (project / f"{n}.txt").write_text(f"line of {n} é\n" * 1_200)
    reads = [call("read", f"c{n}", file_path=f"{n}.txt") for n in range(14)]
    model = ScriptedBackend([*reads, "All read."], abilities=Abilities(context_window=60_000, summarises=False))
    agent = agent_with(store, project, backend=model)
    assert await agent.run("Read them all.") == "All read."
    assert {event.summarised for event in only(agent, e.Compacted)} == {False}
    assert len(model.requests) == 15  # no request of its own
    last = model.requests[-1].messages
    pruned = [m for m in last if m.tool_results and m.tool_results[0].content.startswith("[output pruned")]
    assert len(pruned) > 3
    session = SessionRecall(store, agent.session.session_id, agent.session.state)
    originals = {row[0].seq: row[1] for row in rows_of(store, agent.session.session_id)}
    for message in pruned:
        original = originals[message.seq or 0]
        assert isinstance(original, e.ToolCallFinished)
        assert recalled(session, message.seq or 0) == "".join(p.text for p in original.parts if isinstance(p, TextPart))


def recalled(session: SessionRecall, seq: int) -> str:
    pages: list[str] = []
    while True:
        answer = session.answer(None, seq, sum(map(len, pages)))
        head, _, page = answer.text.partition("\n")
        pages.append(page)
        if "shows the next part" not in head:
            return "".join(pages)


async def test_a_pruning_makes_no_model_request_and_a_summary_makes_one() -> None:
    log = Log()
    asked(log)
    worked(log, 13)
    plan = due(log.rows, log.state, SETTINGS, context_window=WINDOW)
    assert plan is not None
    model = ScriptedBackend([])
    assert (await summary_of(plan, model)).text == ""
    assert model.requests == []


def test_small_outputs_stay() -> None:
    log = Log()
    asked(log)
    for n in range(60):
        log.add(replied(TextPart("x" * 300), wanted_call(f"c{n}")), finished(f"c{n}", "o" * PRUNED_OVER))
        log.add(e.ModelRequested(model="m"))
    worked(log, 1)
    event = compacted(log, 8_000)
    assert event is not None
    assert event.summarised
    assert not any(content.startswith("[output pruned") for content in results(sent(log)))


def test_results_that_a_library_appended_are_pruned_too() -> None:
    log = Log()
    asked(log)
    log.add(e.MessageAppended(role=Role.ASSISTANT, parts=(ToolCall(id="a", name="t"),)))
    log.add(e.MessageAppended(role=Role.TOOL, parts=(ToolResult(call_id="a", content="r" * 2_000),)))
    log.add(e.ModelRequested(model="m"))
    worked(log, 13)
    assert compacted(log) is not None
    assert results(sent(log))[0].startswith("[output pruned")


class LateWindow(ScriptedBackend):
    """A model whose server tells the size of the window only when it is waited for."""

    waited = 0

    def settle_window(self) -> None:
        self.waited += 1
        self.abilities = Abilities(context_window=200_000, window_source=WindowSource.PROVIDER, summarises=False)


async def test_only_a_request_that_may_not_fit_waits_for_the_size_of_the_window(
    store: LogStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("line of text\n" * 1_800)
    reads = [call("read", f"c{n}", file_path="a.txt") for n in range(7)]
    unknown = Abilities(window_source=WindowSource.ASSUMED, summarises=False)
    model = LateWindow(["Hello.", *reads, "All read."], abilities=unknown)
    agent = agent_with(store, project, backend=model)
    await agent.run("Hi.")
    assert model.waited == 0
    await agent.run("Read it seven times.")
    assert model.waited == 1
    assert only(agent, e.Compacted) == []
