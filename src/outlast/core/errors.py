"""Every error that Outlast raises on purpose.

The docstring of a class is its default message; the message passed by the raising code names the cause and the remedy.

    OutlastError
    ├── ConfigError            a setting or a configuration file is wrong
    ├── MissingExtra           an optional part is not installed
    ├── SessionNotFound        no session has this id
    │   └── SessionDeleted     the session existed and was deleted on purpose
    ├── AmbiguousSession       the prefix matches several sessions
    ├── DamagedSession         stored bytes do not verify; never reported as missing or empty
    ├── OutcomeUnknown         the write may or may not be durable; repeat it with the same key
    ├── ModelError             the model did not answer
    │   ├── ModelUnavailable   a temporary failure: the caller may retry
    │   ├── ModelRefused       the provider rejects this request; a retry does not help
    │   │   ├── ContextOverflow    the window is larger than the model's context
    │   │   └── ToolsUnsupported   the server does not support tools for this model
    │   └── ScriptExhausted    a scripted model got more requests than it has replies
    ├── InvalidTransition      a turn attempted a phase change that is not allowed
    └── Refused                nothing was written
        ├── InvalidInput       the value cannot be stored
        ├── ConflictError      the head moved, or another writer was faster
        │   └── KeyUsed        the key was used with other content
        ├── SessionEnded       the session takes no more input
        ├── SessionBusy        another process holds the lease
        ├── StaleLease         another driver took over the lease
        └── StoreUnavailable   the store cannot be reached, opened or written
            └── SchemaTooNew   the store was written by a newer Outlast
"""

from __future__ import annotations

from outlast._version import DISTRIBUTION


class OutlastError(Exception):
    """Outlast could not do what was asked."""

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(OutlastError):
    """A setting is wrong."""


class MissingExtra(OutlastError):
    """An optional part of Outlast is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an optional part: pip install '{DISTRIBUTION}[{extra}]'")
        self.extra = extra


class SessionNotFound(OutlastError):
    """There is no such session."""

    exit_code = 3


class SessionDeleted(SessionNotFound):
    """The session was deleted; only its tombstone is left."""


class AmbiguousSession(OutlastError):
    """The prefix fits more than one session."""

    exit_code = 3

    def __init__(self, prefix: str, matches: list[str]) -> None:
        super().__init__(f"'{prefix}' fits {len(matches)} sessions: {', '.join(matches)}; type more characters")
        self.prefix = prefix
        self.matches = matches


class DamagedSession(OutlastError):
    """The stored session is damaged."""

    def __init__(self, session_id: str, seq: int | None, what: str) -> None:
        where = f" at event {seq}" if seq else ""
        super().__init__(
            f"session {session_id} is damaged{where}: {what}; "
            "`outlast verify` lists all damage, undamaged events can still be exported"
        )
        self.session_id = session_id
        self.seq = seq
        self.what = what


class OutcomeUnknown(OutlastError):
    """It is not known whether this was stored."""

    def __init__(self, message: str | None = None, *, key: str | None = None) -> None:
        told = message or "it is not known whether this was stored"
        super().__init__(
            f"{told}; repeat the same write with key=error.key: it is stored once, and you get its receipt"
        )
        self.key = key
        self.told = told
        """The message without the remedy, for doors that state their own."""


class ModelError(OutlastError):
    """The model did not answer."""


class ModelUnavailable(ModelError):
    """The model cannot be reached just now; the caller may retry.

    `retry_after` is the wait in seconds that the provider requested, None if it gave none.
    """

    def __init__(
        self, message: str | None = None, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message or "the model cannot be reached just now; try again later")
        self.status = status
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The model's provider refuses this request; asking again changes nothing."""

    def __init__(self, message: str | None = None, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContextOverflow(ModelRefused):
    """The window is larger than the model's; compact the session or choose a model with a larger one."""


class ToolsUnsupported(ModelRefused):
    """The server does not support tools for this model."""

    def __init__(self, message: str | None = None, *, status: int | None = None) -> None:
        told = message or "the server does not support tools for this model"
        super().__init__(f"{told}; use --dialect text", status=status)
        self.told = told
        """The message without the remedy, for a session that switches by itself."""


class ScriptExhausted(ModelError):
    """The scripted model has no reply left."""


class InvalidTransition(OutlastError):
    """A turn cannot go from this phase to that one."""


class Refused(OutlastError):
    """The write was refused; nothing was stored."""


class InvalidInput(Refused):
    """The value cannot be stored."""


class ConflictError(Refused):
    """The write conflicts with what is stored."""

    exit_code = 4


class KeyUsed(ConflictError):
    """The key stands for something else: for what was written up to event `seq` of a session."""

    def __init__(self, message: str, *, session_id: str, seq: int) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.seq = seq


class SessionEnded(Refused):
    """The session has ended; reopen or fork it to go on."""

    exit_code = 4


class SessionBusy(Refused):
    """Another process is driving the session."""

    exit_code = 4


class StaleLease(Refused):
    """The lease was taken over; this driver may not write any more."""

    exit_code = 4


class StoreUnavailable(Refused):
    """The store cannot be used."""


class SchemaTooNew(StoreUnavailable):
    """The store was written by a newer Outlast; upgrade this one."""
