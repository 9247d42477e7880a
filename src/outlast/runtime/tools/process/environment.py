"""The environment of a shell command: the user's, without secrets and without variables that run other code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache

from outlast.runtime.permissions.shell.git import UNSET

SECRET = (
    "*_API_KEY", "*_KEY", "*_KEY_ID", "*APIKEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*_PAT", "*_DSN", "AWS_*", "AZURE_*", "GOOGLE_APPLICATION_*", "OPENAI_*", "ANTHROPIC_*",
    "GEMINI_*", "OUTLAST_*",
)  # fmt: skip
MEDDLING = (
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "PROMPT_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "LD_PRELOAD",
    "LD_AUDIT",
    *UNSET,
)
"""Variables that make a shell or a program run something before the command that was judged."""

QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}
"""No user is there to scroll, answer or edit."""

_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def clean_environment(environ: Mapping[str, str], session_id: str = "") -> dict[str, str]:
    """Return what a command may see of `environ`: no keys, tokens or passwords, not even inside a URL."""
    kept = {name: value for name, value in environ.items() if _harmless(name) and not _PASSWORD_IN_URL.search(value)}
    kept.update(QUIET)
    if session_id:
        kept["OUTLAST_SESSION_ID"] = session_id
    return kept


@cache
def _harmless(name: str) -> bool:
    return not any(fnmatchcase(name.upper(), pattern) for pattern in (*SECRET, *MEDDLING))
