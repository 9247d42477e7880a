"""Windows of made-up logs, as tests read them."""

from outlast.core.window import Window, window
from tests.support.histories import Log

LIMIT = 1000


def seen(log: Log, provider: str | None = None) -> Window:
    return window(log.rows, log.state, provider=provider, max_image_bytes=LIMIT)


def lines(log: Log) -> list[str]:
    """The window as `role: content`."""
    return [f"{message.role}: {message.content}" for message in seen(log).messages]


def repairs(log: Log) -> list[str]:
    return [repair.what for repair in seen(log).repairs]
