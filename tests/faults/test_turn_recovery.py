"""The recovery table: what a new process does with a turn that a dead one left open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Role, open_store
from outlast.core import events as e
from outlast.core.errors import SessionBusy
from outlast.core.fold import folded
from outlast.core.messages import TextPart, text_of
from outlast.runtime import failpoints
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.process_identity import holder
from outlast.store.read.decode import decode_events
from tests.faults.old_events import Past
from tests.faults.recovered import Recovered
from tests.support.agents import only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def past(store: LogStore) -> Past:
    return Past(store)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


# --- inputs and turns


async def test_an_input_that_no_turn_has_read_starts_one_turn(past: Past, project: Path) -> None:
    recovered = Recovered(past, project, "Done.")
    assert await recovered.end() == "Done."
    assert await recovered.agent.resume() == ""
    assert [event.inputs for event in only(recovered.agent, e.TurnStarted)] == [[past.input]]


async def test_a_started_turn_goes_on_as_the_same_turn(past: Past, project: Path) -> None:
    past.turn()
    recovered = Recovered(past, project, "Done.")
    assert await recovered.end() == "Done."
    assert len(only(recovered.agent, e.TurnStarted)) == 1
    assert recovered.said() == ["Do it."]


# --- attempts


async def test_an_open_attempt_without_a_draft_is_closed_and_the_model_is_asked_again(
    past: Past, project: Path
) -> None:
    past.turn()
    seq = past.attempt()
    recovered = Recovered(past, project, "Done.")
    assert await recovered.end() == "Done."
    [broken] = only(recovered.agent, e.ReplyInterrupted)
    assert (broken.attempt_seq, broken.parts) == (seq, ())


async def test_what_is_left_of_a_reply_is_kept_and_never_shown_as_final(past: Past, project: Path) -> None:
    past.turn()
    past.attempt("I will n", "ot be fin")
    recovered = Recovered(past, project, "Done.")
    assert await recovered.end() == "Done."
    [broken] = only(recovered.agent, e.ReplyInterrupted)
    assert text_of(broken.parts) == "I will not be fin"
    assert [message.content for message in recovered.agent.session.history()] == ["Do it.", "Done."]
    assert recovered.said() == ["Do it."]
    assert not any(batch.chunks for batch in past.store.follow(past.session_id, after=broken.attempt_seq, timeout=0))


@pytest.mark.parametrize("verb", ["end", "clear", "rewind"])
async def test_what_is_left_of_a_reply_is_kept_by_whoever_closes_the_turn(past: Past, project: Path, verb: str) -> None:
    past.turn()
    past.attempt("I will n", "ot be fin")
    recovered = Recovered(past, project)
    service, context = recovered.agent.service, recovered.agent._turn_context()
    if verb == "end":
        await service.end(past.session_id, context)
    else:
        assert await service.boundary(past.session_id, verb, {"seq": past.input}, context) == "done"
    [broken] = only(recovered.agent, e.ReplyInterrupted)
    assert text_of(broken.parts) == "I will not be fin"
    recovered.check()


async def test_an_attempt_that_was_closed_is_not_closed_again(past: Past, project: Path) -> None:
    past.turn()
    past.driver(e.ReplyInterrupted(attempt_seq=past.attempt(), reason="overloaded"))
    recovered = Recovered(past, project, "Done.")
    assert await recovered.end() == "Done."
    assert len(only(recovered.agent, e.ReplyInterrupted)) == 1


# --- decisions and compactions


@pytest.mark.parametrize(
    ("decision", "outcome"), [("accept", "completed"), ("complete", "completed"), ("finalize", "stopped")]
)
async def test_a_decision_that_was_made_is_carried_out_without_the_model(
    past: Past, project: Path, decision: str, outcome: str
) -> None:
    past.turn()
    past.reply(TextPart("It is done."))
    past.decided(decision, "because")
    recovered = Recovered(past, project)
    assert await recovered.end() == "It is done."
    [ended] = only(recovered.agent, e.TurnEnded)
    assert (ended.outcome, ended.reason, ended.answered) == (outcome, "because", [past.input])
    assert recovered.backend.requests == []


async def test_a_reply_that_was_not_judged_yet_does_not_hang_the_turn(past: Past, project: Path) -> None:
    past.turn()
    past.reply(TextPart("It is done."))
    recovered = Recovered(past, project, "It is really done.")
    assert await recovered.end() == "It is really done."


async def test_a_decision_to_go_on_is_carried_out(past: Past, project: Path) -> None:
    past.turn()
    past.reply(TextPart("I could begin."))
    past.decided("continue", "premature_completion_nudge")
    past.driver(e.MessageAppended(role=Role.SYSTEM, parts=(TextPart("Go on."),)))
    recovered = Recovered(past, project, "It is done.")
    assert await recovered.end() == "It is done."
    assert "Go on." in [message.content for message in recovered.backend.requests[0].messages][-1]


async def test_a_compaction_without_a_result_is_made_anew_once(past: Past, project: Path) -> None:
    """Nothing was written while the summary was being made; what is too large is found too large again."""
    past.turn()
    for n in range(6):
        past.driver(e.AssistantReplied(attempt_seq=past.attempt(), parts=(TextPart(f"step {n} " + "x" * 200_000),)))
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert len(only(recovered.agent, e.Compacted)) == 1


async def test_a_boundary_that_a_door_asked_for_is_drawn_by_whoever_goes_on(past: Past, project: Path) -> None:
    past.turn()
    past.door(e.BoundaryRequested(what="clear", arguments={}))
    recovered = Recovered(past, project)
    await recovered.end()
    assert len(only(recovered.agent, e.HistoryCleared)) == 1
    assert [event.outcome for event in only(recovered.agent, e.TurnEnded)] == ["interrupted"]


async def test_a_boundary_that_could_not_be_drawn_is_not_tried_again_by_the_next_process(
    past: Past, project: Path
) -> None:
    past.turn()
    past.door(e.BoundaryRequested(what="uncompact", arguments={}))
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert recovered.agent.session.state.runtime["boundary_refused"]["what"] == "uncompact"
    assert folded(decode_events(past.store, past.store.read(past.session_id))).requests == []


# --- another driver


async def test_a_driver_that_another_one_outran_is_told_that_the_session_is_busy(past: Past, project: Path) -> None:
    def racing(context: TurnContext) -> TurnContext:
        facts = context.gate.facts

        def facts_while_another_begins() -> dict[str, Any]:
            if past.store.holder(past.session_id) is None:
                past.taken_over(holder())
                past.turn()
            return facts()

        setattr(context.gate, "facts", facts_while_another_begins)  # noqa: B010 - asked for right before a turn is started
        return context

    recovered = Recovered(past, project, context=racing)
    with pytest.raises(SessionBusy):
        await recovered.agent.resume()
    assert recovered.backend.requests == []


async def test_an_input_that_came_while_the_last_turn_ended_is_answered_by_whoever_ended_it(
    past: Past, project: Path
) -> None:
    """Its door was told that the session is busy, so nobody else will."""

    def late(name: str) -> None:
        if name == "turn.ended":
            failpoints.install(None)
            past.door(e.InputAdmitted(parts=(TextPart("One more thing."),)))

    recovered = Recovered(past, project, "Done.", "That too.")
    failpoints.install(late)
    try:
        assert await recovered.end() == "That too."
    finally:
        failpoints.install(None)
