"""Maps failures of providers, SDKs and the network to `outlast.core.errors`, most specific first.

The message is for people: it names the cause and the remedy, is short, and contains no secret. The class decides about
retries: `ModelUnavailable` yes, `ModelRefused` no, `ContextOverflow` with a smaller window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from time import time
from typing import NamedTuple, cast

from pydantic_ai import exceptions as x

from outlast.core.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable, ToolsUnsupported

_OVERFLOW = re.compile(
    r"context.{0,4}(length|window|size)|context_length_exceeded|maximum context|too many (input )?tokens"
    r"|prompt is too long|input is too long|input length and .?max_tokens|exceeds? the (available )?context"
    r"|input token count|number of tokens allowed|reduce the length|maximum (prompt|input) length"
    r"|request_too_large|request (entity )?(is )?too large|payload too large|exceeds the maximum size"
    r"|token limit|tokens? .{0,40}exceed|exceed_context_size|string_above_max_length",
    re.IGNORECASE,
)
"""Phrases with which providers report that a window is too large; few of them have a code for it."""

_OUTPUT = re.compile(r"max_?(completion_|output_|new_)?tokens|(output|completion) tokens", re.IGNORECASE)
_INPUT = re.compile(r"context|input|prompt|messages", re.IGNORECASE)
_ALTERNATE = re.compile(r"roles must alternate|must alternate between|alternat\w+ user", re.IGNORECASE)
_TOOLS = (
    r"(?:(?<!parallel_)(?<!parallel )\btool[ _-]?(?:use|call(?:s|ing)?|choice)\b|\btools\b(?![.\[])"
    r"|\bfunction[ _-]?(?:call(?:s|ing)?|use)\b|\bfunctions\b(?![.\[]))"
)
_NOT_TAKEN = (
    r"(?:not (?:yet |fully |currently )*(?:support|enabled|available|allowed|implemented)|n't support|unsupported"
    r"|no endpoints found that support|requires? --|unrecognized|unknown (?:field|argument|parameter))"
)
_NO_TOOLS = re.compile(rf"{_TOOLS}.{{0,60}}{_NOT_TAKEN}|{_NOT_TAKEN}.{{0,60}}{_TOOLS}", re.IGNORECASE)
"""How servers say that they take no tools: llama.cpp without --jinja (500), Ollama (400), vLLM (400), OpenRouter (404),
and others. No status is theirs alone."""
_SECRET = re.compile(r"\b(sk|pk|rk|gsk|xai|AIza|hf|key)[-_]?[A-Za-z0-9_*.-]{12,}|[Bb]earer\s+\S+")
_LONGEST = 300


class RequestedModel(NamedTuple):
    """The requested model, for error messages; `secrets` must not appear in any of them."""

    model: str
    variable: str | None = None
    where: str | None = None
    secrets: tuple[str, ...] = ()


def explained(error: Exception, asked: RequestedModel, *, with_tools: bool = False) -> ModelError:
    """Convert an error of pydantic-ai, of an SDK or of the network to one of `outlast.core.errors`. `with_tools`: the
    request had tools, so the server may refuse them."""
    text = _said(error, asked.secrets)
    status = error.status_code if isinstance(error, x.ModelHTTPError) else None
    wait = _wait(error)
    if with_tools and isinstance(error, x.ModelHTTPError) and takes_no_tools(error.status_code, f"{text} {error.body}"):
        return ToolsUnsupported(f"{asked.model} takes no tools ({status}: {text})", status=status)
    if isinstance(error, x.ModelContextWindowExceededError) or (status in (400, 413, 422) and _too_large(text)):
        return ContextOverflow(
            f"the context is larger than {asked.model} accepts ({text}); compact the session or choose a larger model",
            status=status,
        )
    if isinstance(error, x.ModelAuthenticationError) or status in (401, 403):
        return ModelRefused(_key_refused(asked, status, text), status=status)
    if isinstance(error, x.ModelNotFoundError) or status == 404:
        return ModelRefused(_not_found(asked, text), status=status)
    if isinstance(error, x.ModelQuotaExceededError) or status == 402:
        return ModelRefused(f"{asked.model}: the account's credit or quota is used up ({text})", status=status)
    if status is not None and not _passing(status):
        return ModelRefused(f"{asked.model} refuses the request ({status}: {text})", status=status)
    if isinstance(error, x.ModelRequestRejectedError | x.UserError | x.ContentFilterError):
        return ModelRefused(f"{asked.model} refuses the request ({text})", status=status)
    if isinstance(error, x.ModelTimeoutError | x.ModelRequestTimeout | TimeoutError):
        return ModelUnavailable(f"{asked.model} did not answer in time ({text})", status=status, retry_after=wait)
    if isinstance(error, x.ModelConnectionError | OSError):
        return ModelUnavailable(f"{_place(asked)} cannot be reached ({text}); check the network", retry_after=wait)
    said = f"{status}: {text}" if status is not None else text
    return ModelUnavailable(f"{asked.model} cannot answer just now ({said})", status=status, retry_after=wait)


def takes_no_tools(status: int, text: str) -> bool:
    """Whether this answer to a request with tools says that the server does not support tools."""
    return status in (400, 404, 405, 422, 500, 501) and _NO_TOOLS.search(text) is not None


def wants_turns(error: Exception) -> bool:
    """Whether the server refused consecutive user messages, as some chat templates do."""
    return isinstance(error, x.ModelAPIError) and _ALTERNATE.search(_body(error)) is not None


def seconds(header: str | None) -> float | None:
    """Parse a `Retry-After` header (seconds or a date) to seconds; None for anything else."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except (TypeError, ValueError):
        return None


def _too_large(text: str) -> bool:
    """Whether the window is too large, and not the requested output."""
    if _OUTPUT.search(text) and not _INPUT.search(text):
        return False
    return _OVERFLOW.search(text) is not None


def _passing(status: int) -> bool:
    return status in (408, 409, 425, 429) or status >= 500


def _wait(error: Exception) -> float | None:
    if not isinstance(error, x.ModelAPIError):
        return None
    headers = (error.headers or {}) if isinstance(error, x.ModelHTTPError) else {}
    millis = headers.get("retry-after-ms")
    if millis is not None and millis.replace(".", "", 1).isdigit():
        return float(millis) / 1000
    found = seconds(headers.get("retry-after"))
    return found if found is not None else error.retry_after


def _key_refused(asked: RequestedModel, status: int | None, text: str) -> str:
    remedy = f"check {asked.variable}" if asked.variable else "check its key"
    return f"{asked.model}: the key was refused ({status or 'no status'}: {text}); {remedy}"


def _not_found(asked: RequestedModel, text: str) -> str:
    name = asked.model.partition(":")[2] or asked.model
    return f"{_place(asked)} has no model '{name}' ({text}); `outlast models` shows what can answer"


def _place(asked: RequestedModel) -> str:
    return asked.where or asked.model.partition(":")[0]


# ---- the provider's own message -------------------------------------------------------------------------------------


def _said(error: Exception, secrets: Iterable[str]) -> str:
    """Return the provider's message: on one line, short, and without a key that it may quote."""
    text = " ".join(_body(error).split()) or type(error).__name__
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _body(error: Exception) -> str:
    if isinstance(error, x.ModelAPIError):
        found = _message_in(error.body)
        if found:
            return found
        if isinstance(error, x.ModelHTTPError):
            return str(error.body or error.hint or type(error).__name__)
        cause = error.__cause__
        return str(cause) if cause is not None and str(cause) else str(error)
    return str(error)


def _message_in(body: object) -> str | None:
    """Find the message in an error body; None if there is none."""
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    if not isinstance(body, dict):
        return None
    table = cast("dict[str, object]", body)
    for name in ("error", "message", "detail", "msg"):
        found = table.get(name)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, dict):
            inner = _message_in(cast("object", found))
            if inner:
                return inner
    return None
