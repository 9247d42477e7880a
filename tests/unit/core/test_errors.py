"""Every error has a message with its cause and its remedy, and the values that callers read."""

import pytest

from outlast.core import errors
from outlast.core.errors import (
    AmbiguousSession,
    ContextOverflow,
    DamagedSession,
    KeyUsed,
    MissingExtra,
    ModelUnavailable,
    OutcomeUnknown,
    OutlastError,
    SessionEnded,
    StoreUnavailable,
    ToolsUnsupported,
)

PLAIN = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, OutlastError) and "__init__" not in vars(kind)
]


@pytest.mark.parametrize("kind", [kind for kind in PLAIN if kind is not KeyUsed])
def test_an_error_without_a_message_says_its_docstring(kind: type[OutlastError]) -> None:
    assert str(kind()) == (kind.__doc__ or "").strip() != ""
    assert str(kind("cause; remedy")) == "cause; remedy"


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    error = MissingExtra("postgres", "a PostgreSQL store")
    assert str(error) == "a PostgreSQL store needs an optional part: pip install 'outlast[postgres]'"
    assert error.extra == "postgres"


def test_an_ambiguous_prefix_names_all_sessions_that_it_fits() -> None:
    error = AmbiguousSession("abc", ["abc1", "abc2"])
    assert str(error) == "'abc' fits 2 sessions: abc1, abc2; type more characters"
    assert (error.prefix, error.matches, error.exit_code) == ("abc", ["abc1", "abc2"], 3)


def test_damage_names_the_event_if_it_is_known() -> None:
    known, unknown = DamagedSession("s", 7, "the hash is wrong"), DamagedSession("s", None, "no rows")
    assert "session s is damaged at event 7: the hash is wrong; `outlast verify`" in str(known)
    assert "session s is damaged: no rows; " in str(unknown)
    assert (known.session_id, known.seq, known.what) == ("s", 7, "the hash is wrong")


def test_an_unknown_outcome_carries_the_key_to_repeat_the_write_with() -> None:
    error = OutcomeUnknown("the connection broke", key="k")
    assert str(error).startswith("the connection broke; repeat the same write with key=error.key")
    assert (error.key, error.told) == ("k", "the connection broke")
    assert OutcomeUnknown().told == "it is not known whether this was stored"


def test_a_models_errors_carry_the_providers_status() -> None:
    error = ModelUnavailable(status=503, retry_after=2.5)
    assert (str(error), error.status, error.retry_after) == (
        "the model cannot be reached just now; try again later",
        503,
        2.5,
    )
    assert ContextOverflow("too long", status=400).status == 400
    refused = ToolsUnsupported(status=400)
    assert (str(refused), refused.told) == (
        "the server does not support tools for this model; use --dialect text",
        "the server does not support tools for this model",
    )


def test_a_used_key_names_where_it_was_used() -> None:
    error = KeyUsed("the key stands for another message", session_id="s", seq=4)
    assert (str(error), error.session_id, error.seq, error.exit_code) == (
        "the key stands for another message",
        "s",
        4,
        4,
    )


def test_refusals_that_another_process_causes_have_exit_code_four() -> None:
    assert (SessionEnded.exit_code, StoreUnavailable.exit_code) == (4, 1)
