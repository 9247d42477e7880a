"""No history, killed, cancelled, compacted, rewound or forked as it may be, makes a window that a provider refuses."""

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.fold import fold
from outlast.core.messages import Message, Role, TextPart
from outlast.core.state import SessionState
from outlast.core.window import window
from outlast.testing.validity import rejections
from tests.support.histories import Log
from tests.support.random_histories import PROVIDERS, TURNS, WILD, WildPlayer, genuine, wild
from tests.support.strategies import events, examples

HISTORIES = 20_000
SHARES = 4
BOUNDARIES = {"compact", "clear", "rewind", "undo"}
GROWING = tuple(move for move in WILD if move not in {*BOUNDARIES, "redact", "fork"})
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def refused(log: Log, provider: str) -> list[str]:
    seen = window(log.rows, log.state, provider=provider, asking=True).messages
    return rejections(seen, provider, genuine=partial(genuine, provider))


@pytest.mark.slow
# The first share with each change, all four with `make soak`.
@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, SHARES))])
def test_twenty_thousand_histories_make_no_window_that_a_provider_refuses(share: int) -> None:
    spoken = 0
    for seed in range(share, HISTORIES, SHARES):
        log, _ = wild(seed, 5 + seed % 85)
        for provider in PROVIDERS:
            assert refused(log, provider) == [], f"wild({seed}, {5 + seed % 85}) for {provider}"
        spoken += len(log.rows) > 12
    assert spoken > HISTORIES / SHARES / 2


@examples(200)
@given(seed=st.integers(0, 2**32), moves=st.lists(st.sampled_from((*WILD, *TURNS)), max_size=40))
def test_a_history_that_makes_a_bad_window_would_be_shown_at_its_shortest(seed: int, moves: list[str]) -> None:
    log = WildPlayer(random.Random(seed)).play(moves)
    assert [fault for provider in PROVIDERS for fault in refused(log, provider)] == []


@examples(200)
@given(st.lists(events(), max_size=15))
def test_events_in_no_order_at_all_make_no_window_that_a_provider_refuses(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*chaos)
    for provider in PROVIDERS:
        seen = window(log.rows, log.state, provider=provider, asking=True).messages
        assert rejections(seen, provider) == []


def test_a_window_that_is_only_looked_at_differs_in_nothing_but_its_end() -> None:
    for seed in range(500):
        log, provider = wild(seed, 40)
        looked_at = window(log.rows, log.state, provider=provider).messages
        sent = window(log.rows, log.state, provider=provider, asking=True).messages
        assert shown(sent[: len(looked_at)]) == shown(looked_at)
        assert len(sent) - len(looked_at) <= 1
        assert rejections(looked_at, provider, request=False, genuine=partial(genuine, provider)) == []


def test_what_was_sent_is_sent_again_byte_for_byte_until_a_boundary_is_drawn() -> None:
    """Whatever happens between two requests: results that come late, calls that are forgotten, anything."""
    requests = 0
    for seed in range(300):
        player = WildPlayer(random.Random(seed))
        player.play(player.chance.choices((*GROWING, *TURNS * 6), k=90))
        requests += grows_at_its_end(player.log, "anthropic")
    assert requests > 1500


def grows_at_its_end(log: Log, provider: str) -> int:
    """Checks each request of the log against the one before; how many there were."""
    state, before, requests = SessionState(), list[object](), 0
    for n, (stored, event) in enumerate(log.rows):
        if isinstance(event, e.ModelRequested):
            about_to = shown(window(log.rows[:n], state, provider=provider, asking=True).messages)
            assert about_to[: len(before)] == before
            before, requests = about_to, requests + 1
        fold(state, stored, event)
        if isinstance(event, e.ModelRequested):
            assert shown(window(log.rows[: n + 1], state, provider=provider).messages) == before
    return requests


def shown(messages: list[Message]) -> list[object]:
    return [(message.role, message.parts) for message in messages]


def test_every_text_that_a_turn_has_read_is_seen_verbatim() -> None:
    """All of them while no boundary is drawn; those of the running turn also behind a compaction or a clear."""
    read = 0
    for seed in range(1500):
        player = WildPlayer(random.Random(seed))
        moves = (*GROWING, "compact", "clear") if seed % 2 else GROWING
        log = player.play(player.chance.choices((*moves, *TURNS * 3), k=50))
        said = [part for message in seen_by_user(log) for part in message.parts]
        for text in texts_read(log, whole=not seed % 2):
            assert TextPart(text) in said
            read += 1
    assert read > 1000


def seen_by_user(log: Log) -> list[Message]:
    sent = window(log.rows, log.state, provider="openai", asking=True).messages
    return [message for message in sent if message.role is Role.USER]


def texts_read(log: Log, *, whole: bool) -> list[str]:
    inputs = log.state.turn.inputs if log.state.turn else []
    if whole:
        reads = [event.inputs for _, event in log.rows if isinstance(event, e.TurnStarted | e.InputPromoted)]
        inputs = [seq for some in reads for seq in some]
    found = [log.rows[seq - 1][1] for seq in inputs if seq <= len(log.rows)]
    parts = [part for event in found if isinstance(event, e.InputAdmitted) for part in event.parts]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return [text for text in texts if text.strip() and "\ud800" not in text]
