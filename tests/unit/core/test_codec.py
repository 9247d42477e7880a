"""Any text and any arguments come back as they went in; what cannot is refused by the name of its field."""

import hashlib
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.core import codec
from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.messages import ImagePart, Role, TextPart, ToolCall
from tests.support.strategies import any_text, arguments, events, examples, long_text

SOAK = 100_000
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def through(event: e.Event) -> e.Event | e.Opaque:
    """The event as it is read after it was written."""
    kind, v, body, blobs = codec.encode(event)
    return codec.decode(kind, v, body, blobs.__getitem__)


def said(text: str) -> e.MessageAppended:
    return e.MessageAppended(role=Role.USER, parts=(TextPart(text),))


def called(values: dict[Any, Any]) -> e.ToolCallStarted:
    return e.ToolCallStarted(call_id="c1", name="bash", arguments=values)


def alike(a: Any, b: Any) -> bool:
    """Equal and of the same types: 1, 1.0 and True are equal, but not the same argument."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        one, other = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(a, list):
        some, others = cast("list[Any]", a), cast("list[Any]", b)
        return len(some) == len(others) and all(map(alike, some, others))
    return repr(a) == repr(b)


def check_text(text: str) -> None:
    assert through(said(text)) == said(text)


def check_arguments(values: dict[str, Any]) -> None:
    again = through(called(values))
    assert isinstance(again, e.ToolCallStarted)
    assert alike(again.arguments, values)


def check_event(event: e.Event) -> None:
    written = codec.encode(event)
    again = codec.decode(*written[:3], written.blobs.__getitem__)
    assert again == event
    assert isinstance(again, e.Event)
    assert codec.encode(again) == written
    assert codec.blobs_named(written.body) == set(written.blobs)


@examples(600)
@given(any_text())
def test_any_text_comes_back_equal(text: str) -> None:
    check_text(text)


@examples(500)
@given(arguments())
def test_any_arguments_come_back_equal_and_of_the_same_types(values: dict[str, Any]) -> None:
    check_arguments(values)


@examples(200)
@given(events())
def test_an_event_of_any_kind_comes_back_equal_and_is_written_again_as_the_same_bytes(event: e.Event) -> None:
    check_event(event)


@pytest.mark.soak
@settings(max_examples=SOAK)
@given(any_text())
def test_a_hundred_thousand_texts_come_back_equal(text: str) -> None:
    check_text(text)


@pytest.mark.soak
@settings(max_examples=SOAK)
@given(arguments())
def test_a_hundred_thousand_arguments_come_back_equal(values: dict[str, Any]) -> None:
    check_arguments(values)


@pytest.mark.soak
@settings(max_examples=SOAK)
@given(events())
def test_a_hundred_thousand_events_come_back_equal(event: e.Event) -> None:
    check_event(event)


@examples(300)
@given(events(e.MessageAppended, e.InputAdmitted) | any_text().map(said))
def test_the_short_way_to_write_a_message_gives_the_bytes_of_the_long_way(event: e.Event) -> None:
    kind = type(event).__name__
    walked = codec._encoder.encode(codec._written(codec._plain(event, kind), kind, 0, {}))
    assert codec.encode(event).body == walked


# --- how it is written -------------------------------------------------------------------------------------------


def test_the_same_content_is_always_the_same_bytes() -> None:
    assert codec.encode(called({"b": 1, "a": 2})).body == codec.encode(called({"a": 2, "b": 1})).body


def test_a_lone_surrogate_is_written_as_base64_of_its_bytes() -> None:
    assert codec.encode(said("a\ud800")).body == b'{"parts":[{"text":{"$b64":"Ye2ggA=="},"type":"text"}],"role":"user"}'


def test_a_key_that_begins_with_a_dollar_is_escaped() -> None:
    assert b'"arguments":{"$$b64":"x"}' in codec.encode(called({"$b64": "x"})).body


@given(long_text())
def test_a_text_of_64_kib_or_more_lies_in_a_blob_named_by_its_digest(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    expected = {hashlib.sha256(data).hexdigest(): data} if len(data) >= codec.BLOB_FROM else {}
    assert codec.encode(said(text)).blobs == expected


def test_large_bytes_lie_in_a_blob() -> None:
    event = e.MessageAppended(role=Role.USER, parts=(ImagePart("image/png", b"\x89PNG" * 20_000),))
    assert [len(data) for data in codec.encode(event).blobs.values()] == [80_000]
    assert through(event) == event


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_by_name(number: float) -> None:
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.x\[1\] is not a finite number"):
        codec.encode(called({"x": [0, number]}))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused_by_name(number: int) -> None:
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.n is a number beyond 64 bits"):
        codec.encode(called({"n": number}))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_64_levels_are_stored_and_one_more_is_refused_by_name() -> None:
    deepest = called({"x": nested(codec.MAX_DEPTH - 2)})
    assert through(deepest) == deepest
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.x(\[0\])+.* is nested deeper than 64 levels"):
        codec.encode(called({"x": nested(codec.MAX_DEPTH - 1)}))


def test_nesting_past_what_python_can_walk_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.x(\[0\])+.* is nested deeper than 64 levels"):
        codec.encode(called({"x": nested(100_000)}))


def test_a_value_that_holds_itself_is_refused_by_name() -> None:
    values: dict[str, Any] = {}
    values["again"] = values
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments(\.again)+.* is nested deeper"):
        codec.encode(called(values))


@pytest.mark.parametrize("key", [1, None, 1.5, True, (1, 2)])
def test_a_key_that_is_not_text_is_refused_by_name(key: object) -> None:
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.inner has a key that is not text"):
        codec.encode(called({"inner": {key: 1, "b": 2}}))


@pytest.mark.parametrize("value", [object(), bytearray(b"x"), memoryview(b"x"), 1j])
def test_a_value_that_json_has_no_word_for_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.x\[1\]"):
        codec.encode(called({"x": [0, value]}))


ODD = [{1}, frozenset({1}), datetime(2026, 1, 2), date(2026, 1, 2), Decimal("1.5"), (1, 2), UUID(int=1), TextPart("t")]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_a_value_that_would_come_back_as_another_is_refused_by_name(value: object) -> None:
    call = ToolCall(id="1", name="t", arguments={"a": {"b": [value]}})
    with pytest.raises(InvalidInput, match=r"MessageAppended\.parts\[0\]\.arguments\.a\.b\[0\] is of type"):
        codec.encode(e.MessageAppended(role=Role.ASSISTANT, parts=(call,)))


def test_a_list_of_parts_is_as_good_as_a_tuple() -> None:
    written = e.MessageAppended(role=Role.USER, parts=cast("Any", [TextPart("ü"), ToolCall(id="1", name="t")]))
    assert isinstance(through(written), e.MessageAppended)


def test_an_event_that_is_too_large_is_refused_by_its_largest_field() -> None:
    values = {str(n): "x" * 60_000 for n in range(80)}
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments is too large to store: 4\d+ bytes"):
        codec.encode(called(values))
    with pytest.raises(InvalidInput, match=r"ToolCallStarted\.arguments\.a\[1\]\.b is too large to store"):
        codec.encode(called({"a": [1, {"b": list(values.values())}]}))


def test_a_blob_that_is_too_large_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_BLOB", 100_000)
    with pytest.raises(InvalidInput, match=r"MessageAppended\.parts\[0\]\.text is too large to store"):
        codec.encode(said("x" * 100_001))


def test_a_refusal_can_be_shown_whatever_the_key_is() -> None:
    with pytest.raises(InvalidInput) as refusal:
        codec.encode(called({"\ud800" * 500: float("nan")}))
    assert len(str(refusal.value).encode("utf-8")) < 2000


# --- what this version does not know -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "v", "body", "why"),
    [
        ("TeaServed", 1, b'{"cups":2}', "unknown kind"),
        ("SessionRenamed", 2, b'{"title":"x"}', "newer version"),
        ("SessionRenamed", 1, b'{"title":"x","colour":"red"}', "colour"),
        ("SessionRenamed", 1, b'{"title":{"$b64":"eA=="},"colour":"red"}', "colour"),
        ("SessionRenamed", 1, b'{"title":{"$gzip":"eA=="}}', "is unknown to this version"),
        ("SessionRenamed", 1, b'{"title":{"$b64":7}}', "unreadable"),
        ("SessionRenamed", 1, b'{"title":{"$b64":"*"}}', "unreadable"),
        ("SessionRenamed", 1, b"{}", "missing"),
        ("SessionRenamed", 1, b'{"title":', "unreadable"),
        ("SessionRenamed", 1, b"\xff\xfe", "unreadable"),
        ("SessionRenamed", 0, b'{"title":"x"}', "SessionRenamed"),
        ("RuntimeStateChanged", 1, b'{"changes":' + b"[" * 5000 + b"]" * 5000 + b"}", ""),
        ("RuntimeStateChanged", 1, b'{"changes":{"$$":' + b"[" * 5000 + b"]" * 5000 + b"}}", ""),
        ("MessageAppended", 1, codec.encode(said("x" * 70_000)).body, "its text lies in a blob"),
    ],
)
def test_what_is_not_known_is_opaque_and_says_why(kind: str, v: int, body: bytes, why: str) -> None:
    kept = bytes(body)
    found = codec.decode(kind, v, body)
    assert isinstance(found, e.Opaque)
    assert (found.kind, found.v) == (kind, v)
    assert why in found.why
    assert body == kept


@given(st.sampled_from(sorted(e.KINDS)) | any_text(8), st.integers(-1, 3), st.binary(max_size=200))
def test_no_bytes_make_decoding_fail(kind: str, v: int, body: bytes) -> None:
    assert isinstance(codec.decode(kind, v, body), e.Event | e.Opaque)


@given(events())
def test_an_unknown_field_makes_any_known_event_opaque(event: e.Event) -> None:
    kind, v, body, blobs = codec.encode(event)
    widened = b'{"~from the future":1' + (b"," if body != b"{}" else b"") + body[1:]
    assert isinstance(codec.decode(kind, v, widened, blobs.__getitem__), e.Opaque)


def test_an_old_version_is_brought_forward_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codec.VERSIONS, "SessionRenamed", 3)
    monkeypatch.setitem(codec.UPCASTERS, ("SessionRenamed", 1), lambda body: {"name": body["old"]})
    monkeypatch.setitem(codec.UPCASTERS, ("SessionRenamed", 2), lambda body: {"title": body["name"] + "!"})
    assert codec.decode("SessionRenamed", 1, b'{"old":"a"}') == e.SessionRenamed(title="a!")
    assert codec.decode("SessionRenamed", 2, b'{"name":{"$b64":"7aCA"}}') == e.SessionRenamed(title="\ud800!")
    assert codec.decode("SessionRenamed", 3, b'{"title":"c"}') == e.SessionRenamed(title="c")
    assert codec.encode(e.SessionRenamed(title="d")).v == 3


def test_a_version_without_an_upcaster_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codec.VERSIONS, "SessionRenamed", 2)
    assert isinstance(codec.decode("SessionRenamed", 1, b'{"title":"x"}'), e.Opaque)


def test_blobs_are_found_in_a_body_that_is_otherwise_unknown() -> None:
    body = b'{"what":[{"$gzip":{"$blob":"abc","as":"tar","size":1}},{"$blob":"def"}]}'
    assert codec.blobs_named(body) == {"abc", "def"}


def test_a_call_whose_arguments_never_became_json_keeps_their_text() -> None:
    call = ToolCall(id="a", name="bash", raw='{"command": "ls')
    event = e.AssistantReplied(attempt_seq=1, parts=(call,))
    assert through(event) == event


def test_a_value_of_the_wrong_type_is_refused_before_it_is_written() -> None:
    with pytest.raises(InvalidInput, match="TurnStarted holds a value of the wrong type: Expected `int`, got `str`"):
        codec.encode(e.TurnStarted(inputs=cast("Any", ["x"])))


def test_a_type_derived_from_text_cannot_be_stored() -> None:
    class Tainted(str):
        __slots__ = ()

    with pytest.raises(InvalidInput, match="SessionRenamed cannot be stored: Encoding objects of type Tainted"):
        codec.encode(e.SessionRenamed(title=Tainted("x")))


def test_a_role_given_as_text_is_stored_as_the_role() -> None:
    event = e.MessageAppended(role=cast("Any", "user"), parts=(TextPart("hi"),))
    assert codec.encode(event) == codec.encode(said("hi"))


def test_short_valid_text_needs_no_blob_and_long_text_of_many_parts_is_stored_all_the_same() -> None:
    assert through(said("hi")) == said("hi")
    assert through(said("\ud800")) == said("\ud800")
    many = e.MessageAppended(role=Role.USER, parts=tuple(TextPart("x" * 5000) for _ in range(10)))
    assert through(many) == many
