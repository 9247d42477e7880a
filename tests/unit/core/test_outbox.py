"""The outbox as a fold: what a chat is owed, after any log."""

from __future__ import annotations

from outlast.core import events as e
from outlast.core.event_row import Actor, StoredEvent
from outlast.core.messages import TextPart
from outlast.core.outbox import DeliveryKind, Outbox

ROUTE, OTHER = "telegram:t:1::", "telegram:t:2::"
GATEWAY = Actor("user", "gateway", "1", ROUTE).text()


class Log:
    """A log in the making, folded into the outbox of one chat."""

    def __init__(self, route: str = ROUTE) -> None:
        self.box = Outbox(route)
        self.seq = 0

    def add(self, *events: e.Event, actor: str = "system", turn: str | None = None) -> int:
        for event in events:
            self.seq += 1
            stored = StoredEvent(
                "s", self.seq, type(event).__name__, 1, self.seq, actor, turn, None, None, "plain", b"", b""
            )
            self.box.take(stored, event)
        return self.seq

    def says(self, text: str, actor: str = GATEWAY) -> int:
        return self.add(e.InputAdmitted(parts=(TextPart(text),), message_id=f"m-{text}"), actor=actor)

    def reply(self, text: str) -> int:
        asked = self.add(e.ModelRequested(model="m"))
        return self.add(e.AssistantReplied(attempt_seq=asked, parts=(TextPart(text),)))


def test_a_turn_that_answers_the_chat_is_owed_to_it() -> None:
    log = Log()
    said = log.says("hi")
    assert log.box.inputs == {said: "m-hi"}
    turn = log.add(e.TurnStarted(inputs=[said]))
    log.reply("one")
    log.reply("two")
    log.add(e.TurnEnded(outcome="completed", answered=[said]))
    item = log.box.items[turn]
    assert (item.what, item.texts, item.over, item.outcome) == (DeliveryKind.TURN, ["one", "two"], True, "completed")
    assert (item.reply_to, item.needs) == ("m-hi", said)
    assert log.box.inputs == {}
    log.add(e.DeliveryClosed(route=ROUTE, of_seq=turn))
    assert log.box.empty


def test_what_came_through_another_door_or_chat_is_not_owed() -> None:
    log = Log()
    for actor in ("user/repl", "user/http/x", Actor("user", "gateway", "2", OTHER).text()):
        said = log.says("hi", actor)
        log.add(e.TurnStarted(inputs=[said]))
        log.reply("answer")
        log.add(e.ApprovalRequested(call_id="c", name="bash", call_digest="d"))
        log.add(e.TurnEnded(outcome="completed", answered=[said]))
        assert log.box.empty


def test_a_message_that_steers_a_turn_of_another_door_is_owed_what_follows() -> None:
    log = Log()
    first = log.says("from the terminal", "user/repl")
    turn = log.add(e.TurnStarted(inputs=[first]))
    log.reply("before")
    said = log.says("from the chat")
    log.add(e.InputPromoted(inputs=[said]))
    log.reply("after")
    assert log.box.items[turn].texts == ["after"]


def test_a_reply_that_broke_off_is_shown_only_if_the_turn_ended_with_it() -> None:
    log = Log()
    said = log.says("hi")
    turn = log.add(e.TurnStarted(inputs=[said]))
    asked = log.add(e.ModelRequested(model="m"))
    log.add(e.ReplyInterrupted(attempt_seq=asked, parts=(TextPart("half"),)))
    assert log.box.items[turn].partial == "half"
    log.reply("whole")
    assert (log.box.items[turn].partial, log.box.items[turn].texts) == ("", ["whole"])


def test_a_question_is_owed_until_it_is_answered_or_its_answer_is_shown() -> None:
    log = Log()
    said = log.says("hi")
    log.add(e.TurnStarted(inputs=[said]))
    asked = log.add(e.ApprovalRequested(call_id="c", name="bash", call_digest="d"))
    assert log.box.items[asked].what is DeliveryKind.QUESTION
    log.add(e.ApprovalAnswered(approval_seq=asked, answer="once"))
    assert asked not in log.box.items, "nobody saw it, so nobody need see the answer"
    again = log.add(e.ApprovalRequested(call_id="c2", name="bash", call_digest="d"))
    log.add(e.DeliveryBegun(route=ROUTE, of_seq=again, by="x"))
    log.add(e.DeliveryMade(route=ROUTE, of_seq=again, message_id="9"))
    log.add(e.ApprovalAnswered(approval_seq=again, answer="deny"))
    item = log.box.items[again]
    assert (item.over, item.answered, item.pieces[1].message_id) == (True, "deny", "9")


def test_questions_of_a_turn_that_ended_are_dropped() -> None:
    log = Log()
    said = log.says("hi")
    log.add(e.TurnStarted(inputs=[said]))
    asked = log.add(e.ApprovalRequested(call_id="c", name="bash", call_digest="d"))
    log.add(e.DeliveryBegun(route=ROUTE, of_seq=asked, by="x"))
    log.add(e.TurnEnded(outcome="interrupted", answered=[said]))
    assert log.box.items[asked].answered == "dropped"


def test_a_rotation_takes_everything_along() -> None:
    log = Log()
    first = log.says("one")
    turn = log.add(e.TurnStarted(inputs=[first]))
    log.reply("answer")
    log.add(e.TurnEnded(outcome="completed", answered=[first]))
    waiting = log.says("two")
    log.add(e.SessionForked(base_session_id="p", base_seq=waiting, reason="rotate", carried_inputs=[waiting]))
    assert list(log.box.items) == [turn]
    assert list(log.box.inputs) == [waiting]


def test_a_copy_owes_nothing_of_what_it_inherits() -> None:
    log = Log()
    said = log.says("one")
    log.add(e.TurnStarted(inputs=[said]))
    log.reply("answer")
    log.add(e.SessionForked(base_session_id="p", base_seq=4))
    assert log.box.empty


def test_a_request_is_owed_its_outcome() -> None:
    for outcome, told in (
        (e.Compacted(summary="s", first_kept_seq=1, tokens_before=9000, tokens_after=100), "9,000"),
        (e.RuntimeStateChanged(changes={"boundary_refused": {"what": "compact", "why": "too short"}}), "too short"),
    ):
        log = Log()
        asked = log.add(e.BoundaryRequested(what="compact"), actor=GATEWAY)
        assert not log.box.items[asked].over
        log.add(outcome)
        assert log.box.items[asked].over
        assert told in log.box.items[asked].texts[0]


def test_a_notice_for_another_chat_or_without_text_is_nobodys() -> None:
    log = Log()
    log.add(e.NoticePosted(route=OTHER, text="x"), e.NoticePosted(route=ROUTE, text=""))
    assert log.box.empty
    seq = log.add(e.NoticePosted(route=ROUTE, text="hello", reply_to="7"))
    assert log.box.items[seq].texts == ["hello"]


def test_what_is_settled_is_before_everything_that_is_open() -> None:
    log = Log()
    notice = log.add(e.NoticePosted(route=ROUTE, text="a"))
    said = log.says("hi")
    assert log.box.settled_seq == notice - 1
    log.add(e.DeliveryClosed(route=ROUTE, of_seq=notice))
    assert log.box.settled_seq == said - 1
    turn = log.add(e.TurnStarted(inputs=[said]))
    log.add(e.TurnEnded(outcome="completed", answered=[said]))
    assert log.box.settled_seq == said - 1, "the turn's item needs its input"
    last = log.add(e.DeliveryClosed(route=ROUTE, of_seq=turn))
    assert log.box.settled_seq == last


def test_a_withdrawn_message_is_not_waited_for() -> None:
    log = Log()
    said = log.says("hi")
    log.add(e.InputWithdrawn(inputs=[said]))
    assert log.box.empty


def test_the_running_tool_is_named_while_it_runs_and_an_empty_reply_says_nothing() -> None:
    log = Log()
    said = log.says("hi")
    turn = log.add(e.TurnStarted(inputs=[said]))
    item = log.box.turn_item
    assert item is not None
    assert item is log.box.items[turn]
    log.add(e.ToolCallStarted(call_id="c", name="bash"))
    assert item.working == "bash"
    log.add(e.ToolCallFinished(call_id="c", name="bash", parts=()))
    assert item.working is None
    log.reply("  ")
    log.add(e.TimelineRecorded(entry={}))
    assert item.texts == []


def test_a_request_of_another_door_is_not_owed() -> None:
    log = Log()
    log.add(e.BoundaryRequested(what="compact"), actor="user/repl")
    assert log.box.empty


def test_old_outputs_that_were_left_out_are_told_as_such_and_told_once() -> None:
    log = Log()
    notice = log.add(e.NoticePosted(route=ROUTE, text="hello"))
    asked = log.add(e.BoundaryRequested(what="compact"), actor=GATEWAY)
    pruned = e.Compacted(summary="", first_kept_seq=1, tokens_before=9000, tokens_after=100, summarised=False)
    log.add(pruned)
    assert log.box.items[asked].texts == ["Old tool outputs are left out now: about 9,000 tokens became 100."]
    log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=5, tokens_after=1))
    assert "9,000" in log.box.items[asked].texts[0], "a later compaction does not answer it again"
    assert log.box.items[notice].texts == ["hello"]


def test_an_answer_or_a_delivery_for_no_open_item_changes_nothing() -> None:
    log = Log()
    log.add(e.ApprovalAnswered(approval_seq=99, answer="once"), e.DeliveryClosed(route=ROUTE, of_seq=99))
    log.add(e.DeliveryClosed(route=OTHER, of_seq=1))
    assert log.box.empty


def test_a_piece_that_was_made_without_being_begun_is_known_too() -> None:
    log = Log()
    notice = log.add(e.NoticePosted(route=ROUTE, text="hello"))
    log.add(e.DeliveryMade(route=ROUTE, of_seq=notice, message_id="9"))
    assert log.box.items[notice].pieces[1].message_id == "9"
