"""No input is forgotten, and many that wait stay small."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.inbox import DETAILED, Inbox, PendingInput


def test_inputs_wait_in_the_order_of_their_admission() -> None:
    inbox = filled(range(1, 200))
    assert inbox.seqs() == list(range(1, 200))
    assert inbox.oldest() == 1
    assert len(inbox.inputs) == DETAILED


def filled(seqs: range) -> Inbox:
    inbox = Inbox()
    for seq in seqs:
        inbox.admit(PendingInput(seq=seq, excerpt=f"input {seq}"))
    return inbox


def test_a_hundred_thousand_waiting_inputs_fit_in_a_few_kilobytes() -> None:
    assert len(msgspec.json.encode(filled(range(1, 100_000)))) < 8192


SEQS = st.one_of(st.sets(st.integers(1, 300), max_size=10), st.sets(st.integers(1, 300), min_size=80, max_size=200))
"""Few, and more than are kept in detail."""


@given(SEQS, st.lists(st.lists(st.integers(1, 310), max_size=90), max_size=5))
def test_what_waits_is_what_was_admitted_and_not_answered(admitted: set[int], answers: list[list[int]]) -> None:
    inbox, expected = Inbox(), set[int]()
    for seq in sorted(admitted):
        inbox.admit(PendingInput(seq=seq))
        expected.add(seq)
    for answered in answers:
        inbox.answer(answered)
        expected -= set(answered)
    assert inbox.seqs() == sorted(expected)
    assert inbox.oldest() == min(expected, default=0)


@given(SEQS, SEQS)
def test_only_what_is_carried_waits_in_a_fork(admitted: set[int], carried: set[int]) -> None:
    inbox = Inbox()
    for seq in sorted(admitted):
        inbox.admit(PendingInput(seq=seq, excerpt="x"))
    inbox.keep(carried)
    assert inbox.seqs() == sorted(carried)


def test_an_input_that_its_turn_did_not_answer_waits_again() -> None:
    inbox = filled(range(1, 3))
    inbox.promote([2])
    assert [item.promoted for item in inbox.inputs] == [False, True]
    inbox.demote_all()
    assert [item.promoted for item in inbox.inputs] == [False, False]
