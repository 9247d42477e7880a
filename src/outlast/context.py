"""Which session the running code belongs to: for tools, hooks and libraries that are called somewhere below a turn.

A context variable, so concurrent turns in one process never see each other's; threads that are started with a copied
context see it too. A child process finds it in its environment.
"""

from __future__ import annotations

from contextvars import Token

from outlast.app.settings import variables
from outlast.runtime.current_session import current

SESSION_ID = "OUTLAST_SESSION_ID"


def current_session_id() -> str | None:
    """The session of the running turn; in a child process of one, the session that started it; else None."""
    return current.get() or variables([SESSION_ID]).get(SESSION_ID)


def set_current_session_id(session_id: str | None) -> Token[str | None]:
    """Say which session this is, from here on in this context; a rotation says it again."""
    return current.set(session_id)


def get_session_env(name: str, default: str = "") -> str:
    """A variable of the session: `OUTLAST_SESSION_ID` of the running turn, anything else from the environment."""
    if name == SESSION_ID:
        return current_session_id() or default
    return variables([name]).get(name, default)
