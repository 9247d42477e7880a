"""The key of a chat's route: byte-stable, readable both ways, and never another chat's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.chat_route import ChatAddress, address_of, debt_key, route_key, route_of_debt, route_prefix
from outlast.core.errors import InvalidInput

FIELD = st.text(max_size=20)

PINNED = {
    ("telegram", "home", ChatAddress("1001"), ""): "telegram:home:1001::",
    ("telegram", "home", ChatAddress("-1001234", "7"), "55"): "telegram:home:-1001234:7:55",
    ("matrix", "work", ChatAddress("!abc:example.org", "$ev:ent"), "@me:example.org"): (
        "matrix:work:!abc%3Aexample.org:$ev%3Aent:@me%3Aexample.org"
    ),
    ("webhook", "ci", ChatAddress("a/b|c", "ü"), ""): "webhook:ci:a%2Fb%7Cc:%C3%BC:",
}


@pytest.mark.parametrize(("fields", "key"), PINNED.items())
def test_a_route_is_spelled_the_same_for_ever(fields: tuple[str, str, ChatAddress, str], key: str) -> None:
    platform, gateway, address, user = fields
    assert route_key(platform, gateway, address, user) == key


@given(FIELD, FIELD, FIELD, FIELD, FIELD)
def test_a_route_tells_its_chat_and_fits_everywhere(
    platform: str, name: str, chat: str, thread: str, user: str
) -> None:
    try:
        key = route_key(platform, name, ChatAddress(chat, thread), user)
    except InvalidInput:
        return
    assert address_of(key) == ChatAddress(chat, thread)
    assert key.isascii()
    assert key.isprintable()
    assert "/" not in key
    assert "|" not in key
    assert len(key) <= 380
    assert key.startswith(route_prefix(platform, name))


@given(st.lists(st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD), min_size=2, max_size=20, unique=True))
def test_two_chats_never_share_a_route(chats: list[tuple[str, str, str, str, str]]) -> None:
    keys = [route_key(p, n, ChatAddress(chat, thread), user) for p, n, chat, thread, user in chats]
    assert len(set(keys)) == len(chats)


def test_a_very_long_user_id_is_told_apart_by_its_digest() -> None:
    one, two = (route_key("matrix", "w", ChatAddress("!r:x"), f"@{'a' * 300}{n}:x") for n in "12")
    assert one != two
    assert len(one) < 380


def test_ids_that_no_route_can_hold_are_refused() -> None:
    with pytest.raises(InvalidInput, match="more than a route can hold"):
        route_key("matrix", "w", ChatAddress("!" + "ü" * 200))


def test_a_debt_names_its_chat() -> None:
    route = route_key("telegram", "home", ChatAddress("1"))
    assert route_of_debt(debt_key(route, "s" * 26)) == route
    assert route_of_debt(route) is None
    assert debt_key(route, "s").startswith(route_prefix("telegram", "home"))


def test_a_route_decodes_to_its_chat_and_thread() -> None:
    address = ChatAddress("!a:b/c", "ü\ud800|")
    assert address_of(route_key("matrix", "w", address, "@me:x")) == address
