"""What a provider's failure means."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic_ai import exceptions as x

from outlast.core.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ToolsUnsupported
from outlast.models.errors import RequestedModel, explained, seconds, wants_turns

KEY = "sk-very-secret-0123456789"
ASKED = RequestedModel("openai:gpt", "OPENAI_API_KEY", None, (KEY,))


def http(status: int, body: object = None, **headers: str) -> ModelError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return explained(x.ModelHTTPError(status, "gpt", body, headers=named), ASKED)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_passing_faults_may_be_asked_again(status: int) -> None:
    error = http(status, {"error": {"message": "later"}})
    assert type(error) is ModelUnavailable
    assert error.status == status
    assert "later" in str(error)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 422])
def test_other_refusals_are_final(status: int) -> None:
    error = http(status, {"error": {"message": "no"}})
    assert type(error) is ModelRefused
    assert error.status == status


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "the request exceeds the available context size, try increasing it",
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "Please reduce the length of the messages or completion.",
        "Input is too long for requested model.",
        "Too many tokens: the total exceeds the limit",
    ],
)
def test_a_window_that_is_too_large_is_told_apart_whatever_the_provider_calls_it(text: str) -> None:
    assert type(http(400, {"error": {"message": text}})) is ContextOverflow


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m",
        "max_new_tokens exceeds the limit",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    ],
)
def test_a_reply_asked_for_too_long_is_no_overflow(text: str) -> None:
    assert type(http(400, {"error": {"message": text}})) is ModelRefused


def test_a_body_that_is_too_large_is_an_overflow_too() -> None:
    body = {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}
    assert type(http(413, body)) is ContextOverflow


def test_a_word_about_context_in_another_status_is_no_overflow() -> None:
    assert type(http(500, {"error": {"message": "context length exceeded"}})) is ModelUnavailable


def test_a_refused_key_names_its_variable_and_never_the_key() -> None:
    error = http(401, {"error": {"message": f"Incorrect API key provided: {KEY}. Also sk-proj-abcdefgh12345678"}})
    assert "OPENAI_API_KEY" in str(error)
    assert "secret" not in str(error)
    assert "abcdefgh" not in str(error)


def test_an_unknown_model_names_itself_and_the_command_that_lists_models() -> None:
    error = http(404, {"error": {"message": "The model `gpt` does not exist"}})
    assert "'gpt'" in str(error)
    assert "outlast models" in str(error)


def test_used_up_credit_is_final() -> None:
    category = x.ModelHTTPError.for_category(
        x.ModelQuotaExceededError, status_code=429, model_name="gpt", body={"message": "insufficient_quota"}
    )
    assert type(explained(category, ASKED)) is ModelRefused


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250"}, 0.25),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wait_a_provider_asks_for_is_kept(headers: dict[str, str], wait: float | None) -> None:
    error = http(429, None, **headers)
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == wait


def test_a_wait_may_be_a_date() -> None:
    then = datetime.now(UTC) + timedelta(seconds=30)
    assert seconds(format_datetime(then, usegmt=True)) == pytest.approx(30, abs=2)
    assert seconds("Mon, 01 Jan 2001 00:00:00 GMT") == 0


@pytest.mark.parametrize(
    "error",
    [
        x.ModelConnectionError("gpt", "connection refused"),
        x.ModelTimeoutError("gpt", "timed out"),
        x.ModelAPIError("gpt", "Streamed response ended"),
        x.UnexpectedModelBehavior("no body"),
        ConnectionResetError("reset"),
        TimeoutError(),
    ],
)
def test_a_network_that_fails_may_be_asked_again(error: Exception) -> None:
    assert type(explained(error, ASKED)) is ModelUnavailable


def test_a_request_that_pydantic_ai_does_not_send_is_final() -> None:
    assert type(explained(x.UserError("no such content"), ASKED)) is ModelRefused


def test_the_text_of_an_error_is_short_and_on_one_line() -> None:
    error = http(500, {"error": {"message": "line\n" * 500}})
    assert "\n" not in str(error)
    assert len(str(error)) < 500


def test_servers_that_want_turns_are_recognised() -> None:
    jinja = "Conversation roles must alternate user/assistant/user/assistant/..."
    assert wants_turns(x.ModelHTTPError(500, "m", {"error": {"message": jinja}}))
    assert not wants_turns(x.ModelHTTPError(500, "m", {"error": {"message": "other"}}))


def with_tools(status: int, body: object) -> ModelError:
    return explained(x.ModelHTTPError(status, "gpt", body), ASKED, with_tools=True)


NO_TOOLS = [
    (500, {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}),
    (400, {"error": {"message": "registry.ollama.ai/library/gemma3:4b does not support tools"}}),
    (400, {"error": "smollm2:135m does not support tools"}),
    (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}),
    (404, {"error": {"message": "No endpoints found that support tool use. To learn more visit ...", "code": 404}}),
    (400, {"error": {"message": "tools is not supported in this model. For a list of supported models, refer to ..."}}),
    (400, {"error": {"message": "Function calling is not enabled for models/gemma-3-27b-it"}}),
    (400, {"message": "This model doesn't support tool use."}),
    (400, {"error": {"message": "deepseek-reasoner does not support Function Calling"}}),
    (400, {"error": {"message": "`tool calling` is not supported with this model"}}),
    (422, {"detail": "Unrecognized request argument supplied: tools"}),
    (501, {"error": "tools param is not fully supported yet"}),
    (
        400,
        {"error": {"message": "Provider returned error", "metadata": {"raw": "features function calling not support"}}},
    ),
]


@pytest.mark.parametrize(("status", "body"), NO_TOOLS)
def test_a_server_that_takes_no_tools_is_recognised(status: int, body: object) -> None:
    error = with_tools(status, body)
    assert type(error) is ToolsUnsupported
    assert "--dialect text" in str(error)
    assert type(http(status, body)) is not ToolsUnsupported  # the request had no tools


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Invalid schema for function 'bash': 'format' is not supported"),
        (400, "tools.0.custom.input_schema: this keyword is not supported"),
        (400, "tools[3].function.parameters: additionalProperties is not supported"),
        (400, "parallel_tool_calls is not supported with this model"),
        (400, "this model does not support images"),
        (429, "too many requests; tools are not supported on the free tier"),
        (503, "overloaded"),
    ],
)
def test_another_refusal_is_none_of_tools(status: int, text: str) -> None:
    assert type(with_tools(status, {"error": {"message": text}})) is not ToolsUnsupported
