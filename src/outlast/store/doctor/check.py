"""The result of one health check."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from outlast._version import DISTRIBUTION
from outlast.core.errors import OutlastError, SchemaTooNew


class CheckStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`text` is what was found, `remedy` what the user can do about it."""

    name: str
    status: CheckStatus
    text: str
    remedy: str | None = None


def ok(name: str, text: str) -> Check:
    return Check(name=name, status=CheckStatus.OK, text=text)


def warn(name: str, text: str, remedy: str) -> Check:
    return Check(name=name, status=CheckStatus.WARN, text=text, remedy=remedy)


def unusable(error: OutlastError, remedy: str) -> Check:
    """The failed check for a store that cannot be opened; a schema that is too new has its own remedy."""
    if isinstance(error, SchemaTooNew):
        remedy = f"pip install -U {DISTRIBUTION}"
    return fail("store", str(error), remedy)


def fail(name: str, text: str, remedy: str) -> Check:
    return Check(name=name, status=CheckStatus.FAIL, text=text, remedy=remedy)
