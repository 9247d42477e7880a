"""The id of the current session, for tools, hooks and libraries that are called during a turn.

It is a context variable: concurrent turns in one process never see each other's id, and threads started with a copied
context see it too. A child process finds the id in its environment.
"""

from __future__ import annotations

from contextvars import Token

from outlast.app.settings import variables
from outlast.runtime.current_session import current

SESSION_ID = "OUTLAST_SESSION_ID"


def current_session_id() -> str | None:
    """Return the session of the running turn; in a child process of a turn, the session that started it; else None."""
    return current.get() or variables([SESSION_ID]).get(SESSION_ID)


def set_current_session_id(session_id: str | None) -> Token[str | None]:
    """Set the current session for the rest of this context; a rotation sets it again."""
    return current.set(session_id)


def get_session_env(name: str, default: str = "") -> str:
    """Read a variable: `OUTLAST_SESSION_ID` comes from the running turn, every other name from the environment."""
    if name == SESSION_ID:
        return current_session_id() or default
    return variables([name]).get(name, default)
