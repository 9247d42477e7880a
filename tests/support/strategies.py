"""Hypothesis strategies for whatever a session may be told: any text, any arguments, any part, any event.

Shared by the tests of core and of the stores; events of every kind are made from the types of their fields, so a new
kind is covered on the day it is added.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import UNSET

from outlast.core import events as e
from outlast.core.messages import FilePart, ImagePart, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult, Usage

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
COUNTS = st.integers(min_value=0, max_value=2**40)
SEQS = st.integers(min_value=1, max_value=500)

AWKWARD_TEXTS = (
    "",
    "\0",
    "a\0b",
    "\ud800",
    "\udfff tail",
    "\ud83d\ude00",  # a pair written as two surrogates is not the character it looks like
    "😀",
    "e\u0301\u0301\u0301",
    "\u202eabc\u202c",
    "\ufeff",
    "\u2028\u2029",
    '"$b64"',
    '{"$b64":"YQ=="}',
    "\\ud800",
    "\x7f\x85",
)


@cache
def any_text(max_size: int = 60) -> st.SearchStrategy[str]:
    """Any Python text: lone surrogates, NUL, astral, combining, right-to-left; once in a while over 64 KiB."""
    short = st.text(st.characters(exclude_categories=()), max_size=max_size)
    usual = st.one_of(short, st.sampled_from(AWKWARD_TEXTS), st.text(max_size=max_size))
    return st.integers(1, 40).flatmap(lambda n: long_text() if n == 40 else usual)


@cache
def long_text() -> st.SearchStrategy[str]:
    """Texts around and past the size at which they leave the event for a blob."""
    piece = st.sampled_from(("x", "é", "😀", "\ud800", "\0", '"', "\u0301"))
    size = st.sampled_from((21_845, 65_535, 65_536, 65_537, 70_000))
    return st.tuples(piece, size).map(lambda pair: pair[0] * pair[1])


@cache
def keys() -> st.SearchStrategy[str]:
    """Keys of tool arguments, also those that look like the codec's own."""
    own = st.sampled_from(("$", "$$", "$b64", "$blob", "$bytes", "$b64:YQ==", "$$b64", "as", "size", "type", "$\ud800"))
    return st.one_of(own, st.text(st.characters(exclude_categories=()), max_size=4))


@cache
def json_values() -> st.SearchStrategy[Any]:
    """Nested values that JSON can hold, and bytes."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    plain = st.one_of(st.none() | st.booleans(), INT64, finite, _little_text(), st.binary(max_size=8))
    return st.recursive(
        plain,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys(), inner, max_size=3)),
        max_leaves=5,
    )


@cache
def _little_text() -> st.SearchStrategy[str]:
    return st.one_of(st.text(st.characters(exclude_categories=()), max_size=12), st.sampled_from(AWKWARD_TEXTS))


@cache
def arguments() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(keys(), json_values(), max_size=3)


CALL_IDS = st.sampled_from(("a", "b", "c", "call_1", ""))
"""Few, so that they repeat."""


@cache
def parts() -> st.SearchStrategy[Part]:
    text = _little_text()
    optional = st.none() | text
    return st.one_of(
        st.builds(TextPart, text),
        st.builds(ReasoningPart, text, optional, st.sampled_from((None, "anthropic", "openai")), st.booleans()),
        st.builds(ToolCall, CALL_IDS | text, text, arguments(), optional, optional),
        st.builds(ToolResult, CALL_IDS | text, text, st.booleans(), optional),
        st.builds(ImagePart, text, st.binary(max_size=200), optional, optional),
        st.builds(FilePart, text, text, st.binary(max_size=200)),
    )


@cache
def usages() -> st.SearchStrategy[Usage]:
    return st.builds(
        Usage, input_tokens=COUNTS, output_tokens=COUNTS, cache_read_tokens=COUNTS, cost_micros=st.none() | COUNTS
    )


@cache
def events(*kinds: type[e.Event]) -> st.SearchStrategy[e.Event]:
    """Events of these kinds, or of any."""
    return st.one_of(*(events_of(kind) for kind in kinds or e.KINDS.values()))


@cache
def events_of(kind: type[e.Event]) -> st.SearchStrategy[e.Event]:
    """Events of one kind, each field filled by its type or, where it has a default, left alone."""
    hints = get_type_hints(kind)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        filled = _by_type(hints[field.name])
        fields[field.name] = filled if field.required else st.one_of(st.just(UNSET), filled)
    return st.fixed_dictionaries(fields).map(lambda values: _built(kind, values))


def _built(kind: type[e.Event], values: Mapping[str, Any]) -> e.Event:
    return kind(**{name: value for name, value in values.items() if value is not UNSET})


_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: any_text(),
    int: INT64,
    bool: st.booleans(),
    Usage: usages(),
    Role: st.sampled_from(Role),
    e.Delivery: st.sampled_from(e.Delivery),
    e.EffectClass: st.sampled_from(e.EffectClass),
    dict[str, Any]: arguments(),
    dict[str, int]: st.dictionaries(keys(), INT64, max_size=3),
    dict[str, str]: st.dictionaries(keys(), any_text(), max_size=3),
    list[int]: st.lists(INT64, max_size=4),
    tuple[Part, ...]: st.lists(parts(), max_size=3).map(tuple),
    tuple[e.UserWords, ...]: st.lists(st.builds(e.UserWords, seq=INT64, text=any_text()), max_size=3).map(tuple),
}


def _by_type(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _BY_TYPE:
        return _BY_TYPE[hint]
    options = [option for option in get_args(hint) if option is not type(None)]
    assert get_origin(hint) is not None, f"tests/support/strategies.py has no strategy for {hint}"
    return st.one_of(st.none(), *(_by_type(option) for option in options))


def examples(count: int) -> settings:
    """Return the settings of a property test: `count` examples in `make soak`, a quarter of them in `make test`."""
    return settings(max_examples=count if os.environ.get("OUTLAST_SOAK") == "1" else max(50, count // 4))
